// How long a sweep warms up, and when it ends: by a clock that only its runs move.
#include <gtest/gtest.h>

#include <map>

#include "assay/base/error.h"
#include "assay/base/random.h"
#include "support/timed_session.h"

namespace assay {
namespace {

class TimedSweep : public testing::Test {
 protected:
  TimedSweep() { options_.clock = script_.clock(); }
  static Case timed(const std::string& label, std::optional<int> threads = {}) {
    Case spec;
    spec.label = label;
    spec.configuration.threads = threads;
    spec.prompts = {"a"};
    return spec;
  }
  SweepResult run(bool have_processes, const std::vector<Case>& cases) {
    Sessions sessions = test::timed_sessions(script_, have_processes);
    return run_sweep(sessions, "s", cases, options_);
  }
  std::size_t samples(bool have_processes) {
    return run(have_processes, {timed("a")}).cases[0].samples.size();
  }
  // Warm-ups after a first run of so many seconds, where runs then take these.
  int warm_ups(double first_s, std::vector<double> times) {
    script_.first_s = first_s;
    std::size_t at = 0;
    script_.run_s = [&](const Case&, int) { return times[std::min(at++, times.size() - 1)]; };
    options_.repeats = 1;
    return run(false, {timed("a")}).cases[0].warm_ups;
  }
  test::TimedScript script_;
  SweepOptions options_;
};

TEST_F(TimedSweep, WarmsUpUntilTwoRunsTakeAboutTheSame) {
  EXPECT_EQ(warm_ups(1, {1.05}), 1);
  EXPECT_EQ(warm_ups(1, {0.95}), 1);
  EXPECT_EQ(warm_ups(1, {1.125, 1.2}), 2) << "12.5 % more than before, then 7 %";
  EXPECT_EQ(warm_ups(1, {0.875, 0.8}), 2);
  EXPECT_EQ(warm_ups(1, {0.5, 1, 0.5, 1}), 3) << "no more than three";
  EXPECT_EQ(warm_ups(1.25, {1.125, 1.125}), 2) << "a tenth is too much";
  EXPECT_EQ(warm_ups(1, {2, 2}), 1) << "two seconds are too long to repeat";
  EXPECT_EQ(warm_ups(1.5, {1.5}), 0);
  EXPECT_EQ(warm_ups(1.4375, {1.4375}), 1);
}

// Sweeps in series go on in the session that is there, and their time begins with their first round.
TEST_F(TimedSweep, InSeriesGoesOnInTheSessionThatIsThere) {
  script_.start_s = 10;
  script_.first_s = 5;
  options_.processes = 1;
  options_.repeats = 4;
  options_.max_time_s = 2;
  Sessions sessions = test::timed_sessions(script_, true);
  const auto samples = [&](const char* label) {
    return run_sweep(sessions, label, {timed(label)}, options_).cases[0].samples.size();
  };
  EXPECT_EQ(samples("a"), 1U) << "loading alone takes longer";
  options_.is_in_series = true;
  EXPECT_EQ(samples("b"), 2U);
  EXPECT_EQ(samples("c"), 2U);
  EXPECT_EQ(script_.made, 1);
  options_.is_in_series = false;
  samples("d");
  EXPECT_EQ(script_.made, 2) << "a sweep of its own starts afresh";
}

TEST_F(TimedSweep, OfALaterVisitWarmsUpOnceUnlessRunsAreShort) {
  options_.processes = 3;
  options_.repeats = 1;
  const auto all_warm_ups = [&](double seconds) {
    script_.first_s = seconds;
    script_.run_s = [=](const Case&, int) { return seconds; };
    const SweepResult result = run(true, {timed("a"), timed("b")});
    return result.cases[0].warm_ups + result.cases[1].warm_ups;
  };
  // Two cases of one session: both in the first visit, then the first of a session alone.
  EXPECT_EQ(all_warm_ups(0.25), 1 + 2 * 1) << "the first run of a case is enough in a session that is warm";
  EXPECT_EQ(all_warm_ups(0.1875), 2 + 2 * 2) << "short runs cost nothing";
  // Long ones do not run in the first visit, where the first run has warmed up the session.
  EXPECT_EQ(all_warm_ups(2), 0 + 2 * 1);
}

TEST_F(TimedSweep, OfALaterVisitRepeatsWhatIsNotSteadyOncePerSession) {
  options_.processes = 2;
  options_.repeats = 1;
  script_.first_s = 0.125;
  std::map<std::string, int> runs;
  script_.run_s = [&](const Case& spec, int) { return ++runs[spec.label] % 2 == 0 ? 0.125 : 0.0625; };
  run(true, {timed("a"), timed("b")});
  const auto second = std::find(script_.log.rbegin(), script_.log.rend(), "start");
  // Each run takes twice or half as long as the one before: three of the first case, one of the other, and
  // the round.
  EXPECT_EQ(second - script_.log.rbegin(), 3 + 1 + 2);
  // In the first visit three of each, beside the first runs.
  EXPECT_EQ(script_.log.size(), 2U + 2 + 6 + 2 + 6);
}

TEST_F(TimedSweep, ProcessesAndRoundsFollowFromTheirCost) {
  // 1 s to start, 0.0625 s for each run: two to warm up. Ten visits of 1.6 s: (1.6 - 1.125) / 0.0625 rounds.
  script_.start_s = 1;
  script_.first_s = 0.0625;
  script_.run_s = [](const Case&, int made) { return 0.0625 * (made % 2 == 0 ? 1 : 2); };  // never narrow
  options_.time_s = 16;
  const SweepResult result = run(true, {timed("a")});
  EXPECT_EQ(script_.made, 10);
  EXPECT_EQ(result.cases[0].samples.size(), 70U);
  EXPECT_EQ(result.cases[0].places().back(), (SampleId{9, 6}));
}

TEST_F(TimedSweep, LooksAfterFiveAndSevenProcesses) {
  script_.start_s = 1;
  const auto processes = [&](double narrow) {
    script_.made = 0;
    // Alternating by 1 %: half the interval is 1.36 % of five, 1.17 % of six, 0.99 % of seven.
    script_.run_s = [](const Case&, int made) { return 0.0625 * (made % 2 == 0 ? 1.01 : 0.99); };
    options_.narrow = narrow;
    run(true, {timed("a")});
    return script_.made;
  };
  EXPECT_EQ(processes(0.014), 5);
  EXPECT_EQ(processes(0.0125), 7) << "narrow from the sixth on, but nobody looks";
  EXPECT_EQ(processes(0.0105), 7);
  EXPECT_EQ(processes(0.0075), 10);
  options_.processes = 8;
  EXPECT_EQ(processes(0.014), 8) << "as many as were asked for";
}

TEST_F(TimedSweep, EndsWithItsTimeAfterTheFewestRounds) {
  // 1 s for the first run and a warm-up each; a round ends every second from the third on.
  script_.first_s = 1;
  options_.repeats = 10;
  const auto samples_until = [&](double max_time_s, std::int64_t fewest) {
    options_.max_time_s = max_time_s;
    options_.fewest = fewest;
    return samples(false);
  };
  EXPECT_EQ(samples_until(0.5, 1), 1U);
  EXPECT_EQ(samples_until(3, 1), 1U) << "nothing begins at the limit";
  EXPECT_EQ(samples_until(3.5, 1), 2U);
  EXPECT_EQ(samples_until(0.5, 4), 4U);
  EXPECT_EQ(samples_until(100, 1), 10U);
  // For several processes: the second would begin after 5 s.
  options_.repeats = 3;
  options_.processes = 4;
  options_.max_time_s = 5;
  EXPECT_EQ(samples(true), 3U);
  options_.max_time_s = 5.5;  // its warm-up is over after 6 s
  script_.made = 0;
  EXPECT_EQ(samples(true), 3U);
  EXPECT_EQ(script_.made, 2);
  options_.max_time_s = 6.5;
  EXPECT_EQ(samples(true), 4U);
}

TEST_F(TimedSweep, InOneProcessTakesRoundsUntilItsTimeIsOver) {
  script_.first_s = 2;
  int run = 0;
  script_.run_s = [&](const Case&, int) { return ++run % 2 == 0 ? 0.5 : 1.5; };  // a second in the mean
  options_.time_s = 8;
  EXPECT_EQ(samples(false), 8U) << "the eighth ends at 8 s";
  options_.time_s = 8.5;
  run = 0;
  EXPECT_EQ(samples(false), 9U);
  options_.time_s = 1;
  run = 0;
  EXPECT_EQ(samples(false), 6U) << "six in any case";
  options_.time_s = 1e6;
  run = 0;
  EXPECT_EQ(samples(false), 200U) << "no more than that";
}

TEST_F(TimedSweep, InOneProcessLooksEverMoreRarely) {
  script_.first_s = 2;
  options_.time_s = 1e6;
  const auto samples_with = [&](std::vector<int> wild) {
    int run = 0;
    script_.run_s = [&](const Case&, int) {
      const bool is_wild = std::find(wild.begin(), wild.end(), run) != wild.end();
      ++run;
      return is_wild ? 2.0 : 1.0;
    };
    return samples(false);
  };
  // The interval of a median leaves out one run at each end from nine on, two from twelve, three from
  // fifteen, four from seventeen. Looks are at 6, 8, 11, 15 and 21 runs.
  EXPECT_EQ(samples_with({}), 6U);
  EXPECT_EQ(samples_with({2}), 11U);
  EXPECT_EQ(samples_with({2, 5}), 15U);
  EXPECT_EQ(samples_with({2, 5, 9, 12}), 21U);
}

// A case that fails after rounds whose times differ widely keeps nobody waiting.
TEST_F(TimedSweep, LooksAtTheCasesThatStillRun) {
  script_.first_s = 2;
  int bad = 0;
  script_.run_s = [&](const Case& spec, int) -> double {
    if (spec.label != "bad") return 1;
    if (++bad == 4) throw Error("it broke");
    return bad % 2 == 0 ? 1 : 3;
  };
  options_.time_s = 1e6;
  const SweepResult result = run(false, {timed("a"), timed("bad")});
  EXPECT_EQ(result.cases[0].samples.size(), 6U);
  EXPECT_EQ(result.cases[1].samples.size(), 3U);
  EXPECT_EQ(result.cases[1].reason, "it broke");
}

// Fisher and Yates' shuffle of each round, and of the warm-ups from the second visit on.
TEST_F(TimedSweep, OrdersItsCasesBySeed) {
  for (const std::uint64_t seed : {1U, 2U}) {
    script_ = {.now = {}, .first_s = 2, .log = {}};
    options_.seed = seed;
    options_.processes = 2;
    options_.repeats = 2;
    const std::vector<std::string> labels = {"a", "b", "c", "d"};
    std::vector<Case> cases;
    for (const std::string& label : labels) cases.push_back(timed(label));
    run(true, cases);
    Random random(seed);
    const auto shuffled = [&] {
      std::vector<std::string> order = labels;
      for (std::size_t i = 4; i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
      return order;
    };
    std::vector<std::string> expected = {"start", "first a", "first b", "first c", "first d"};
    const auto add = [&](const std::vector<std::string>& more) {
      expected.insert(expected.end(), more.begin(), more.end());
    };
    add(shuffled());
    add(shuffled());
    expected.emplace_back("start");
    add({shuffled().front()});  // warms up for all: runs of a second cost too much
    add(shuffled());
    add(shuffled());
    EXPECT_EQ(script_.log, expected) << seed;
  }
}

// Processes are numbered over all groups of all visits, so that only what ran side by side is paired.
TEST_F(TimedSweep, NumbersTheProcessesOfItsGroups) {
  options_.processes = 2;
  options_.repeats = 1;
  Sessions sessions = test::timed_sessions(
      script_, true, [](const RunConfig&) { return Bytes{50}; }, Bytes{100});
  const SweepResult result =
      run_sweep(sessions, "s", {timed("a"), timed("b", 2), timed("c", 3), timed("d", 4)}, options_);
  const auto processes = [&](std::size_t i) {
    std::vector<int> all;
    for (const SampleId& place : result.cases[i].places()) all.push_back(place.process);
    return all;
  };
  EXPECT_EQ(processes(0), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(processes(1), (std::vector<int>{0, 3}));
  EXPECT_EQ(processes(2), (std::vector<int>{1, 4}));
  EXPECT_EQ(processes(3), (std::vector<int>{2, 5}));
}

TEST_F(TimedSweep, TellsHowLongAVisitTook) {
  script_.start_s = 1;
  script_.first_s = 2;
  script_.run_s = [](const Case&, int made) { return made == 2 ? 8.0 : 2.0; };
  options_.processes = 3;
  options_.repeats = 2;
  const SweepResult result = run(true, {timed("a")});
  // A start, a first run or a warm-up, two rounds: 7 s, 7 s and 25 s.
  EXPECT_DOUBLE_EQ(result.cases[0].visit_s, 13);
  EXPECT_EQ(result.cases[0].facts.kernels, "timed");
}

}  // namespace
}  // namespace assay
