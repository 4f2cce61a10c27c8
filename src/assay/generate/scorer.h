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
#include "assay/generate/scored_sequences.h"
#include "assay/generate/windows.h"

namespace assay {

struct ScoreOptions {
  // hf is the fixed-length protocol of the Transformers perplexity guide
  // (https://huggingface.co/docs/transformers/perplexity): n tokens give n - 1 scores when stride < context
  // and n - ceil(n / context) when stride = context (but a last window of one token scores none).
  std::optional<std::int64_t> context = {};  // unset: the model's; llama.cpp 512, gptq 2048, at most that
  std::optional<std::int64_t> stride = {};   // unset: of hf half the context; lm-eval and gptq have none
  ScoreThrough through = ScoreThrough::prefill;
  // Windows computed together; unset: 4 through prefill, where it changes speed alone (but for llm-int8,
  // whose outliers are those of a call), and 1 through decode, where a step of more is one of batched
  // decoding, with its arithmetic.
  std::optional<std::int64_t> batch = {};
  std::function<void(std::int64_t done, std::int64_t windows)> on_progress = {};
  std::function<bool()> should_stop = {};  // true: ends with an Error that says so
  Protocol protocol = Protocol::hf;
  // What stands in the windows, as WindowRule has it: ids begin with the token where the rule says so. For a
  // text (session/perplexity.h), unset: the protocol's, which follows the tokenizer; for ids, unset: none.
  std::optional<BosRule> bos = {};
  std::optional<TokenId> bos_token = {};  // for lm-eval, each and replace; for a text, unset: the tokenizer's
  std::optional<std::int64_t> max_tokens = {};  // how many of a text are scored; unset: all
};

struct Score {
  double loss = 0;  // mean negative log-likelihood per scored token, natural logarithm, summed in double
  double perplexity = 0;  // exp(loss)
  std::int64_t tokens = 0, tokens_scored = 0, windows = 0;
  std::int64_t context = 0, stride = 0;  // a stride of 0: none
  // "hf context=1024 stride=512", and " through=decode", " batch=4" where decode steps are of more than one.
  std::string protocol;
  std::vector<double> log_probabilities;  // one for every scored token, in text order
  // The perplexity by the protocol's own formula: that of the guide counts each window as one token less than
  // it scores, but the first; llama.cpp's, lm-eval's per token and GPTQ's are exp(loss).
  double protocol_perplexity = 0;
};

// Tokens per window where none are asked for, of a model with a context of `limit`.
std::int64_t usual_context(Protocol protocol, std::int64_t limit);

// Throws Error for fewer tokens than a protocol scores (two; for llama.cpp two windows, for gptq one), ids
// outside the vocabulary, or a result that is not finite; UsageError for a context or stride out of range.
Score score(Program& program, std::span<const TokenId> ids, const ScoreOptions& options);

}  // namespace assay
