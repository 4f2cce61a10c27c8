// Perplexities as the command shows them: lines, a table, JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "assay/cli/options.h"
#include "assay/results/verdict.h"
#include "assay/session/perplexity.h"

namespace assay::cli {

struct PerplexityFlags {
  ModelFlags model;
  std::vector<std::string> others;
  std::string baseline;  // one of the models; empty: the first
  OutputFlags output;
  std::string file, sentences, protocol = "hf", bos, through = "prefill";
  std::int64_t context = 0, stride = 0, batch = 0;
  std::int64_t max_tokens = 0;  // the text's first ones; 0: all
  std::int64_t sample = 0;      // tokens that the model writes; 0: none, a file is read
  bool is_ids = false;

  const std::string& scored_file() const { return sentences.empty() ? file : sentences; }
};

// Standard errors of a perplexity.
struct Errors {
  std::optional<double> by_blocks, independent;
};
struct ScoredModel {
  std::string id, dtype;
  std::vector<TokenId> ids;
  CorpusScore scored;
  Errors errors;
  std::string failure;                   // why it has no score; of several models the others go on
  std::vector<Warning> warnings;         // what loading and scoring say
  std::optional<Comparison> comparison;  // with the first model
};

// One model's, and that of several.
nlohmann::ordered_json perplexity_json(const PerplexityFlags& flags, const ScoredModel& model);
nlohmann::ordered_json perplexity_json(const PerplexityFlags& flags, const std::vector<ScoredModel>& models);
std::string perplexity_table(const std::vector<ScoredModel>& models);
// The figures to standard output where the model stands alone, and what is said of them to standard error.
void show_perplexity(const PerplexityFlags& flags, const ScoredModel& model);

}  // namespace assay::cli
