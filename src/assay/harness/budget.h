// Chooses what a run measures, so that its predicted time fits a budget: a pure function of predicted costs.
//
// A reader decides between variants. That takes a figure of each, then a verdict, then the variants that few
// would take, and last narrower intervals. So whatever fits is added in this order, from nothing:
//   1. what was asked for by a flag, and the first case of all, whether they fit or not;
//   2. the essential cases by Need, with one run in one process and at most kFewTokens new tokens;
//   3. verdicts, study by study: three runs in three processes, or one in three; else three runs in one;
//   4. the other cases by Need, long prompts among them, which are measured once;
//   5. all new tokens, study by study;
//   6. as many processes as there would be without a budget, study by study.
// A step that does not fit is left out, and those after it are tried. Flags fix processes, runs and tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/base/units.h"
#include "assay/harness/case.h"
#include "assay/harness/sweep_options.h"
#include "assay/results/choice.h"

namespace assay {

// What a case answers, in the order of what a decision needs.
enum class Need {
  baseline,
  tradeoff,
  perplexity,
  divergence,
  cache,
  batches,
  padding,
  lengths,
  edge_prompts,
  noise,
  batched_precisions,
  long_prompts,
};

inline constexpr std::int64_t kFewTokens = 16;
// A longer prompt is measured once, and only after everything else that a case may have.
inline constexpr std::int64_t kLongPrompt = 2048;

// What a choice calls a case, which tells it from the others of its study: "lengths, 128 tokens".
std::string choice_key(const Case& spec);

struct CostedCase {
  std::string key = {};            // choice_key()
  std::string label = {};          // that its row has
  std::string value = {};          // that its flag takes; empty: it has none
  std::string configuration = {};  // what is loaded, once in each process for all of its cases
  Need need = Need::baseline;
  bool is_essential = true;
  bool is_asked = false;               // by a flag of its own
  bool is_long = false;                // it is measured once
  double load_s = 0;                   // starting a process, loading, quantizing
  double prefill_s = 0, decode_s = 0;  // one run's, with all new tokens
  double beside_run_s = 0.02;          // beside each run: measuring the roofline, a request
  double once_s = 0;                   // beside its runs: texts, a corpus
  std::int64_t new_tokens = 1;
  double memory_share = 0;  // a configuration's, where 1 is all that may be loaded
  double run_s(std::int64_t most_tokens) const;
};

struct CostedStudy {
  std::string name = {};
  std::vector<CostedCase> cases = {};  // the first is what the others are compared with
  SweepOptions sweep = {};             // as without a budget; what it fixes is kept
  bool has_asked_tokens = false;
  bool is_sweep = true;        // false: each case is loaded and takes once_s
  bool needs_verdict = false;  // fewer than kMinProcesses are of no use
  double once_s = 0;           // beside its cases
};

// `before_s`: what the run has taken so far, which the budget includes.
Choice choose(const std::vector<CostedStudy>& studies, double budget_s, double before_s = 0);

// When a run that began at `begin` begins nothing more: after a little more than it may take, so that what is
// left of a process can end. `earlier_s`: what a run that is resumed had taken before.
TimePoint deadline_of(const Choice& choice, TimePoint begin, double earlier_s = 0);

// Seconds of a study as it is chosen. A study without cases takes none.
double predicted_study_s(const CostedStudy& study, const ChosenStudy& chosen);

}  // namespace assay
