// How much candidates differ from a baseline on a text: loaded models in, a few numbers for each token out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/generate/divergence.h"
#include "assay/session/load.h"

namespace assay {

struct CorpusDivergenceOptions {
  std::optional<std::int64_t> context = {}, stride = {};  // as in DivergenceOptions
  std::optional<std::int64_t> max_tokens = {};            // the text's first ones; unset: all
  std::function<void(std::int64_t done, std::int64_t windows)> on_progress = {};
  std::function<bool()> should_stop = {};
};

// Where greedy generation of a candidate first chooses another token than the baseline's.
struct GreedyDivergence {
  std::string failure = {};       // why it is not known
  std::int64_t equal_tokens = 0;  // that both choose before; `new_tokens` where they never part
  std::int64_t new_tokens = 0;    // that the baseline generated
  TokenId base_token = 0;         // the baseline's choice where they part
  double base_margin = 0;         // and its log-probability minus that of the baseline's second choice
};
struct CorpusDivergence {
  std::vector<TokenId> ids;   // that went through the models
  std::string corpus_sha256;  // as in CorpusScore, of the whole text
  Divergence divergence;
  double seconds = 0;                         // that the forward passes and comparisons took
  std::vector<GreedyDivergence> greedy = {};  // one for each candidate, where that was asked for
  std::vector<Warning> warnings;
};

// Why the ids of two models cannot be taken for the same tokens; empty where they can. Rows of the LM head
// beyond the tokens of both tokenizers are padding and may differ in number.
std::string other_vocabulary(const LoadedModel& base, const LoadedModel& candidate);

// Tokenizes the text with the baseline's tokenizer, special tokens as score_file() has them. A candidate
// whose vocabulary is another, whose tokenizer gives the text other ids, or that was calibrated on the text
// has a failure that says so, and is not run. Throws as score_file() and measure_divergence().
CorpusDivergence diverge_on_file(const LoadedModel& base, std::span<const LoadedModel* const> candidates,
                                 const std::filesystem::path& file,
                                 const CorpusDivergenceOptions& options = {});
// The same for token ids.
CorpusDivergence diverge_on_ids(const LoadedModel& base, std::span<const LoadedModel* const> candidates,
                                std::vector<TokenId> ids, const CorpusDivergenceOptions& options = {});

// The baseline generates from `prompt`; each candidate reads that text, so that its choices are those of its
// prefill. Throws as generate().
std::vector<GreedyDivergence> greedy_divergence(const LoadedModel& base,
                                                std::span<const LoadedModel* const> candidates,
                                                const std::vector<TokenId>& prompt, std::int64_t new_tokens,
                                                const std::function<bool()>& should_stop = {});

}  // namespace assay
