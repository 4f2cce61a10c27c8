#include "assay/studies/noise.h"

#include <algorithm>
#include <cmath>

#include "assay/studies/study.h"

namespace assay {

namespace {

constexpr double kEnough_s = 5;
constexpr int kProcesses = 10;  // fewer where they cost more than plan_visits() allows

std::vector<Case> noise_cases(const ExperimentContext& context) {
  Case spec =
      baseline_case(context, Scenario::noise, "baseline", {"Once upon a time, in a land far, far away,"}, 32);
  std::vector<Case> cases{spec, spec};
  cases[1].label = "baseline again";
  cases[1].configuration.replica = 1;
  return cases;
}

SweepOptions options_of(const ExperimentContext& context, std::int64_t pairs) {
  SweepOptions sweep = context.sweep;
  sweep.repeats = std::max<std::int64_t>(kMinRounds, (pairs + kProcesses - 1) / kProcesses);
  sweep.time_s = kEnough_s;
  return sweep;
}

// Where all runs are of one process, or of so few that no verdict is given, it would be of no use.
bool has_verdicts(const ExperimentContext& context) {
  return context.sessions->have_processes() &&
         context.sweep.processes.value_or(kUsualProcesses) >= kMinProcesses;
}

ExperimentResult run_noise(const ExperimentContext& context, const NoiseOptions& options) {
  ExperimentResult result;
  result.noise = measure_noise(context, static_cast<int>(options.pairs));
  return result;
}

std::vector<Finding> conclude_noise(const ExperimentResult& judged) {
  if (!judged.noise) return {};
  NoiseFinding found{*judged.noise};
  std::vector<double> detectable;
  for (const Comparison& c : judged.comparisons)
    if (c.metric == "total_latency_s" && c.detectable_difference > 0)
      detectable.push_back(c.detectable_difference);
  if (!detectable.empty()) found.median_detectable_difference = statistics::median(detectable);
  return {found};
}

}  // namespace

std::optional<NoiseEstimate> measure_noise(const ExperimentContext& context, int pairs) {
  const std::vector<Case> cases = noise_cases(context);
  const SweepResult swept = run_sweep(*context.sessions, "A/A run", cases, options_of(context, pairs));
  context.sessions->drop(cases[1].configuration);
  if (swept.cases.size() != 2) return std::nullopt;
  return noise_estimate(log_ratios(swept.cases[1], swept.cases[0], &Sample::total_latency_s));
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
       .conclude = conclude_noise,
       .run = run_noise,
       .predict_s =
           [](const ExperimentContext& context, const Options& options, const PredictedSeconds& seconds_of) {
             return predicted_sweep_s(noise_cases(context), options_of(context, options.pairs), seconds_of);
           },
       .add_costs =
           [](const ExperimentContext& context, const Options& options, const CostOf&, CostedStudy& costed) {
             costed.sweep = options_of(context, options.pairs);
             costed.needs_verdict = true;
           },
       .applies = [](const ExperimentContext& context,
                     const Options& options) { return options.pairs > 0 && has_verdicts(context); }});
}

}  // namespace assay
