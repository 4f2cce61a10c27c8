// What run_studies() makes of a plan: their order, where it stops, and what is judged together.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "assay/studies/registry.h"
#include "assay/studies/suite_plan.h"
#include "support/fake_session.h"
#include "support/fixtures.h"

namespace assay {
namespace {

// Two cases on a session that computes nothing, the second by a fifth slower; what runs is written down.
struct NoOptions {};
Study fake_study(const std::string& name, std::vector<std::string>& log,
                 std::function<ExperimentResult(ExperimentResult)> then = {}) {
  const auto cases = [name](const ExperimentContext& context, const NoOptions&) {
    std::vector<Case> all;
    for (const char* label : {"fast", "slow"})
      all.push_back(baseline_case(context, Scenario::lengths, name + " " + label, {"a"}, 4));
    return all;
  };
  return to_study<NoOptions>({.name = name,
                              .title = name,
                              .description = name,
                              .cases = cases,
                              .run = [=, &log](const ExperimentContext& context, const NoOptions& options) {
                                log.push_back(name);
                                ExperimentResult result =
                                    run_cases(context, name, cases(context, options),
                                              ComparedWith::first_case, [](const auto&, const auto&) {});
                                return then ? then(std::move(result)) : std::move(result);
                              }});
}

double fake_latency(const RunConfig&, const Case& spec) {
  return spec.label.ends_with("slow") ? 0.12 : 0.1;
}

// What the trade-off has loaded scores texts and tasks before another study ends it.
TEST(RunStudies, ScoreRightBehindTheTradeoff) {
  Sessions sessions = test::fake_sessions(fake_latency);
  std::vector<std::string> log;
  ExperimentContext context;
  context.sessions = &sessions;
  context.sweep.repeats = 1;
  const auto order_of = [&](const std::vector<std::string>& names) {
    std::vector<Study> all;
    for (const std::string& name : names) all.push_back(fake_study(name, log));
    std::vector<PlannedStudy> plan;
    for (const Study& study : all) plan.push_back({&study, NoOptions{}});
    log.clear();
    const ExperimentResult result = run_studies(context, plan);
    EXPECT_EQ(result.rows.size(), 2 * names.size());
    for (std::size_t i = 0; i < names.size(); ++i)  // shown as they were planned
      EXPECT_EQ(result.rows[2 * i].label, names[i] + " fast");
    return log;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(order_of({"noise", "trade-off", "lengths", "perplexity", "edge", "task", "other"}),
            (Names{"noise", "trade-off", "perplexity", "task", "lengths", "edge", "other"}));
  EXPECT_EQ(order_of({"lengths", "task", "trade-off"}), (Names{"lengths", "task", "trade-off"}));
  EXPECT_EQ(order_of({"lengths", "task", "perplexity"}), (Names{"lengths", "task", "perplexity"}));
}

// What two studies give where the run is stopped between them.
ExperimentResult stopped_behind_first(ExperimentContext context, std::vector<std::string>& log) {
  bool stops = false;
  context.sweep.should_stop = [&] { return stops; };
  const Study first = fake_study("first", log,
                                 [&](ExperimentResult result) {
                                   stops = true;
                                   return result;
                                 }),
              second = fake_study("second", log);
  return run_studies(context, {{&first, NoOptions{}}, {&second, NoOptions{}}});
}

// A stop between two studies: what the first has found is kept, and the second does not begin.
TEST(RunStudies, StopsBetweenTwoStudies) {
  Sessions sessions = test::fake_sessions(fake_latency);
  std::vector<std::string> log;
  ExperimentContext context;
  context.sessions = &sessions;
  context.sweep.repeats = 6;
  const ExperimentResult result = stopped_behind_first(context, log);
  EXPECT_EQ(log, std::vector<std::string>{"first"});
  EXPECT_TRUE(result.is_interrupted);
  EXPECT_EQ(result.rows.size(), 2U);
  EXPECT_EQ(result.comparisons.size(), 1U);
}

// Comparisons of all studies are one family: what one study shows alone, it need not show among many.
TEST(RunStudies, JudgesTheComparisonsOfAllStudiesTogether) {
  int made = 0;
  // The slow case is slower by 4 to 10 %, depending on the process.
  Sessions sessions = test::fake_processes(
      [](const RunConfig&, const Case& spec, int own) {
        return spec.label.ends_with("slow") ? 0.1 * (1.04 + 0.015 * (own % 5)) : 0.1;
      },
      &made);
  std::vector<std::string> log;
  ExperimentContext context;
  context.sessions = &sessions;
  context.sweep.processes = 5;
  context.sweep.repeats = 3;
  std::vector<Study> all;
  for (int i = 0; i < 60; ++i) all.push_back(fake_study(fmt::format("study {}", i), log));
  std::vector<PlannedStudy> plan;
  for (const Study& study : all) plan.push_back({&study, NoOptions{}});
  const ExperimentResult alone = run_studies(context, {plan.front()}), many = run_studies(context, plan);
  ASSERT_EQ(alone.comparisons.size(), 1U);
  ASSERT_EQ(many.comparisons.size(), 60U);
  EXPECT_EQ(alone.comparisons[0].verdict, Verdict::higher);
  EXPECT_DOUBLE_EQ(alone.comparisons[0].interval->level, 0.95);
  EXPECT_NEAR(many.comparisons[0].interval->level, 1 - 0.05 / 60, 1e-12);
}

// Interrupted, the comparisons that exist are judged all the same.
TEST(RunStudies, JudgesWhatAnInterruptedRunHas) {
  int made = 0;
  Sessions sessions = test::fake_processes(
      [](const RunConfig&, const Case& spec, int) { return spec.label.ends_with("slow") ? 0.2 : 0.1; },
      &made);
  std::vector<std::string> log;
  ExperimentContext context;
  context.sessions = &sessions;
  context.sweep.processes = 3;
  context.sweep.repeats = 3;
  const ExperimentResult result = stopped_behind_first(context, log);
  EXPECT_TRUE(result.is_interrupted);
  ASSERT_EQ(result.comparisons.size(), 1U);
  EXPECT_EQ(result.comparisons[0].verdict, Verdict::higher);
  EXPECT_FALSE(sentence_of(result.comparisons[0]).empty());
}

// The A/A run on a machine whose every process of the second side is slower by a tenth, by hand.
TEST(RunStudies, TheAaRunTellsWhatTheMachineDoes) {
  int made = 0;
  Sessions sessions = test::fake_processes([](const RunConfig& configuration, const Case&,
                                              int) { return configuration.replica == 1 ? 0.11 : 0.1; },
                                           &made);
  ExperimentContext context;
  context.sessions = &sessions;
  context.sweep.processes = 4;
  const ExperimentResult result = run_studies(context, {{&study_named("noise"), NoiseOptions{.pairs = 6}}});
  ASSERT_TRUE(result.noise);
  EXPECT_EQ(result.noise->processes, 4);
  EXPECT_EQ(result.noise->rounds, 3);
  EXPECT_NEAR(result.noise->bias, 0.1, 1e-9);
  EXPECT_NEAR(result.noise->between, 0, 1e-9);
  EXPECT_NEAR(result.noise->within, 0, 1e-9);
  ASSERT_EQ(test::remarks_of(result).size(), 1U);
  EXPECT_EQ(
      test::remarks_of(result)[0].rfind("A/A run: equal configurations in 4 processes differ by +10.0 %.", 0),
      0U)
      << test::remarks_of(result)[0];
  // In one process there is nothing to learn.
  Sessions local = test::fake_sessions(fake_latency);
  context.sessions = &local;
  context.sweep.processes = {};
  EXPECT_FALSE(study_named("noise").applies(context, NoiseOptions{}));
}

}  // namespace
}  // namespace assay
