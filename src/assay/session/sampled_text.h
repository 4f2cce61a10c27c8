// A text for models that have none at hand: the baseline writes it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "assay/base/token_id.h"
#include "assay/session/load.h"

namespace assay {

// Sequences of one length, each a window of its own for the scorer: `length` is its context and its stride.
struct SampledText {
  std::vector<TokenId> ids;  // all sequences, one after the other
  std::int64_t length = 0;   // each one's
  std::string label;         // "sample of float32: seed=1 temperature=1 sequences=8x512"
};

inline constexpr std::uint64_t kSampleSeed = 1;
inline constexpr std::int64_t kSampleTokens = 4096, kLongestSample = 512;

// As many sequences as hold `tokens`, each the beginning-of-text token (where there is none, the end-of-text
// token) and what the model draws after it at temperature 1 from all of its vocabulary; an end token ends
// none. Every sequence has its own random stream, so the ids depend on the model's logits and the seed alone.
// `longest`: the shortest context of the models that will read it. Throws Error for a model without either
// token, FieldError for fewer than two tokens, and Stopped.
SampledText sample_text(const LoadedModel& model, std::int64_t tokens, std::int64_t longest,
                        const std::function<bool()>& should_stop = {});

}  // namespace assay
