// A format for each part of a model under a budget: scores of each part in each format, the best choice by
// their sums, and its measurement beside uniform formats on another text than the scores came from.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/results/limits.h"
#include "assay/studies/sensitivity.h"

namespace assay {

struct MixOptions {
  std::vector<WeightFormat> candidates;  // each once
  // memory: the least KL within so many bytes of weights. kl: the fewest bytes within a sum of KL. agreement:
  // the fewest bytes whose top-1 agreement, measured with all parts together on the tokens of the scores, is
  // that, by bisection.
  Limit limit;
  std::string name = "mix";  // the recipe's
  SensitivityOptions measuring = {};
};

struct MixRow {
  std::string name;  // "mix", or the format that all parts have
  Recipe recipe;
  Bytes bytes;
  std::optional<double> predicted_kl;       // the sum of the parts' scores
  statistics::Estimate kl, top1_agreement;  // on the tokens held out
  // The mix less this one, on the tokens held out; of the mix itself there is none.
  std::optional<statistics::PairedDivergence> against_mix = {};
  // -1: the mix diverges less, 1: more, of all uniform formats that are no larger, corrected together
  // (Bonferroni); 0: undecided. Larger formats have no verdict.
  int verdict = 0;
  bool is_in_contest = false;  // a uniform format of at most the mix's size that is another recipe
};

struct Mix {
  MixRow chosen;
  std::vector<MixRow> uniform;  // by bytes
  std::string protocol;
  std::int64_t tokens_scored = 0, tokens_held_out = 0;
  std::int64_t slack = 0;       // KnapsackFront::slack()
  bool is_uniform() const;      // the mix is one of them
  bool has_beaten_all() const;  // there is a contest, and the mix diverges less in all of it
};

// Throws Error naming the smallest recipe, or the closest, where no choice keeps the limit, and as
// ItemExchange does; FieldError for candidates and limits of another kind.
Mix find_mix(ItemExchange& model, std::span<const TokenId> scored, std::span<const TokenId> held_out,
             const MixOptions& options);

}  // namespace assay
