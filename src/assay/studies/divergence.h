// The study of divergence: how far every precision is from the baseline, token by token on one text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"

namespace assay {

struct DivergenceStudyOptions {
  std::vector<std::string> precisions = {};          // empty: default_precisions(); the first is the baseline
  std::optional<std::filesystem::path> corpus = {};  // unset: the text that ships
  std::optional<std::int64_t> context = {}, stride = {};  // unset: the shortest context, and half of it
  std::int64_t max_tokens = 4096;                         // the text's first ones
  // Instead of a text, one of so many tokens that the baseline writes (session/sampled_text.h); 0: the text.
  std::int64_t sample_tokens = 0;
};
// A row per configuration but the baseline, with its KL divergence from it, and a finding that compares the
// two with the smallest weights. Configurations of a model whose tokenizer gives the text other ids are left
// out.
ExperimentResult run_divergence(const ExperimentContext& context, const DivergenceStudyOptions& options = {});

}  // namespace assay
