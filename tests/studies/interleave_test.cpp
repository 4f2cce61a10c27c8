// Two builds in turns, on sessions whose runs take what the test says: pairs, figures by hand, and the gate.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "assay/base/error.h"
#include "assay/results/compare_results.h"
#include "assay/results/results_json.h"
#include "assay/studies/interleave.h"
#include "support/fake_session.h"
#include "support/scripted_model.h"

namespace assay {
namespace {

using test::fixture_tokenizer;

// What a pair of processes has in common moves by 30 % from pair to pair, what is its own by `own`.
constexpr double kPairShares[] = {0.3, -0.2, 0.1, -0.3, 0.25, -0.1, 0.2, -0.25};
constexpr double kPairOwn[] = {0.01, -0.012, 0.004, 0.009, -0.011, 0, -0.004, 0.004};

class Interleave : public testing::Test {
 protected:
  ExperimentContext context(double ratio_of_b) {
    sessions_ = std::make_unique<Sessions>(test::fake_processes(
        [this, ratio_of_b](const RunConfig& c, const Case& spec, int made) {
          const bool is_b = c.replica == kOtherProgram;
          EXPECT_TRUE(is_b || c.replica == 0) << c.replica;
          // Sessions start in pairs, in either order.
          const int pair = made / 2;
          ++runs_[is_b];
          const double own = is_b ? kPairOwn[pair % 8] + std::log(ratio_of_b) : 0;
          return (std::get<std::string>(spec.prompts[0]) == "long" ? 2 : 1) *
                 std::exp(kPairShares[pair % 8] + own);
        },
        &made_));
    ExperimentContext made;
    made.sessions = sessions_.get();
    made.tokenizer = fixture_tokenizer();
    made.context_length = 64;
    made.baseline = made.common = run_config_from_text("float32");
    made.sweep.repeats = 1;
    return made;
  }

  static InterleaveOptions options(std::vector<Prompt> prompts, double detectable = 0) {
    InterleaveOptions own;
    own.prompts = std::move(prompts);
    own.new_tokens = 4;
    own.scores_text = false;
    own.detectable = detectable;
    return own;
  }

  std::unique_ptr<Sessions> sessions_;
  std::map<bool, int> runs_;  // how many B and A have had
  int made_ = 0;
};

TEST_F(Interleave, PairsShowWhatRunsOneAfterTheOtherHide) {
  ExperimentContext own = context(1.05);
  own.sweep.processes = 8;
  Interleaved both = run_interleaved(own, options({"short"}));
  EXPECT_EQ(made_, 16);
  ASSERT_EQ(both.a.rows.size(), 1U);
  ASSERT_EQ(both.b.rows.size(), 1U);
  for (const ResultSet* results : {&both.a, &both.b}) {
    EXPECT_EQ(results->rows[0].label, "float32, prompt 1");
    EXPECT_EQ(results->rows[0].parameter("configuration"), "float32");
    EXPECT_EQ(results->rows[0].processes(), 8);
  }
  EXPECT_NE(both.a.interleave_id, "");
  EXPECT_EQ(both.a.interleave_id, both.b.interleave_id);
  EXPECT_NE(both.a.run_id, both.b.run_id);

  const ComparedResults paired = compare_results(both.a, both.b, 0.02);
  EXPECT_TRUE(paired.are_interleaved);
  const Comparison& c = paired.rows[0].comparison;
  EXPECT_EQ(c.metric, "total_latency_s");
  // kPairOwn has the mean 0 and the sum of squares 0.000494.
  const double error = std::sqrt(0.000494 / 7 / 8), t7 = 2.364624251592784;
  EXPECT_NEAR(c.ratio, 1.05, 1e-9);
  EXPECT_NEAR(c.interval->low, 1.05 * std::exp(-t7 * error), 1e-6);
  EXPECT_NEAR(c.interval->high, 1.05 * std::exp(t7 * error), 1e-6);
  EXPECT_EQ(c.processes, 8);
  EXPECT_EQ(c.verdict, Verdict::higher);
  EXPECT_EQ(judge_rule(paired, failure_rules("latency:3%")[0]).broken.size(), 1U);

  // The same figures as two runs that were not made in turns.
  both.b.interleave_id = "";
  const ComparedResults unpaired = compare_results(both.a, both.b, 0.02);
  EXPECT_FALSE(unpaired.are_interleaved);
  EXPECT_EQ(unpaired.rows[0].comparison.verdict, Verdict::cannot_tell);
  EXPECT_THROW(judge_rule(unpaired, failure_rules("latency:3%")[0]), Error);
  both.a.interleave_id = "";
  EXPECT_FALSE(compare_results(both.a, both.b, 0.02).are_interleaved) << "two runs of no pair are no pair";
}

TEST_F(Interleave, APairIsKeptInTheFiles) {
  ExperimentContext own = context(1);
  own.sweep.processes = 3;
  const Interleaved both = run_interleaved(own, options({"short"}));
  const ResultSet again = results_from_json(to_json(both.a), "a");
  EXPECT_EQ(again.interleave_id, both.a.interleave_id);
  EXPECT_TRUE(compare_results(again, both.b, 0.02).are_interleaved);
}

TEST_F(Interleave, CasesTogetherAreOneObservationAPair) {
  ExperimentContext own = context(1.05);
  own.sweep.processes = 8;
  const Interleaved both = run_interleaved(own, options({"short", "long"}));
  EXPECT_EQ(both.a.rows[1].label, "float32, prompt 2");
  EXPECT_NEAR(both.a.rows[1].find("total_latency_s")->value / both.a.rows[0].find("total_latency_s")->value,
              2, 1e-9);
  const ComparedResults compared = compare_results(both.a, both.b, 0.02);
  ASSERT_FALSE(compared.all_cases.empty());
  EXPECT_NEAR(compared.all_cases[0].comparison.ratio, 1.05, 1e-9);
  EXPECT_EQ(compared.all_cases[0].comparison.processes, 8);
}

TEST_F(Interleave, PairsAreAddedUntilTheDifferenceWouldShow) {
  ExperimentContext own = context(1);
  Interleaved both = run_interleaved(own, options({"short"}, 0.0072));
  const Comparison few = compare_results(both.a, both.b, 0.02).rows[0].comparison;
  EXPECT_GT(few.processes, 10) << "ten pairs detect 1 %";
  EXPECT_LT(few.processes, 40);
  EXPECT_LE(few.detectable_difference, 0.0072);
  EXPECT_EQ(made_, 2 * few.processes);
  // Processes are numbered through.
  EXPECT_EQ(both.b.rows[0].places.back().process, few.processes - 1);

  made_ = 0;
  both = run_interleaved(context(1), options({"short"}, 0.5));
  EXPECT_EQ(made_, 20) << "ten pairs are enough";
  made_ = 0;
  both = run_interleaved(context(1), options({"short"}));
  EXPECT_EQ(made_, 10) << "none are asked for";
  made_ = 0;
  own = context(1);
  own.sweep.processes = 4;
  both = run_interleaved(own, options({"short"}, 0.0001));
  EXPECT_EQ(made_, 8) << "so many and no more";
}

TEST_F(Interleave, PairsEndWithTheTime) {
  ExperimentContext own = context(1);
  double now = 0;
  own.sweep.clock = [&now] {
    now += 1;
    return TimePoint{} + std::chrono::seconds(static_cast<int>(now));
  };
  own.sweep.max_time_s = 100;
  run_interleaved(own, options({"short"}, 0.0001));
  EXPECT_LT(made_, 2 * kMaxPairs);
  EXPECT_GE(made_, 20);
}

TEST(PairsToAdd, FollowTheSpread) {
  // Deviation 0.01 of five: what is detected at 95 % shrinks with the root of the pairs.
  const std::vector<std::vector<double>> five = {{-0.01}, {-0.01}, {0}, {0.01}, {0.01}};
  std::vector<double> medians;
  for (const auto& each : five) medians.push_back(each[0]);
  const double shown = std::expm1(statistics::detectable_difference(*statistics::effect_of(medians), 0.95));
  EXPECT_EQ(pairs_to_add({five}, shown, 0.95), 0);
  EXPECT_EQ(pairs_to_add({five}, shown / 2, 0.95), 17) << "1.1 x 4 x 5 - 5";
  EXPECT_EQ(pairs_to_add({{{0}, {0}, {0}, {0}, {0}}, five}, shown / 2, 0.95), 17)
      << "the case that needs most";
  EXPECT_EQ(pairs_to_add({five}, shown / 1000, 0.95), kMaxPairs - 5);
  EXPECT_GT(pairs_to_add({five}, shown, 0.99), 0);
  EXPECT_EQ(pairs_to_add({}, 0.01, 0.95), 0);
  EXPECT_EQ(pairs_to_add({{{0.1}}}, 0.01, 0.95), 0) << "one pair has no spread";
  // A process counts with the median of its runs.
  EXPECT_EQ(pairs_to_add({{{0, 0, 9}, {-9, 0, 0}, {0}}}, 0.01, 0.95), 0);
}

// A case that one build cannot do is no pair.
TEST_F(Interleave, WhatFailsInTheOtherBuildIsNamed) {
  int made = 0;
  Sessions sessions = test::fake_processes(
      [](const RunConfig& c, const Case&, int) {
        if (c.replica == kOtherProgram) throw Error("it knows no such precision");
        return 1.0;
      },
      &made);
  ExperimentContext own = context(1);
  own.sessions = &sessions;
  own.sweep.processes = 3;
  const Interleaved both = run_interleaved(own, options({"short"}));
  EXPECT_EQ(both.a.rows[0].status, RowStatus::ok);
  EXPECT_EQ(both.b.rows[0].status, RowStatus::error);
  EXPECT_NE(both.b.rows[0].reason.find("no such precision"), std::string::npos);
  const ComparedResults compared = compare_results(both.a, both.b, 0.02);
  ASSERT_EQ(compared.failed.size(), 1U);
  EXPECT_EQ(judge_rule(compared, failure_rules("latency:3%")[0]).failed.size(), 1U);
}

TEST_F(Interleave, RefusesWhatCannotBeMeasured) {
  EXPECT_THROW(run_interleaved(context(1), options({})), Error);
  InterleaveOptions unknown = options({"short"});
  unknown.precisions = {"float33"};
  EXPECT_THROW(run_interleaved(context(1), unknown), Error);
}

}  // namespace
}  // namespace assay
