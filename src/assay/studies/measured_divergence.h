// How far candidates are from a baseline, token by token: what the study and the command `assay diverge`
// share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/harness/session.h"
#include "assay/statistics/divergence_statistics.h"

namespace assay {

struct DivergenceRun {
  std::vector<RunConfig> configurations;  // the first is the baseline
  DivergeRequest request;
  bool measures_floor = true;
};

struct MeasuredCandidate {
  RunConfig configuration;
  SessionFacts facts = {};
  std::string failure = {};                                   // why it has no tokens
  std::vector<TokenDivergence> tokens = {};                   // as MeasuredDivergences::scored has them
  std::optional<statistics::DivergenceFigures> figures = {};  // made of the tokens
  std::optional<GreedyDivergence> greedy = {};                // where that was asked for
};

struct MeasuredDivergences {
  RunConfig baseline;
  SessionFacts baseline_facts;
  std::vector<MeasuredCandidate> candidates;  // as they were asked for
  // KL of the baseline against itself in the other of float32 and bfloat16: what a change of arithmetic alone
  // makes of it, where the weights are stored in bfloat16, and of rounding them too elsewhere. The same
  // arithmetic in another batch or on another number of threads gives exactly 0 by design.
  std::optional<statistics::Estimate> floor;
  std::string floor_of;  // "float32 against bfloat16"; empty: it was not measured
  std::string corpus_sha256, protocol;
  std::vector<TokenId> ids;
  std::vector<std::int64_t> scored;  // places in `ids`
  std::vector<Warning> warnings;
  int passes = 0;      // over the baseline: one, where memory holds it with all candidates
  double seconds = 0;  // that all passes took, without loading
  bool is_interrupted = false;
  bool was_late = false;  // a pass would have begun too late: its candidates have neither tokens nor failure
};

// The baseline in the other of float32 and bfloat16, which the floor is measured with.
RunConfig floor_configuration(const RunConfig& baseline);

// Where the KL is below it, nothing shows more than the noise floor.
inline constexpr double kFloorFactor = 3;
bool is_within_floor(const MeasuredCandidate& candidate, const MeasuredDivergences& all);

// Loads the baseline with as many candidates as memory holds, several times where it does not hold all. Where
// a process is lost, its candidates are tried one by one. Throws Error where the baseline or the text is at
// fault.
MeasuredDivergences measure_divergences(const ExperimentContext& context, const DivergenceRun& run);

statistics::DivergenceTokens divergence_tokens(std::span<const TokenDivergence> tokens);
std::vector<double> kl_of(std::span<const TokenDivergence> tokens);

// All pairs of candidates that were measured, by place, each with the verdict of a family that is corrected
// together (Holm): -1 the first diverges less, 1 more, 0 undecided. The chance of any false one is this at
// most. Of an undecided pair, `tokens_needed` counts what the family asks for.
inline constexpr double kFalsePairVerdict = 0.05;
struct DivergencePair {
  std::size_t first = 0, second = 0;
  statistics::PairedDivergence paired = {};
  int verdict = 0;
  int divisor = 1;  // divides the error level
};
std::vector<DivergencePair> compare_pairs(std::span<const MeasuredCandidate> candidates);

}  // namespace assay
