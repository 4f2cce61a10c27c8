// What devices ask of a batch before they run it, and which of its rows have hidden states afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "assay/backend/backend.h"

namespace assay {

// Throws Error for an id outside the vocabulary, which names the model.
void check_token_ids(const Plan& plan, std::span<const TokenId> ids);

// Throws Error for a batch of more than `max_rows` rows, an id outside the vocabulary, and a position or a
// sequence that leaves the plan's context within `steps` steps, of which each adds a token to every sequence.
void check_batch(const Batch& batch, const Plan& plan, const KvCache& cache, std::int64_t max_rows,
                 std::int64_t steps = 1);

// The rows of the last batch that have hidden states, and where: those that are kept move to the front.
class HiddenRows {
 public:
  // A new step, of which all rows have hidden states once it has ended, unless only some are kept.
  void begin() { rows_ = 0, keeps_all_ = true; }
  // Ascending.
  void keep(std::vector<std::int64_t> rows) { kept_ = std::move(rows), keeps_all_ = false; }
  void end(std::int64_t rows) { rows_ = rows; }

  const std::vector<std::int64_t>& kept() const { return kept_; }
  // Where a row of the batch is among the hidden states. Throws Error where it has none.
  std::int64_t place_of(std::int64_t row) const;

 private:
  std::vector<std::int64_t> kept_;
  std::int64_t rows_ = 0;
  bool keeps_all_ = true;
};

}  // namespace assay
