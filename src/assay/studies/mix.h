// A format for each part of a model under a budget: scores of each part in each format, the best choice by
// their sums, exchanges where the sums mislead, and its measurement beside its neighbours and uniform formats
// on another text than it was chosen by.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/results/limits.h"
#include "assay/studies/mix_table.h"
#include "assay/studies/sensitivity.h"

namespace assay {

struct MixOptions {
  std::vector<WeightFormat> candidates;  // each once
  // memory: the least KL within so many bytes of weights. kl: the fewest bytes within a sum of KL. agreement:
  // the fewest bytes whose top-1 agreement, measured with all parts together on the text it is chosen by, is
  // that, by bisection. token or tokens-per-s alone: the least KL within the time of a decode step.
  Limit limit;
  // token or tokens-per-s beside memory or kl: what a decode step takes too, by the sum of the parts' times.
  std::optional<Limit> time_limit = {};
  std::string name = "mix";  // the recipe's
  std::int64_t item_tokens =
      0;  // the first tokens of the text it is chosen by that items are scored on; 0: all
  std::int64_t most_exchanges = 12;  // pairs of items, tried where the sum misleads
  SensitivityOptions measuring = {};
};

struct MixRow {
  std::string name;  // "mix", "smaller", "larger", or uniform_name() of the format that all parts have
  Recipe recipe;
  FormatChoice choice;
  Bytes bytes;
  double predicted_kl = 0;                  // the sum of the parts' scores
  statistics::Estimate kl, top1_agreement;  // on the tokens held out
  // Seconds of a decode step, by the sum of the parts and measured; where times are limited.
  std::optional<double> predicted_step = {}, step = {};
  // The mix less this one, on the tokens held out; of the mix itself there is none.
  std::optional<statistics::PairedDivergence> against_mix = {};
  // -1: the mix diverges less, 1: more, of all uniform formats that are no larger, corrected together
  // (Hochberg); 0: undecided. Larger formats have no verdict.
  int verdict = 0;
  bool is_in_contest = false;  // a uniform format of at most the mix's size that is another recipe
};

// What the mix gave with all parts together, on the text it is chosen by.
struct MixTogether {
  std::int64_t tokens = 0;
  statistics::Estimate kl;      // measured, of the choice by sums
  double predicted_kl = 0;      // on the tokens of the scores
  statistics::Estimate excess;  // measured less predicted, on those tokens
  bool is_misled = false;       // the sum is outside of the intervals; without them, adds_up() would fail
  std::int64_t tried = 0, kept = 0;  // exchanges of two items
  std::string uniform_instead = {};  // a uniform format within the limits that diverged less, taken instead
};

// A candidate that is not offered to some items, as their inputs are no whole number of its blocks; it is no
// uniform format then.
struct LeftOutFormat {
  WeightFormat format;
  std::vector<std::string> items = {};
};

struct Mix {
  MixRow chosen;
  std::vector<MixRow>
      neighbours;               // the next on the curve of the least KL, smaller and larger, where there are
  std::vector<MixRow> uniform;  // by bytes
  MixTable table;               // by item and candidate, in the order of the options
  std::vector<std::string> items;  // their names
  MixTogether together;
  std::string protocol;
  std::int64_t tokens_scored = 0, tokens_held_out = 0;
  double slack = 0;  // MixChooser::slack()
  std::vector<LeftOutFormat> left_out(std::span<const WeightFormat> candidates) const;
  bool is_uniform() const;      // the mix is one of them
  bool has_beaten_all() const;  // there is a contest, and the mix diverges less in all of it
};

// Throws Error naming the smallest recipe, or the closest, where no choice keeps the limits, and as
// ItemExchange does, and naming an item whose inputs no candidate has blocks for; FieldError for candidates
// and limits of another kind.
Mix find_mix(ItemExchange& model, std::span<const TokenId> chosen_by, std::span<const TokenId> held_out,
             const MixOptions& options);

// What rows and `assay diverge` call a model with all parts in a format, the LM head too: "q4_k+head:q4_k",
// "bfloat16".
std::string uniform_name(const WeightFormat& format);
// The bound on the seconds of a decode step that a limit on token or tokens-per-s sets.
double step_bound(const Limit& limit);
// token and tokens-per-s.
bool is_time_limit(const Limit& limit);

}  // namespace assay
