// Log-probabilities of a text under a model, in windows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "assay/backend/backend.h"

namespace assay {

// The fixed-length protocol of the Transformers perplexity guide
// (https://huggingface.co/docs/transformers/perplexity): windows of `context` tokens begin every `stride`
// tokens; a window scores the tokens no earlier window has scored, each given what precedes it in the window.
// The very first token of a window has nothing before it and is not scored, so n tokens give n - 1 scores
// when stride < context and n - ceil(n / context) when stride = context (but a last window of one token
// scores none).
struct ScoreOptions {
  std::int64_t context = 0;  // 0 = the model's
  std::int64_t stride = 0;   // 0 = half the context
  std::int64_t batch = 4;    // windows computed together; changes speed, never a bit of the result
  std::function<void(std::int64_t done, std::int64_t windows)> on_progress = {};
  std::function<bool()> should_stop = {};  // true: ends with an Error that says so
};

struct Score {
  double loss = 0;  // mean negative log-likelihood per scored token, natural logarithm, summed in double
  double perplexity = 0;  // exp(loss)
  std::int64_t tokens = 0, tokens_scored = 0, windows = 0;
  std::int64_t context = 0, stride = 0;
  std::string protocol;                   // "hf context=1024 stride=512"
  std::vector<double> log_probabilities;  // of every scored token, in text order
};

// Throws Error for fewer than two tokens, ids outside the vocabulary, or a result that is not finite;
// UsageError for a context or stride out of range.
Score score(Program& program, std::span<const TokenId> ids, const ScoreOptions& options);

}  // namespace assay
