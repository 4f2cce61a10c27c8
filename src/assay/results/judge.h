// The one place that gives comparisons their verdicts: of a run, of two runs, of a single pair.
#pragma once

#include <span>
#include <vector>

#include "assay/results/verdict.h"

namespace assay {

// A comparison with what it rests on: the effect on the logarithm of the ratio, in several units where the
// machine's own speed is one (machine_speed.h). A verdict must hold in each of them.
struct Judged {
  Comparison* comparison;
  std::vector<statistics::Effect> effects;  // none: too few replicates for a verdict
};

// Gives the comparisons of one family their intervals and verdicts: the chance of any false "lower" or
// "higher" is 5 % at most (Holm 1979). A verdict is no_difference where the interval lies within the margin,
// lower or higher where it excludes 1, cannot_tell elsewhere, too_few where there are no effects.
// Estimates of what more replicates would show (detectable_difference, more_needed) take longer than all the
// rest; Planning::left_out gives none.
enum class Planning { estimated, left_out };
void judge_family(std::span<const Judged> family, Planning planning = Planning::estimated);

// Splits the comparisons of a run by family_of() their metric, and judges each family.
void judge(std::span<Comparison* const> all, Planning planning = Planning::estimated);
void judge(Comparison& alone);

// The verdict on bytes, which are counted: any difference is one.
void judge_exactly(Comparison& comparison, double subject, double baseline);

}  // namespace assay
