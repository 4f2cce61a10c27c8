// Scores the items of a task by the rules of lm-eval's loglikelihood requests.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/base/token_id.h"
#include "assay/session/load.h"
#include "assay/session/task_items.h"

namespace assay {

// A request as tokens, truncated on the left to what the model's context holds.
struct TaskTokens {
  std::vector<TokenId> inputs;  // all but the last token
  std::vector<TokenId> continuation;
  std::int64_t cut = 0;     // tokens that were cut off
  bool is_shifted = false;  // a token spans the border of context and continuation: lm-eval's cut moves it

  // The input that predicts the first token of the continuation.
  std::int64_t first_row() const { return std::ssize(inputs) - std::ssize(continuation); }
};
// Blanks at the end of a context belong to the continuation, whose ids are those of the whole without the
// first that the context alone has. Both have the tokenizer's special tokens, unless they begin with the
// prefix. An empty context is the prefix token: BOS, else end-of-text. Throws Error where the continuation
// has no token, or more than `context`; `where` begins its message.
TaskTokens task_tokens(const Tokenizer& tokenizer, TokenId prefix, const TaskRequest& request,
                       std::int64_t context, const std::string& where);

struct ItemScore {
  std::vector<double> log_likelihoods;  // one for each request: the sum over its continuation
  std::vector<std::int64_t> tokens;     // in each continuation
  bool is_greedy = false;               // each token of a completion is the most probable one
  bool operator==(const ItemScore&) const = default;
};

struct TaskScores {
  std::vector<ItemScore> items;
  std::string sha256;                       // the file's hash
  std::int64_t truncated = 0, shifted = 0;  // requests
  double seconds = 0;                       // that the forward passes took
  std::vector<Warning> warnings;
};

struct TaskScoreOptions {
  std::function<void(std::int64_t done, std::int64_t items)> on_progress = {};
  std::function<bool()> should_stop = {};  // true: ends with an Error that says so
};
// Requests of an item that have the same inputs (choices of one token) run once. A warning tells of items of
// which the model's calibration has read a passage. Throws Error for a model
// without a tokenizer, and as task_tokens().
TaskScores score_task(const LoadedModel& loaded, const TaskItems& items, const std::string& file,
                      const TaskScoreOptions& options = {});

// What the scores say. `is_right` of items of choices is by plain log-likelihoods.
struct TaskFigures {
  std::vector<bool> is_right, is_right_norm, is_right_bytes;  // the last two of choices alone
  double acc = 0;
  // The choice whose log-likelihood is highest per character, and per byte of UTF-8; of equals the first.
  std::optional<double> acc_norm = {}, acc_bytes = {};
  // For completions: exp of the mean loss of a completion, which is the perplexity that lm-eval prints for
  // LAMBADA; and of the mean loss of a token.
  std::optional<double> completion_perplexity = {}, token_perplexity = {};
};
// Throws Error where the scores are of other items.
TaskFigures figures_of(const TaskItems& items, std::span<const ItemScore> scores);

}  // namespace assay
