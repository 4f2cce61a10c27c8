// The time left of a run of several parts: what is predicted, made good by what the parts before it took.
#include "assay/harness/time_left.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TimePoint later(TimePoint from, double seconds) {
  return from + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Case timed_case(int replica) {
  Case what;
  what.configuration.replica = replica;
  return what;
}

TEST(PredictedSweep, GrowsWithItsCasesAndIsBoundByItsTime) {
  const auto second = [](const Case&) { return 1.0; };
  SweepOptions options;
  options.processes = 2;
  options.repeats = 4;
  // Two processes of a start, two warm-ups and four rounds.
  const double one = predicted_sweep_s({timed_case(0)}, options, second);
  EXPECT_NEAR(one, 2 * (0.15 + 6 * 1.02), 1e-9);
  EXPECT_GT(predicted_sweep_s({timed_case(0), timed_case(1)}, options, second), 1.9 * one);
  options.max_time_s = 6;
  EXPECT_NEAR(predicted_sweep_s({timed_case(0)}, options, second), 6, 1e-9);
  // Short cases take the time that an adaptive sweep has.
  options = {};
  options.time_s = 20;
  const double adaptive = predicted_sweep_s({timed_case(0)}, options, [](const Case&) { return 0.001; });
  EXPECT_GT(adaptive, 3);
  EXPECT_LT(adaptive, 21);
}

class ThreeParts : public testing::Test {
 protected:
  ThreeParts() : left_({{"one", 20}, {"two", 10}, {"three", 30}}, true, {}) {}
  const TimePoint begin_ = Clock::now();
  TimeLeft left_;
};

TEST_F(ThreeParts, IsThePredictionLessWhatHasPassed) {
  EXPECT_NEAR(*left_.seconds_left({}, begin_), 60, 0.5);
  EXPECT_NEAR(*left_.seconds_left({}, later(begin_, 5)), 55, 0.5);
  EXPECT_NEAR(*left_.seconds_left(3, later(begin_, 5)), 43, 0.5);  // the part itself knows better
  EXPECT_NEAR(*left_.seconds_left({}, later(begin_, 500)), 40,
              0.5);  // a part that lasts takes no other's time
}

TEST_F(ThreeParts, LearnsFromThePartsThatAreOver) {
  left_.begin("two", later(begin_, 45));  // of which 20 were predicted: twice as slow
  EXPECT_NEAR(*left_.seconds_left({}, later(begin_, 45)), 80, 2);
  left_.begin("three", later(begin_, 65));
  EXPECT_NEAR(*left_.seconds_left({}, later(begin_, 65)), 60, 2);
  left_.begin("no such part", later(begin_, 70));
  EXPECT_NEAR(*left_.seconds_left(7, later(begin_, 70)), 7, 1e-9);
}

TEST(TimeLeft, TellsThePartAndNoTimeThatNobodyPredicted) {
  std::string told;
  std::optional<double> seconds = 0;
  TimeLeft left({{"one", 0}, {"two", 0}}, false,
                [&](const std::string& now, std::int64_t, std::int64_t, std::optional<double> left_s) {
                  told = now;
                  seconds = left_s;
                });
  left.begin("two");
  left.teller()("two: at work", 1, 2, 3);
  EXPECT_EQ(told, "part 2 of 2, two: at work");
  EXPECT_FALSE(seconds.has_value());
  EXPECT_FALSE(TimeLeft({}, true, {}).teller());
}

}  // namespace
}  // namespace assay
