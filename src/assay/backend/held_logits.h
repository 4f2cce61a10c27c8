// Logits that never leave the device that has made them: a divergence takes a few numbers of each slice.
#pragma once

#include <cstdint>
#include <span>

#include "assay/backend/head.h"
#include "assay/base/token_id.h"

namespace assay {

// A program's logits of some rows, in its own memory on the device. Rows are few where the vocabulary is
// large: what two programs hold, a baseline and a candidate, stays within kHeldBytes.
inline constexpr std::int64_t kHeldBytes = 64'000'000;
constexpr std::int64_t slices_of(std::int64_t vocab) {
  return (vocab + kHeadSlice - 1) / kHeadSlice;
}
class HeldLogits {
 public:
  virtual ~HeldLogits() = default;
  virtual std::int64_t most_rows() const = 0;
  // Whether reduce() takes what `base` holds: it does within one device.
  virtual bool is_beside(const HeldLogits& base) const = 0;
  // Program::head() of up to most_rows() rows, whose logits are held until the program's next run(), head()
  // or hold().
  virtual void hold(std::span<const std::int64_t> rows) = 0;
  // Reduces the first `vocab` logits of the rows that are held: out is [rows][slices_of(vocab)]. `base` is
  // null, or holds the baseline's logits of the same rows. There is a target for each row.
  virtual void reduce(const HeldLogits* base, std::int64_t vocab, std::span<const TokenId> targets,
                      std::span<RowSlice> out) = 0;
};

}  // namespace assay
