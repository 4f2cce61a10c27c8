// The first table of a run: what it shows and when, by a clock of the test.
#include "assay/harness/first_table.h"

#include <gtest/gtest.h>

#include "support/timed_session.h"

namespace assay {
namespace {

CaseResult case_that_ran(const std::string& label, double first_s, std::size_t tokens) {
  CaseResult c;
  c.spec.label = label;
  c.first.seconds = first_s;
  c.first.ids = {std::vector<TokenId>(tokens), std::vector<TokenId>(tokens)};
  return c;
}

class FirstTableOfARun : public testing::Test {
 protected:
  void pass(int seconds) { now_ += std::chrono::seconds(seconds); }
  TimePoint now_;
  std::vector<std::vector<FirstFigures>> shown_;
  FirstTable table_{[this](const std::vector<FirstFigures>& all) { shown_.push_back(all); },
                    [this] { return now_; }};
  OnCases tell_ = table_.teller();
};

TEST_F(FirstTableOfARun, IsShownOnceAfterTwoMinutes) {
  tell_("Baseline", {case_that_ran("prompt 1", 2, 8)});
  pass(119);
  CaseResult timed = case_that_ran("prompt 1", 2, 8);
  for (const double seconds : {4.0, 5.0, 9.0})
    timed.samples[{0, static_cast<int>(seconds)}].total_latency_s = seconds;
  tell_("Baseline", {timed});
  EXPECT_TRUE(shown_.empty());
  pass(1);
  CaseResult failed = case_that_ran("fails", 1, 1), waiting;
  failed.status = RowStatus::error;
  tell_("Lengths", {case_that_ran("32 tokens", 0, 4), failed, waiting});
  ASSERT_EQ(shown_.size(), 1U);
  EXPECT_EQ(shown_[0], (std::vector<FirstFigures>{{"Baseline", "prompt 1", 5, 16.0 / 5, 3},
                                                  {"Lengths", "32 tokens", 0, 0, 0}}));
  pass(500);
  tell_("Lengths", {case_that_ran("32 tokens", 1, 4)});
  table_.show_if_due();
  EXPECT_EQ(shown_.size(), 1U);
}

TEST_F(FirstTableOfARun, DoesNotWaitForTheNextCase) {
  tell_("Baseline", {case_that_ran("prompt 1", 2, 8)});
  table_.show_if_due();
  EXPECT_TRUE(shown_.empty());
  pass(130);  // a text is scored meanwhile
  table_.show_if_due();
  ASSERT_EQ(shown_.size(), 1U);
  EXPECT_EQ(shown_[0], (std::vector<FirstFigures>{{"Baseline", "prompt 1", 2, 8, 0}}));
}

TEST_F(FirstTableOfARun, IsNoEmptyOne) {
  pass(1000);
  table_.show_if_due();
  tell_("Baseline", {CaseResult()});
  EXPECT_TRUE(shown_.empty());
  tell_("Baseline", {case_that_ran("prompt 1", 2, 8)});
  EXPECT_EQ(shown_.size(), 1U);
}

// Sessions that move the clock: a run of 50 s is the third after a load of 20 s and a first run, so that two
// minutes are over.
TEST(FirstTable, IsTaughtByASweep) {
  test::TimedScript script;
  script.start_s = 20;
  script.first_s = 30;
  script.run_s = [](const Case&, int) { return 50.0; };
  std::vector<std::vector<FirstFigures>> shown;
  std::vector<double> when;
  const TimePoint begin = script.now;
  FirstTable table(
      [&](const std::vector<FirstFigures>& all) {
        shown.push_back(all);
        when.push_back(elapsed(begin, script.now).value);
      },
      script.clock());
  SweepOptions options;
  options.clock = script.clock();
  options.processes = 1;
  options.repeats = 4;
  options.on_cases = table.teller();
  Sessions sessions = test::timed_sessions(script, true);
  Case spec;
  spec.label = "a";
  spec.prompts = {"a"};
  run_sweep(sessions, "Lengths", {spec}, options);
  ASSERT_EQ(when, std::vector<double>{150});
  EXPECT_EQ(shown[0], (std::vector<FirstFigures>{{"Lengths", "a", 50, 0.02, 2}}));
}

}  // namespace
}  // namespace assay
