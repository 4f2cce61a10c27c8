// What two sets of repeats are compared by: ratios, effects and verdicts. judge.h gives the verdicts.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/results/named.h"
#include "assay/results/scenario.h"
#include "assay/statistics/replicates.h"
#include "assay/statistics/statistics.h"

namespace assay {

// How much equal processes differ on this machine at this time, from an A/A run of one configuration.
struct NoiseEstimate {
  // Relative standard deviations of the latency: `within` is that of the repeats in a process, `between` that
  // of the processes after the part that their repeats explain.
  double between = 0, within = 0;
  double bias = 0;  // relative: the mean difference of the two
  int processes = 0, rounds = 0;
  // Relative: what one comparison of as many processes detects at a level of 95 % and a power of 90 %.
  double detectable_difference = 0;
};
// From the log ratios of paired A/A runs, by process. Empty below three processes or two rounds.
std::optional<NoiseEstimate> noise_estimate(std::span<const std::vector<double>> log_ratios);

enum class Verdict { lower, higher, no_difference, cannot_tell, too_few };
inline constexpr int kVerdicts = static_cast<int>(Verdict::too_few) + 1;
std::span<const Named<Verdict>> verdicts();
std::string_view name_of(Verdict verdict);

// Fewer processes than the first get no verdict; fewer than the second are named in the sentence.
inline constexpr int kMinProcesses = 3, kUsualProcesses = 5;

// Comparisons of one kind, whose levels are corrected together.
enum class Family { speed, memory, quality };
inline constexpr int kFamilies = static_cast<int>(Family::quality) + 1;
Family family_of(std::string_view metric);  // its tag

struct Comparison {
  Scenario scenario = Scenario::baseline;        // the rows'
  std::string subject, baseline, metric;         // labels of rows, the metric's tag
  double ratio = 1;                              // subject / baseline
  std::optional<statistics::Interval> interval;  // the ratio's; judge.h corrects its level
  double margin = 0;                             // differences within it count as none
  Verdict verdict = Verdict::too_few;
  int pairs = 0;      // how many pairs of runs there are
  int processes = 0;  // replicates: processes; of perplexity, blocks of kLossBlock tokens
  // About how many more replicates a verdict needs, where it cannot tell; kNotInReach: more than 100 times as
  // many.
  int more_needed = 0;
  double seconds_each = 0;  // that one more process takes, with all cases of the sweep; 0: not known
  int chosen_among = 2;     // rows among which the baseline was chosen as the best, from the same samples
  std::optional<double> p_value;                  // that of no difference, two-sided, not corrected
  double detectable_difference = 0;               // relative; power 90 % at the interval's level
  std::optional<statistics::Effect> effect = {};  // the log ratio's, over replicates
};
inline constexpr int kNotInReach = std::numeric_limits<int>::max();

// The comparison of cases whose runs were taken in the same rounds of the same visits: the log ratios, by
// process. A process counts once, with the median of its rounds. Gives the ratio and its effect; judge()
// (judge.h) the rest. Of one process the interval is that of its rounds, and there is no verdict.
Comparison compare_processes(std::span<const std::vector<double>> log_ratios, double margin);
// A perplexity that differs by less counts as equal.
inline constexpr double kQualityMargin = 0.005;
// The comparison of losses over the same tokens, subject - baseline in text order: replicates are blocks of
// kLossBlock.
Comparison compare_losses(std::span<const double> differences, double margin);
// The same of processes that were not paired: a number each, such as the median of its runs.
Comparison compare_unpaired(std::span<const double> subject, std::span<const double> baseline, double margin);

}  // namespace assay
