// The A/A run: how many rounds it takes, and what is said of its noise.
#include <gtest/gtest.h>

#include "assay/studies/registry.h"
#include "assay/studies/suite_plan.h"
#include "support/prose.h"
#include "support/scripted_model.h"

namespace assay {
namespace {

using test::ScriptedStudies;

TEST_F(ScriptedStudies, NoiseTakesPairsOverTenProcesses) {
  std::vector<int> rounds;
  int runs = 0;
  script_.run = [&](const Case& spec, int) {
    EXPECT_EQ(spec.new_tokens, 32);
    EXPECT_EQ(spec.prompts, std::vector<Prompt>{"Once upon a time, in a land far, far away,"});
    EXPECT_EQ(spec.scenario, Scenario::noise);
    ++runs;
    return test::scripted_sample(1, {});
  };
  int started = 0;
  script_.facts = [&](const RunConfig& configuration) {
    started += configuration.replica;  // asked once for each session that starts
    SessionFacts facts;
    facts.kernels = "scripted";
    return facts;
  };
  for (const int pairs : {1, 30, 31, 40, 41}) rounds.push_back(measure_noise(context(), pairs)->rounds);
  EXPECT_EQ(rounds, (std::vector<int>{3, 3, 4, 4, 5}));
  // The second session has ended: the next use starts it again.
  const int before = started;
  sessions_.of(study_named("noise").cases(context(), NoiseOptions{})[1].configuration);
  EXPECT_EQ(started, before + 1);
  const std::vector<Case> cases = study_named("noise").cases(context(), NoiseOptions{});
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].label, "baseline");
  EXPECT_EQ(cases[0].configuration.replica, 0);
  EXPECT_EQ(cases[1].label, "baseline again");
  EXPECT_EQ(cases[1].configuration.replica, 1);
  ExperimentContext made = context();
  bool is_stopped = true;
  made.sweep.should_stop = [&] { return is_stopped; };
  EXPECT_FALSE(measure_noise(made, 20)) << "nothing ran";
  const Study& study = study_named("noise");
  made.sweep.processes.reset();
  EXPECT_TRUE(study.applies(made, NoiseOptions{.pairs = 1}));
  made.sweep.processes = 3;
  EXPECT_TRUE(study.applies(made, NoiseOptions{.pairs = 1}));
  made.sweep.processes = 2;
  EXPECT_FALSE(study.applies(made, NoiseOptions{.pairs = 1}));
  const ExperimentResult result = study.run(context(), NoiseOptions{});
  ASSERT_TRUE(result.noise);
  ASSERT_EQ(test::remarks_of(result).size(), 1U);
  EXPECT_EQ(test::remarks_of(result)[0], describe_noise(*result.noise, {}));
}

TEST(DescribeNoise, ShowsPercents) {
  NoiseEstimate noise{.between = 0.61, .within = 0.72, .bias = 0.83, .processes = 4, .rounds = 3};
  noise.detectable_difference = 0.94;
  std::vector<Comparison> comparisons(2);
  for (Comparison& c : comparisons) {
    c.metric = "total_latency_s";
    c.detectable_difference = 0.55;
  }
  EXPECT_EQ(
      describe_noise(noise, comparisons),
      "A/A run: equal configurations in 4 processes differ by +83.0 %. The standard deviation is 61.0 % "
      "between processes and 72.0 % between runs of a process. With a power of 90 %, one comparison of as "
      "many processes detects a difference of 94.0 %; the median comparison of this run, corrected for "
      "multiplicity, detects 55.0 %.");
}

TEST(DescribeNoise, TakesTheMedianOfTestedLatencies) {
  const auto detects = [](std::vector<std::pair<const char*, double>> of) {
    std::vector<Comparison> comparisons;
    for (const auto& [metric, detectable] : of) {
      comparisons.emplace_back().metric = metric;
      comparisons.back().detectable_difference = detectable;
    }
    const std::string text = describe_noise({}, comparisons);
    const std::size_t at = text.find("multiplicity, detects ");
    return at == std::string::npos ? std::string() : text.substr(at + 22);
  };
  EXPECT_EQ(detects({{"total_latency_s", 0.2}, {"total_latency_s", 0.6}}), "40.0 %.");
  EXPECT_EQ(detects({{"total_latency_s", 0.2}, {"total_latency_s", 0.6}, {"perplexity", 0.9}}), "40.0 %.");
  EXPECT_EQ(detects({{"total_latency_s", 0.2}, {"total_latency_s", 0.6}, {"total_latency_s", 0}}), "40.0 %.");
  EXPECT_EQ(detects({{"perplexity", 0.9}}), "");
}

}  // namespace
}  // namespace assay
