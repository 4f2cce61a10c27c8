// A sweep with a deadline, and cases that are measured once: by a clock that only its runs move.
#include <gtest/gtest.h>

#include "assay/harness/sweep.h"
#include "support/timed_session.h"

namespace assay {
namespace {

Case named_case(const std::string& label, int threads) {
  Case spec;
  spec.label = label;
  spec.configuration.threads = threads;
  spec.prompts = {"a"};
  return spec;
}

class DeadlineSweep : public testing::Test {
 protected:
  DeadlineSweep() {
    options_.clock = script_.clock();
    options_.processes = 3;
    options_.repeats = 3;
    script_.run_s = [](const Case&, int) { return 2.0; };
    script_.first_s = 2;
  }
  SweepResult run(const std::vector<Case>& cases) {
    Sessions sessions = test::timed_sessions(script_, true);
    return run_sweep(sessions, "s", cases, options_);
  }
  test::TimedScript script_;
  SweepOptions options_;
};

TEST_F(DeadlineSweep, ACaseThatIsMeasuredOnceRunsOnce) {
  Case once = named_case("long", 1);
  once.is_measured_once = true;
  const SweepResult swept = run({named_case("short", 1), once});
  ASSERT_EQ(swept.cases.size(), 2U);
  EXPECT_EQ(swept.cases[0].samples.size(), 9U);
  EXPECT_EQ(swept.cases[1].samples.size(), 1U);
  EXPECT_EQ(swept.cases[1].warm_ups, 0);
  EXPECT_EQ(swept.cases[1].first.seconds, 2) << "its text and its memory are known";
}

TEST_F(DeadlineSweep, NothingBeginsAfterIt) {
  options_.deadline = options_.clock() + std::chrono::seconds(3);
  const SweepResult swept = run({named_case("a", 1), named_case("b", 2), named_case("c", 3)});
  ASSERT_EQ(swept.cases.size(), 2U) << "the third never began";
  EXPECT_FALSE(swept.is_interrupted);
  for (const CaseResult& c : swept.cases) EXPECT_EQ(c.samples.size(), 1U) << "what began is measured";
}

TEST_F(DeadlineSweep, TheFirstCaseIsMeasuredWhateverTheTime) {
  options_.deadline = options_.clock();
  const SweepResult swept = run({named_case("a", 1), named_case("b", 2)});
  ASSERT_EQ(swept.cases.size(), 1U);
  EXPECT_TRUE(swept.cases[0].is_measured());
}

// A visit takes a first run, or a warm-up, and three runs: eight seconds.
TEST_F(DeadlineSweep, NoProcessBeginsThatWouldEndAfterIt) {
  options_.deadline = options_.clock() + std::chrono::seconds(17);
  EXPECT_EQ(run({named_case("a", 1)}).cases[0].samples.size(), 6U);
}

}  // namespace
}  // namespace assay
