#include "assay/studies/noise.h"

#include <algorithm>
#include <cmath>

namespace assay {

namespace {

constexpr int kMostPairs = 60;
constexpr double kEnough_s = 5;

std::vector<Case> noise_cases(const ExperimentContext& context) {
  Case what =
      baseline_case(context, Scenario::noise, "baseline", {"Once upon a time, in a land far, far away,"}, 32);
  std::vector<Case> cases{what, what};
  cases[1].label = "baseline again";
  cases[1].configuration.replica = 1;
  return cases;
}

// Where so few repeats are asked for that no verdict is given, its result would be of no use.
bool has_verdicts(const SweepOptions& sweep) {
  return sweep.repeats == 0 || sweep.repeats >= static_cast<std::int64_t>(kFewestForInterval);
}

ExperimentResult run_noise(const ExperimentContext& context, const NoiseOptions& options) {
  ExperimentResult result;
  result.noise = measure_noise(context, static_cast<int>(options.pairs));
  if (result.noise)
    result.remarks.push_back(fmt::format(
        "A/A run, the baseline in two processes in turns: {} pairs differ by {:+.1f} %. With as many pairs "
        "this "
        "machine resolves differences of {:.1f} % or more, with ten pairs {:.1f} %; verdicts ignore smaller "
        "ones.",
        result.noise->pairs, 100 * result.noise->bias, 100 * result.noise->smallest_difference,
        100 * smallest_difference(*result.noise, 10)));
  return result;
}

}  // namespace

std::optional<NoiseMargin> measure_noise(const ExperimentContext& context, int pairs) {
  const std::vector<Case> cases = noise_cases(context);
  SweepOptions sweep = context.sweep;
  sweep.repeats = std::max(pairs, kMostPairs);
  sweep.fewest = pairs;
  sweep.max_time_s = kEnough_s;
  const SweepResult swept = run_sweep(*context.sessions, "A/A run", cases, sweep);
  context.sessions->drop(cases[1].configuration);
  if (swept.cases.size() != 2) return std::nullopt;
  const auto [a, b] = paired(swept.cases[0], swept.cases[1], &Sample::total_latency_s);
  if (a.size() < kFewestForInterval) return std::nullopt;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(std::log(b[i] / a[i]));
  return noise_margin(ratios, static_cast<int>(ratios.size()));
}

Study noise_study() {
  using Options = NoiseOptions;
  return to_study<Options>(
      {.name = "noise",
       .title = "A/A run",
       .description = "Compare the baseline with itself: how small a difference this machine resolves",
       .options = {option("pairs", &Options::pairs, "Pairs of runs in the A/A run; 0: no A/A run",
                          {.name_in_run = "noise-pairs"})},
       .is_in_suite = true,
       .cases = [](const ExperimentContext& context, const Options&) { return noise_cases(context); },
       .run = run_noise,
       .predict_s = [](const ExperimentContext&, const Options&,
                       const PredictedSeconds&) { return kEnough_s; },
       .applies = [](const ExperimentContext& context,
                     const Options& options) { return options.pairs > 0 && has_verdicts(context.sweep); }});
}

}  // namespace assay
