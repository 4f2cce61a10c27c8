// A/A runs on this machine: how often a difference is reported where there is none, and how often one that
// was planted is found. usage: noise_check ASSAY MODEL [GROUPS]
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "assay/base/format.h"
#include "assay/base/random.h"
#include "assay/studies/suite.h"

namespace {

constexpr int kPairs = 20;  // of a comparison

int run(const std::string& program, const std::string& model, int groups) {
  assay::WorkerExperimentOptions options;
  options.program = {program, "worker"};
  options.candidates = {model};
  const assay::WorkerExperiment workers(options);
  const assay::ExperimentContext& experiment = workers;
  const auto margin = assay::measure_noise(experiment, kPairs);
  if (!margin) return 1;
  const double smallest = assay::smallest_difference(*margin, kPairs);
  fmt::print("noise margin of {} pairs {:.2f} %, of {} {:.2f} %\n", margin->pairs,
             100 * margin->smallest_difference, kPairs, 100 * smallest);
  assay::Case what = assay::baseline_case(experiment, assay::Scenario::noise, "A/A",
                                          {"Once upon a time, in a land far, far away,"}, 32);
  assay::Case other = what;
  other.configuration.replica = 1;
  assay::Session &a = experiment.sessions->of(what.configuration),
                 &b = experiment.sessions->of(other.configuration);
  assay::Random random(1);
  int differences = 0, found = 0;
  for (int group = 0; group < groups; ++group) {
    std::vector<double> x, y, slowed;
    for (int i = 0; i < kPairs; ++i) {
      const bool is_a_first = random.next() % 2 == 0;
      const double first = (is_a_first ? a : b).run(is_a_first ? what : other).total_latency_s,
                   second = (is_a_first ? b : a).run(is_a_first ? other : what).total_latency_s;
      x.push_back(is_a_first ? first : second);
      y.push_back(is_a_first ? second : first);
      slowed.push_back(y.back() * (1 + 2 * smallest));
    }
    const assay::CompareOptions compare{.margin = smallest, .comparisons = 1};
    const assay::Verdict equal = assay::compare_paired(y, x, compare).verdict;
    differences += equal == assay::Verdict::lower || equal == assay::Verdict::higher ? 1 : 0;
    found += assay::compare_paired(slowed, x, compare).verdict == assay::Verdict::higher ? 1 : 0;
  }
  fmt::print("{} A/A comparisons, {} pairs each: {} report a difference (at most 8 % may)\n", groups, kPairs,
             differences);
  fmt::print("slowed by twice the margin: {} of {} found (at least 90 % must be)\n", found, groups);
  return differences * 100 <= 8 * groups && found * 100 >= 90 * groups ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: noise_check ASSAY MODEL [GROUPS]\n", stderr);
    return 2;
  }
  return run(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 200);
}
