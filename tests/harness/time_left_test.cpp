// The time left of a run of several parts: what is predicted, made good by what the parts before it took.
#include "assay/harness/time_left.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

Case timed_case(int replica) {
  Case spec;
  spec.configuration.replica = replica;
  return spec;
}

double sweep_of(int configurations, const SweepOptions& options, double seconds = 1) {
  std::vector<Case> cases;
  for (int i = 0; i < configurations; ++i) cases.push_back(timed_case(i));
  return predicted_sweep_s(cases, options, [&](const Case&) { return seconds; });
}

TEST(PredictedSweep, CountsStartsWarmUpsAndRounds) {
  SweepOptions options;
  options.processes = 2;
  options.repeats = 4;
  // Two processes of a start, two warm-ups and four rounds; each run takes 0.02 s beside its own second.
  EXPECT_NEAR(sweep_of(1, options), 2 * (0.15 + 6 * 1.02), 1e-12);
  EXPECT_NEAR(sweep_of(2, options), 2 * (0.30 + 6 * 2.04), 1e-12);
  const auto second = [](const Case&) { return 1.0; };
  EXPECT_NEAR(predicted_sweep_s({timed_case(0), timed_case(0)}, options, second), 2 * (0.15 + 6 * 2.04),
              1e-12)
      << "one configuration starts once";
  EXPECT_EQ(sweep_of(0, options), 0);
}

TEST(PredictedSweep, IsBoundByItsTimeAndTheFewestRounds) {
  SweepOptions options;
  options.processes = 2;
  options.repeats = 4;
  options.max_time_s = 6;
  EXPECT_NEAR(sweep_of(1, options), 6, 1e-12);
  options.max_time_s = 100;
  EXPECT_NEAR(sweep_of(1, options), 2 * (0.15 + 6 * 1.02), 1e-12);
  options.max_time_s = 1;  // less than a start, two warm-ups and a round
  EXPECT_NEAR(sweep_of(1, options), 0.15 + 3 * 1.02, 1e-12);
  options.fewest = 3;
  EXPECT_NEAR(sweep_of(1, options), 0.15 + 5 * 1.02, 1e-12);
}

TEST(PredictedSweep, TakesTheProcessesAndRoundsThatItsTimeAllows) {
  SweepOptions options;
  options.time_s = 3;
  // A start and two warm-ups of 0.021 s take 0.192 s: ten processes, each of (0.3 - 0.192) / 0.021 rounds.
  EXPECT_NEAR(sweep_of(1, options, 0.001), 10 * (0.15 + (2 + 5) * 0.021), 1e-12);
}

class ThreeParts : public testing::Test {
 protected:
  void at(int seconds) { now_ = TimePoint() + std::chrono::seconds(seconds); }
  TimePoint now_;
  TimeLeft left_{{{"one", 20}, {"two", 10}, {"three", 30}}, true, {}, [this] { return now_; }};
};

TEST_F(ThreeParts, IsThePredictionLessWhatHasPassed) {
  EXPECT_DOUBLE_EQ(*left_.seconds_left({}), 60);
  at(5);
  EXPECT_DOUBLE_EQ(*left_.seconds_left({}), 55);
  EXPECT_DOUBLE_EQ(*left_.seconds_left(3), 43) << "the part itself knows better";
  at(20);
  EXPECT_DOUBLE_EQ(*left_.seconds_left({}), 40);
  at(500);
  EXPECT_DOUBLE_EQ(*left_.seconds_left({}), 40) << "a part that lasts takes no other's time";
}

TEST_F(ThreeParts, LearnsFromThePartsThatAreOver) {
  at(45);
  left_.begin("two");  // (45 + 5) / (20 + 5): twice as slow
  EXPECT_DOUBLE_EQ(*left_.seconds_left({}), 80);
  at(50);
  EXPECT_DOUBLE_EQ(*left_.seconds_left({}), 75);
  at(65);
  left_.begin("three");  // (65 + 5) / (30 + 5)
  EXPECT_DOUBLE_EQ(*left_.seconds_left({}), 60);
  at(70);
  left_.begin("no such part");
  EXPECT_DOUBLE_EQ(*left_.seconds_left({}), 55);
  EXPECT_DOUBLE_EQ(*left_.seconds_left(7), 7);
}

TEST(TimeLeft, WherePartsBeforeHadNoTimeItIsThePrediction) {
  TimePoint now;
  TimeLeft left({{"one", 0}, {"two", 10}}, true, {}, [&] { return now; });
  now += std::chrono::seconds(100);
  left.begin("two");
  EXPECT_DOUBLE_EQ(*left.seconds_left({}), 10);
  EXPECT_FALSE(TimeLeft({}, true, {}).seconds_left(1)) << "of no part";
  TimeLeft short_part({{"one", 0.5}, {"two", 10}}, true, {}, [&] { return now; });
  now += std::chrono::seconds(6);
  short_part.begin("two");
  EXPECT_DOUBLE_EQ(*short_part.seconds_left({}), 20) << "11 / 5.5 times as long";
}

TEST(TimeLeft, TellsThePartAndNoTimeThatNobodyPredicted) {
  std::string told;
  std::optional<double> seconds = 0;
  std::int64_t done = 0, all = 0;
  const OnProgress show = [&](const std::string& now, std::int64_t done_now, std::int64_t of,
                              std::optional<double> left_s) {
    told = now;
    done = done_now;
    all = of;
    seconds = left_s;
  };
  TimeLeft left({{"one", 0}, {"two", 0}}, false, show);
  left.begin("two");
  left.teller()("two: at work", 1, 2, 3);
  EXPECT_EQ(told, "part 2 of 2, two: at work");
  EXPECT_EQ(done, 1);
  EXPECT_EQ(all, 2);
  EXPECT_FALSE(seconds.has_value());
  TimeLeft knowing({{"one", 4}, {"two", 5}}, true, show);
  knowing.teller()("one: at work", 1, 2, 3);
  EXPECT_EQ(told, "part 1 of 2, one: at work");
  EXPECT_EQ(seconds, 8);
  EXPECT_FALSE(TimeLeft({}, true, {}).teller());
}

}  // namespace
}  // namespace assay
