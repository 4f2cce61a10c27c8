// What two sets of repeats allow to be said: faster, slower, no difference, or nothing yet.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "assay/results/named.h"
#include "assay/statistics/statistics.h"

namespace assay {

// What two equal sessions differ by on this machine at this time: an A/A run of one configuration in two
// processes.
struct NoiseMargin {
  double smallest_difference = 0;  // relative; what as many repeats as planned can still show
  double bias = 0;                 // relative: the centre of their differences
  int pairs = 0, planned = 0;
};
// From log ratios of paired A/A runs: what `planned` pairs resolve, never below their bias.
NoiseMargin noise_margin(std::span<const double> log_ratios, int planned);
// The same margin for another number of pairs: what is not bias narrows with its square root.
double smallest_difference(const NoiseMargin& margin, int pairs);

enum class Verdict { lower, higher, no_difference, cannot_tell, too_few };
inline constexpr int kVerdicts = static_cast<int>(Verdict::too_few) + 1;
std::span<const Named<Verdict>> verdicts();
std::string_view name_of(Verdict verdict);

struct Comparison {
  std::string subject, baseline, metric;  // labels of rows, the metric's tag
  double ratio = 1;                       // subject / baseline
  std::optional<Interval> interval;       // of the ratio; its level is corrected for the other comparisons
  double margin = 0;                      // differences within it count as none
  Verdict verdict = Verdict::too_few;
  // Runs; of perplexity blocks of kLossBlock tokens. more_needed: about, where it cannot tell.
  int pairs = 0, more_needed = 0;
  std::string sentence;  // set_sentence()
};

struct CompareOptions {
  double margin = 0.02;  // relative
  int comparisons = 1;   // that are made together: the level of each is 1 - 0.05 / comparisons (Bonferroni)
};
// Of runs taken in the same blocks: ratio = exp(shift of log ratios), interval by signed ranks. The verdict
// is no_difference where the interval lies within the margin (an equivalence test), lower or higher where it
// excludes 1 and the estimate lies beyond the margin (the same configuration in two processes differs by a
// little that stays), cannot_tell elsewhere, too_few below six pairs. Throws std::logic_error for unequal
// numbers.
Comparison compare_paired(std::span<const double> subject, std::span<const double> baseline,
                          const CompareOptions& options);
// The same of runs that were not paired.
Comparison compare_independent(std::span<const double> subject, std::span<const double> baseline,
                               const CompareOptions& options);
// From a shift of logarithms and its interval that were found otherwise, such as of paired log-losses.
Comparison compare_shift(const std::optional<Shift>& log_shift, int pairs, const CompareOptions& options);

// What the comparison says, without a full stop: "int8 is faster than float32: latency ratio 0.41 [0.4,
// 0.43]".
void set_sentence(Comparison& comparison);
// The verdict in a word or two, as the metric's direction has it: "faster", "higher", "undecided".
std::string verdict_word(const Comparison& comparison);

nlohmann::ordered_json to_json(const Comparison& comparison);
Comparison comparison_from_json(const JsonReader& json);

// {"low": ..., "high": ..., "level": ...}, or null where there is none.
nlohmann::ordered_json interval_to_json(const std::optional<Interval>& interval);
std::optional<Interval> interval_from_json(const JsonReader& json);

}  // namespace assay
