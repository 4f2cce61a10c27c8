// A/A runs on this machine: how often a difference is reported where there is none, and how often one of the
// minimum detectable size is found where it is planted. Every comparison starts its processes afresh.
// usage: noise_check ASSAY MODEL [COMPARISONS] [PROCESSES]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "assay/base/format.h"
#include "assay/harness/make_case.h"
#include "assay/harness/sweep.h"
#include "assay/studies/suite.h"

namespace {

int run(const std::string& program, const std::string& model, int comparisons, int processes) {
  assay::WorkerExperimentOptions options;
  options.program = {program, "worker"};
  options.candidates = {model};
  options.sweep.processes = processes;
  options.sweep.repeats = assay::kFewestRounds;
  const assay::WorkerExperiment workers(options);
  const assay::ExperimentContext& experiment = workers;
  const auto noise = assay::measure_noise(experiment, 20);
  if (!noise) return 1;
  const double planted = noise->detectable_difference;
  fmt::print("{}\n", assay::describe_noise(*noise, {}));
  assay::Case what = assay::baseline_case(experiment, assay::Scenario::noise, "A/A",
                                          {"Once upon a time, in a land far, far away,"}, 32);
  assay::Case other = what;
  other.label = "A/A again";
  other.configuration.replica = 1;
  int differences = 0, found = 0;
  for (int i = 0; i < comparisons; ++i) {
    assay::SweepOptions sweep = experiment.sweep;
    sweep.seed = static_cast<std::uint64_t>(i) + 1;
    const assay::SweepResult swept =
        assay::run_sweep(*experiment.sessions, fmt::format("A/A {}", i), {what, other}, sweep);
    if (swept.cases.size() != 2) return 1;
    auto ratios = assay::log_ratios(swept.cases[1], swept.cases[0], &assay::Sample::total_latency_s);
    assay::Comparison equal = assay::compare_processes(ratios, experiment.margin);
    judge(equal);
    differences += equal.verdict == assay::Verdict::lower || equal.verdict == assay::Verdict::higher ? 1 : 0;
    for (std::vector<double>& own : ratios)
      for (double& ratio : own) ratio += std::log1p(planted);
    assay::Comparison slowed = assay::compare_processes(ratios, 0);
    judge(slowed);
    found += slowed.verdict == assay::Verdict::higher ? 1 : 0;
  }
  fmt::print("{} A/A comparisons of {} processes: {} report a difference (at most 8 % may)\n", comparisons,
             processes, differences);
  fmt::print("slowed by {:.1f} %: {} of {} found (85 to 95 % is expected)\n", 100 * planted, found,
             comparisons);
  return differences * 100 <= 8 * comparisons && found * 100 >= 85 * comparisons ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: noise_check ASSAY MODEL [COMPARISONS] [PROCESSES]\n", stderr);
    return 2;
  }
  return run(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 40, argc > 4 ? std::atoi(argv[4]) : 5);
}
