// Logits of every position of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "assay/base/token_id.h"
#include "assay/session/load.h"

namespace assay {

// Row i is what the model gives for the token that follows ids[0] to ids[i].
struct Logits {
  std::int64_t rows = 0, vocab = 0;
  std::vector<float> values = {};  // [rows, vocab]

  std::span<const float> row(std::int64_t i) const {
    return std::span(values).subspan(static_cast<std::size_t>(i * vocab), static_cast<std::size_t>(vocab));
  }
};

// Calls `sink` with the logits of some rows after another, in order, [count, vocab] each: full logits of a
// long text are large. should_stop is asked between the pieces of a long text. Throws Error for no ids, ids
// outside the vocabulary, more ids than the model's context, and logits that are not finite; Stopped where
// should_stop says so.
void for_each_logits(const LoadedModel& loaded, std::span<const TokenId> ids,
                     const std::function<void(std::span<const float>)>& sink,
                     const std::function<bool()>& should_stop = {});

// The same, kept.
Logits compute_logits(const LoadedModel& loaded, std::span<const TokenId> ids,
                      const std::function<bool()>& should_stop = {});

}  // namespace assay
