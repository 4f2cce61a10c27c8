// Log-probabilities of a text under a model, in windows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/token_id.h"

namespace assay {

class Program;  // backend/backend.h

// How the tokens of a window go through the model: many at once, as a prompt does, or one after the other,
// each a decode step with the cache of those before it. The windows and the scored tokens are the same. In
// float32 both give the same bits; where a precision's decode has another arithmetic than its prefill, this
// tells what each costs.
enum class ScoreThrough { prefill, decode };
// Throws UsageError for a name that is none.
ScoreThrough score_through_from_name(std::string_view name);
std::string_view name_of(ScoreThrough through);

// The fixed-length protocol of the Transformers perplexity guide
// (https://huggingface.co/docs/transformers/perplexity): windows of `context` tokens begin every `stride`
// tokens; a window scores the tokens no earlier window has scored, each given what precedes it in the window.
// The very first token of a window has nothing before it and is not scored, so n tokens give n - 1 scores
// when stride < context and n - ceil(n / context) when stride = context (but a last window of one token
// scores none).
struct ScoreOptions {
  std::optional<std::int64_t> context = {};  // unset: the model's
  std::optional<std::int64_t> stride = {};   // unset: half the context
  ScoreThrough through = ScoreThrough::prefill;
  // Windows computed together; unset: 4 through prefill, where it changes speed alone (but for llm-int8,
  // whose outliers are those of a call), and 1 through decode, where a step of more is one of batched
  // decoding, with its arithmetic.
  std::optional<std::int64_t> batch = {};
  std::function<void(std::int64_t done, std::int64_t windows)> on_progress = {};
  std::function<bool()> should_stop = {};  // true: ends with an Error that says so
};

struct Score {
  double loss = 0;  // mean negative log-likelihood per scored token, natural logarithm, summed in double
  double perplexity = 0;  // exp(loss)
  std::int64_t tokens = 0, tokens_scored = 0, windows = 0;
  std::int64_t context = 0, stride = 0;
  // "hf context=1024 stride=512", and " through=decode", " batch=4" where decode steps are of more than one.
  std::string protocol;
  std::vector<double> log_probabilities;  // one for every scored token, in text order
};

// Throws Error for fewer than two tokens, ids outside the vocabulary, or a result that is not finite;
// UsageError for a context or stride out of range.
Score score(Program& program, std::span<const TokenId> ids, const ScoreOptions& options);

}  // namespace assay
