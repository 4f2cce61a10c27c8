// What a sweep tells of its progress: each line, the steps that are done, and the seconds that are left.
#include <gtest/gtest.h>

#include "support/timed_session.h"

namespace assay {
namespace {

class ToldSweep : public testing::Test {
 protected:
  ToldSweep() {
    options_.clock = script_.clock();
    options_.on_progress = [this](const std::string& now, std::int64_t done, std::int64_t all,
                                  std::optional<double> left) {
      told_.push_back(
          fmt::format("{} | {} of {} | {}", now, done, all, left ? fmt::format("{}", *left) : "-"));
    };
    script_.start_s = 1;
    script_.first_s = 2;
    script_.run_s = [](const Case&, int) { return 2.0; };
  }
  static Case told(const std::string& label, std::optional<int> threads = {}) {
    Case spec;
    spec.label = label;
    spec.configuration.precision = Preset::float32;
    spec.configuration.threads = threads;
    spec.prompts = {"a"};
    return spec;
  }
  using Lines = std::vector<std::string>;
  test::TimedScript script_;
  SweepOptions options_;
  Lines told_;
};

TEST_F(ToldSweep, InOneProcessCountsItsRounds) {
  Sessions sessions = test::timed_sessions(script_, false);
  options_.repeats = 3;
  run_sweep(sessions, "s", {told("a")}, options_);
  EXPECT_EQ(told_, (Lines{"s: warming up a | 0 of 3 | -", "s: a (float32), process 1, run 1 | 0 of 3 | -",
                          "s: a (float32), process 1, run 2 | 1 of 3 | 4",
                          "s: a (float32), process 1, run 3 | 2 of 3 | 2"}));
  told_.clear();
  options_.max_time_s = 8;  // 5 s, then 7 s of it are over
  run_sweep(sessions, "s", {told("float32")}, options_);
  EXPECT_EQ(told_[1], "s: float32, process 1, run 1 | 0 of 3 | -") << "a label that says it already";
  // The session lives on: 2 s for the first run.
  EXPECT_EQ(told_[2], "s: float32, process 1, run 2 | 1 of 3 | 4");
  EXPECT_EQ(told_[3], "s: float32, process 1, run 3 | 2 of 3 | 2");
  told_.clear();
  options_.max_time_s = 5;
  options_.fewest = 3;
  run_sweep(sessions, "s", {told("b")}, options_);
  EXPECT_EQ(told_[2], "s: b (float32), process 1, run 2 | 1 of 3 | 1");
  EXPECT_EQ(told_[3], "s: b (float32), process 1, run 3 | 2 of 3 | 0");
}

TEST_F(ToldSweep, WithoutANumberOfRoundsTakesItsTime) {
  Sessions sessions = test::timed_sessions(script_, false);
  options_.time_s = 11;
  run_sweep(sessions, "s", {told("a")}, options_);
  ASSERT_EQ(told_.size(), 7U);
  // Six rounds of 2 s, or 11 s of which 3 s were over before the first of them.
  EXPECT_EQ(told_[2], "s: a (float32), process 1, run 2 | 1 of 6 | 10");
  EXPECT_EQ(told_[6], "s: a (float32), process 1, run 6 | 5 of 6 | 2");
  told_.clear();
  options_.time_s = 100;
  run_sweep(sessions, "s", {told("b")}, options_);
  EXPECT_EQ(told_[2], "s: b (float32), process 1, run 2 | 1 of 6 | 96");
}

TEST_F(ToldSweep, OfProcessesCountsWhatIsLeftOfEach) {
  Sessions sessions = test::timed_sessions(script_, true);
  options_.processes = 3;
  options_.repeats = 2;
  run_sweep(sessions, "s", {told("a")}, options_);
  // A visit takes 7 s: a start, a first run or a warm-up, two rounds of 2 s.
  EXPECT_EQ(told_, (Lines{"s: warming up a | 0 of 2 | -", "s: a (float32), process 1, run 1 | 0 of 2 | -",
                          "s: a (float32), process 1, run 2 | 1 of 2 | -", "s: warming up a | 2 of 6 | 11",
                          "s: a (float32), process 2, run 1 | 2 of 6 | 11",
                          "s: a (float32), process 2, run 2 | 3 of 6 | 9", "s: warming up a | 4 of 6 | 4",
                          "s: a (float32), process 3, run 1 | 4 of 6 | 4",
                          "s: a (float32), process 3, run 2 | 5 of 6 | 2"}));
}

TEST_F(ToldSweep, OfGroupsCountsThoseThatAreLeft) {
  // Three groups: the baseline beside each of the others.
  Sessions sessions = test::timed_sessions(
      script_, true, [](const RunConfig&) { return Bytes{50}; }, Bytes{100});
  options_.processes = 2;
  options_.repeats = 1;
  run_sweep(sessions, "s", {told("a"), told("b", 2), told("c", 3), told("d", 4)}, options_);
  std::vector<std::string> first;  // for each group: what warming up tells first
  for (std::size_t i = 0; i < told_.size(); ++i)
    if (told_[i].find("warming up") != std::string::npos &&
        (i == 0 || told_[i - 1].find("warming up") == std::string::npos))
      first.push_back(told_[i].substr(told_[i].find("| ")));
  // A group starts and warms up in 6 s, the baseline's first run is over after the first: 2 s less where it
  // needs none. Its round takes 4 s.
  ASSERT_EQ(first.size(), 6U);
  EXPECT_EQ(first[0], "| 0 of 1 | -");
  EXPECT_EQ(first[1], "| 0 of 2 | 34");  // 4, a group of 10, a visit of two of them
  EXPECT_EQ(first[2], "| 0 of 2 | 14");
}

}  // namespace
}  // namespace assay
