// Log-probabilities of given tokens: what perplexities and tasks of multiple choice are made of.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
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

// Inputs of a model, and tokens that the inputs from first_row on may predict. Each list in `targets` is an
// alternative to the others, no longer than inputs.size() - first_row; the model runs once for all of them.
struct ScoredSequence {
  std::vector<TokenId> inputs;
  std::int64_t first_row = 0;
  std::vector<std::vector<TokenId>> targets;
};

struct ScoredTargets {
  std::vector<std::vector<double>> log_probabilities;  // natural logarithms, as the targets are
  // The most probable token after each input from first_row on, the lowest id of equals; where it was asked
  // for.
  std::vector<TokenId> greedy;
};

// Runs the sequences together and scores them. `stop` is called before each step of decoding, and throws to
// end it. Throws Error for ids outside the vocabulary and sequences longer than the context.
std::vector<ScoredTargets> score_sequences(Program& program, std::span<const ScoredSequence> sequences,
                                           ScoreThrough through, bool wants_greedy,
                                           const std::function<void()>& stop);

}  // namespace assay
