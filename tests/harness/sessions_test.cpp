// Sessions: made once, remembered, dropped, and grouped by the memory they share.
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <tuple>

#include "assay/base/error.h"
#include "assay/harness/sweep.h"
#include "assay/harness/worker_protocol.h"
#include "support/fake_session.h"

namespace assay {
namespace {

RunConfig of_threads(int threads) {
  RunConfig config;
  config.threads = threads;
  return config;
}

class MadeSessions : public testing::Test {
 protected:
  Sessions sessions(std::int64_t budget = 0, std::int64_t device_budget = 0) {
    return Sessions(
        [this](const RunConfig& configuration) -> std::unique_ptr<Session> {
          made_.push_back(*configuration.threads);
          if (configuration.threads == 90) throw Error("no such thing");
          if (configuration.threads == 91) throw WorkerLost(WorkerLost::Cause::crashed, "the worker died");
          if (configuration.threads == 92) throw WorkerLost(WorkerLost::Cause::stopped, "interrupted");
          return std::make_unique<test::FakeSession>(configuration,
                                                     [](const RunConfig&, const Case&) { return 1.0; });
        },
        [](const RunConfig& c) { return Bytes{*c.threads}; }, Bytes{budget}, false,
        [device_budget](const RunConfig& c) { return Bytes{*c.threads > 50 ? device_budget : 0}; });
  }
  static std::string failure(Sessions& sessions, int threads) {
    try {
      sessions.of(of_threads(threads));
    } catch (const WorkerLost& lost) {
      return std::string("lost: ") + lost.what();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::vector<std::vector<int>> groups(const std::vector<int>& threads, std::int64_t budget,
                                       std::int64_t device_budget = 0) {
    std::vector<RunConfig> all;
    for (const int n : threads) all.push_back(of_threads(n));
    std::vector<std::vector<int>> found;
    for (const auto& group : sessions(budget, device_budget).groups(all)) {
      found.emplace_back();
      for (const RunConfig& c : group) found.back().push_back(*c.threads);
    }
    return found;
  }
  using Groups = std::vector<std::vector<int>>;
  std::vector<int> made_;
};

// One policy for whatever fails.
TEST_F(MadeSessions, AttemptsFailAloneOrStopTheRun) {
  Sessions all = sessions();
  using End = Attempt::End;
  bool is_stopped = false;
  // How it ended, and whether the session was kept.
  const auto attempt = [&](const std::function<void()>& action) {
    all.of(of_threads(1));
    const std::size_t made_before = made_.size();
    const Attempt made = all.attempt(of_threads(1), action, [&] { return is_stopped; });
    all.of(of_threads(1));
    return std::tuple(made.end, made.reason, made_.size() == made_before);
  };
  EXPECT_EQ(attempt([] {}), std::tuple(End::done, std::string(), true));
  EXPECT_EQ(attempt([] { throw Error("too long"); }), std::tuple(End::failed, std::string("too long"), true));
  EXPECT_EQ(attempt([] { throw std::bad_alloc(); }),
            std::tuple(End::failed, std::string("not enough memory"), true));
  EXPECT_EQ(attempt([] { throw Stopped("interrupted"); }), std::tuple(End::stopped, std::string(), true));
  EXPECT_EQ(attempt([] { throw WorkerLost(WorkerLost::Cause::crashed, "it died"); }),
            std::tuple(End::failed, std::string("it died"), false));
  EXPECT_EQ(std::get<0>(attempt([] { throw WorkerLost(WorkerLost::Cause::stopped, "interrupted"); })),
            End::stopped);
  EXPECT_THROW(attempt([] { throw JournalError("cannot be written"); }), JournalError);
  EXPECT_THROW(attempt([] { throw std::logic_error("a mistake"); }), std::logic_error);
  is_stopped = true;
  EXPECT_EQ(std::get<0>(attempt([] { throw Error("interrupted"); })), End::stopped);
  EXPECT_EQ(std::get<0>(attempt([] {})), End::done);
}

TEST_F(MadeSessions, AreMadeOnceAndFailOnce) {
  Sessions all = sessions();
  Session& one = all.of(of_threads(1));
  EXPECT_EQ(&all.of(of_threads(1)), &one);
  EXPECT_EQ(all.facts(of_threads(1)).kernels, "fake");
  EXPECT_EQ(all.facts(of_threads(2)).kernels, "fake");
  EXPECT_EQ(made_, (std::vector<int>{1, 2}));
  EXPECT_EQ(failure(all, 90), "no such thing");
  EXPECT_EQ(failure(all, 90), "no such thing");
  EXPECT_EQ(failure(all, 91), "while loading, the worker died");
  EXPECT_EQ(failure(all, 91), "while loading, the worker died");
  EXPECT_EQ(made_, (std::vector<int>{1, 2, 90, 91})) << "what failed is not tried again";
  EXPECT_EQ(failure(all, 92), "lost: interrupted");
  EXPECT_EQ(failure(all, 92), "lost: interrupted") << "a stop is no failure of its own";
  EXPECT_EQ(made_.size(), 6U);
  SessionFacts known;
  known.kernels = "of a journal";
  all.remember(of_threads(3), known);
  EXPECT_EQ(all.facts(of_threads(3)).kernels, "of a journal");
  EXPECT_EQ(made_.size(), 6U) << "nothing is loaded for them";
}

TEST_F(MadeSessions, EndWhenTheyAreDropped) {
  Sessions all = sessions(100);
  for (const int n : {1, 2, 3}) all.of(of_threads(n));
  made_.clear();
  all.drop(of_threads(2));
  for (const int n : {1, 2, 3}) all.of(of_threads(n));
  EXPECT_EQ(made_, std::vector<int>{2});
  made_.clear();
  all.keep_only({of_threads(1), of_threads(3)});
  for (const int n : {1, 2, 3}) all.of(of_threads(n));
  EXPECT_EQ(made_, std::vector<int>{2});
  made_.clear();
  all.end_all();
  for (const int n : {1, 2, 3}) all.of(of_threads(n));
  EXPECT_EQ(made_, (std::vector<int>{1, 2, 3}));
  Sessions unlimited = sessions(0);
  unlimited.of(of_threads(1));
  made_.clear();
  unlimited.keep_only({of_threads(2)});
  unlimited.of(of_threads(1));
  EXPECT_TRUE(made_.empty()) << "without a limit there is room for all";
}

TEST_F(MadeSessions, ShareTheirMemoryInGroups) {
  EXPECT_EQ(groups({}, 100), Groups{});
  EXPECT_EQ(groups({40, 40, 40}, 0), (Groups{{40, 40, 40}})) << "no limit";
  EXPECT_EQ(groups({40, 30, 30}, 100), (Groups{{40, 30, 30}})) << "they fill it to the byte";
  EXPECT_EQ(groups({40, 30, 31}, 100), (Groups{{40, 30}, {40, 31}}));
  EXPECT_EQ(groups({40, 20, 40, 30, 30, 10}, 100), (Groups{{40, 20, 40}, {40, 30, 30}, {40, 10}}));
  EXPECT_EQ(groups({90, 80, 70}, 100), (Groups{{90, 80}, {90, 70}})) << "two at least";
  EXPECT_EQ(groups({90}, 10), (Groups{{90}}));
  // Half of a device's memory each.
  EXPECT_EQ(groups({60, 60, 60}, 1000, 120), (Groups{{60, 60}, {60, 60}}));
}

TEST_F(MadeSessions, SayWhatDoesNotFit) {
  Sessions all([](const RunConfig&) -> std::unique_ptr<Session> { throw Error("none is made"); },
               [](const RunConfig& c) { return Bytes{std::int64_t{*c.threads} << 20}; },
               Bytes{std::int64_t{5} << 20});
  EXPECT_FALSE(all.why_not(of_threads(5)));
  EXPECT_EQ(all.why_not(of_threads(6)), "out of memory predicted: 6 MiB needed, 5 MiB allowed");
  const Sessions unlimited([](const RunConfig&) -> std::unique_ptr<Session> { throw Error("none is made"); });
  EXPECT_FALSE(unlimited.why_not(of_threads(6)));
}

// How a failure of a run ends its case, and how a stop ends the whole.
class FailingSweep : public testing::Test {
 protected:
  SweepResult run(const std::function<double()>& fail) {
    Sessions sessions([&](const RunConfig& configuration) {
      ++made_;
      return std::make_unique<test::FakeSession>(configuration, [&](const RunConfig&, const Case& spec) {
        return spec.label == "bad" ? fail() : 0.1;
      });
    });
    Case good, bad;
    good.label = "good";
    bad.label = "bad";
    options_.repeats = 2;
    return run_sweep(sessions, "s", {good, bad}, options_);
  }
  int made_ = 0;
  SweepOptions options_;
};

TEST_F(FailingSweep, ACaseFailsWithItsReason) {
  SweepResult result = run([]() -> double { throw Error("it broke"); });
  ASSERT_EQ(result.cases.size(), 2U);
  EXPECT_EQ(result.cases[1].status, RowStatus::error);
  EXPECT_EQ(result.cases[1].reason, "it broke");
  EXPECT_FALSE(result.is_interrupted);
  EXPECT_EQ(made_, 1);
  result = run([]() -> double { throw std::bad_alloc(); });
  EXPECT_EQ(result.cases[1].status, RowStatus::error);
  EXPECT_EQ(result.cases[1].reason, "not enough memory");
  made_ = 0;
  result = run([]() -> double { throw WorkerLost(WorkerLost::Cause::timed_out, "timed out"); });
  EXPECT_EQ(result.cases[1].reason, "timed out");
  EXPECT_EQ(result.cases[0].samples.size(), 2U);
  EXPECT_EQ(made_, 2) << "the session is made again";
  EXPECT_THROW(run([]() -> double { throw JournalError("it is full"); }), JournalError);
}

TEST_F(FailingSweep, AStopIsNoFailure) {
  SweepResult result = run([]() -> double { throw WorkerLost(WorkerLost::Cause::stopped, "interrupted"); });
  EXPECT_TRUE(result.is_interrupted);
  for (const CaseResult& c : result.cases) EXPECT_EQ(c.status, RowStatus::ok) << c.reason;
  bool is_stopped = false;
  options_.should_stop = [&] { return is_stopped; };
  result = run([&]() -> double {
    is_stopped = true;
    throw Error("interrupted");
  });
  EXPECT_TRUE(result.is_interrupted);
  for (const CaseResult& c : result.cases) EXPECT_EQ(c.status, RowStatus::ok) << c.reason;
  is_stopped = true;
  result = run([] { return 0.1; });
  EXPECT_TRUE(result.cases.empty()) << "none began";
}

TEST_F(FailingSweep, ACaseThatIsAskedForTwiceSaysSo) {
  Sessions sessions = test::fake_sessions([](const RunConfig&, const Case&) { return 0.1; });
  Case spec;
  spec.label = "a";
  spec.warnings = {{WarningKind::prompt_truncated, "it was cut"}};
  options_.repeats = 1;
  const SweepResult result = run_sweep(sessions, "s", {spec, spec}, options_);
  ASSERT_EQ(result.cases.size(), 1U);
  EXPECT_EQ(result.cases[0].warnings,
            (std::vector<Warning>{{WarningKind::prompt_truncated, "it was cut"},
                                  {WarningKind::duplicate_case,
                                   "the case was asked for more than once and is measured once"}}));
  EXPECT_EQ(result.find(spec.key()), &result.cases[0]);
  EXPECT_EQ(result.find("another"), nullptr);
}

TEST_F(FailingSweep, OptionsAreRefusedByTheirField) {
  const auto refusal = [&](const std::function<void(SweepOptions&)>& change) -> std::string {
    Sessions sessions = test::fake_sessions([](const RunConfig&, const Case&) { return 0.1; });
    SweepOptions options;
    options.repeats = 1;
    change(options);
    try {
      run_sweep(sessions, "s", {Case{}}, options);
    } catch (const FieldError& error) {
      return error.field() + ": " + error.problem();
    }
    return "";
  };
  EXPECT_EQ(refusal([](SweepOptions& o) { o.repeats = 0; }),
            "repeats: expected a whole number from 1, found 0");
  EXPECT_EQ(refusal([](SweepOptions& o) { o.repeats = 1; }), "");
  EXPECT_EQ(refusal([](SweepOptions& o) { o.max_time_s = 0; }),
            "max_time_s: expected a number above 0, found 0");
  EXPECT_EQ(refusal([](SweepOptions& o) { o.max_time_s = 1e-9; }), "");
  EXPECT_EQ(refusal([](SweepOptions& o) { o.processes = 0; }),
            "processes: expected a whole number from 1, found 0");
  EXPECT_EQ(refusal([](SweepOptions& o) { o.processes = 1; }), "");
  EXPECT_EQ(refusal([](SweepOptions& o) { o.processes = 2; }),
            "processes: expected 1, because everything runs in this process, found 2");
}

// Both sides of each limit of plan_visits().
TEST(PlanVisits, HasItsLimits) {
  const auto plan = [](double start, double round, double time_s = 20, std::optional<int> repeats = {}) {
    SweepOptions options;
    options.time_s = time_s;
    if (repeats) options.repeats = *repeats;
    const VisitPlan p = plan_visits({start, round}, options);
    return std::pair(p.processes, p.rounds);
  };
  using Pair = std::pair<int, int>;
  // Five visits of 12 s take a minute, of 13 s more.
  EXPECT_EQ(plan(6, 2), Pair(5, 3));
  EXPECT_EQ(plan(7, 2), Pair(4, 3));
  EXPECT_EQ(plan(6, 2, 84), Pair(7, 3));
  EXPECT_EQ(plan(9, 2), Pair(4, 3)) << "four visits of 15 s";
  EXPECT_EQ(plan(10, 2), Pair(3, 3));
  // Three visits of 80 s take four minutes.
  EXPECT_EQ(plan(77, 1), Pair(3, 3));
  EXPECT_EQ(plan(78, 1), Pair(1, 6));
  EXPECT_EQ(plan(78, 1, 20, 2), Pair(3, 2)) << "of two rounds they fit";
  EXPECT_EQ(plan(79, 1, 20, 2), Pair(1, 2)) << "rounds that were asked for stay";
  // Starting takes as long as nine rounds, or longer.
  EXPECT_EQ(plan(81, 9), Pair(3, 3));
  EXPECT_EQ(plan(81.5, 9), Pair(1, 6));
  // Rounds fill the time, three at least and ten at most.
  EXPECT_EQ(plan(1, 0.25, 15), Pair(8, 3)) << "1.75 s each";
  EXPECT_EQ(plan(0.5, 0.25, 20), Pair(10, 6));
  EXPECT_EQ(plan(0.5, 0.125, 20), Pair(10, 10));
  EXPECT_EQ(plan(0.5, 0.125, 20, 4), Pair(10, 4));
  EXPECT_EQ(plan(1, 0), Pair(10, 3));
  EXPECT_EQ(plan(0, 0), Pair(10, 3));
  EXPECT_EQ(plan(100, 1, 108), Pair(1, 8));
}

TEST(LogRatios, AreOfTheRoundsThatHoldBoth) {
  CaseResult one, two;
  one.samples[{0, 0}].prefill_s = 2;
  one.samples[{0, 1}].prefill_s = 8;
  one.samples[{1, 0}].prefill_s = 3;
  one.samples[{2, 0}].prefill_s = 0;
  two.samples[{0, 0}].prefill_s = 1;
  two.samples[{0, 1}].prefill_s = 2;
  two.samples[{1, 1}].prefill_s = 5;
  two.samples[{2, 0}].prefill_s = 0;
  const auto ratios = log_ratios(one, two, &Sample::prefill_s);
  ASSERT_EQ(ratios.size(), 2U);
  EXPECT_EQ(ratios[0], (std::vector<double>{std::log(2.0), std::log(4.0)}));
  EXPECT_EQ(ratios[1], std::vector<double>{0}) << "nothing by nothing is as much";
}

}  // namespace
}  // namespace assay
