// Sessions that start and load side by side: in which order, how many, and what a failure of one means.
#include <gtest/gtest.h>

#include <algorithm>

#include "assay/base/error.h"
#include "support/fake_starts.h"

namespace assay {
namespace {

using Log = std::vector<std::string>;
using test::config_of_threads;

class SideBySideSessions : public testing::Test {
 protected:
  static std::vector<RunConfig> configs(const std::vector<int>& threads) {
    std::vector<RunConfig> all;
    for (const int n : threads) all.push_back(config_of_threads(n));
    return all;
  }
  // Those that have gone in the order of their numbers, where several go one after another.
  Log take_log() {
    Log log = std::exchange(starts_.log, {});
    const auto is_gone = [](const std::string& entry) { return entry.rfind("gone", 0) == 0; };
    for (auto at = log.begin(); at != log.end();) {
      const auto end = std::find_if_not(at, log.end(), is_gone);
      std::sort(at, end);
      at = end == log.end() ? end : std::next(end);
    }
    return log;
  }
  // Loading fails for this configuration, the first so many times.
  void fail(int threads, int times) {
    starts_.on_finish = [=](int own, int number) {
      if (own == threads && number < times) throw Error("device memory: none is free");
    };
  }
  std::string failure(Sessions& sessions, int threads) {
    try {
      sessions.of(config_of_threads(threads));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  test::Starts starts_;
};

TEST_F(SideBySideSessions, LoadAsManyAsMayAndAreCollectedInOrder) {
  const auto all = test::logged_sessions(starts_);
  all->load(configs({1, 2, 3}));
  EXPECT_EQ(take_log(), (Log{"start 1", "load 1", "start 2", "load 2", "finish 1", "start 3", "load 3",
                             "finish 2", "finish 3"}));
  for (const int n : {1, 2, 3}) EXPECT_TRUE(all->is_live(config_of_threads(n)));
  all->of(config_of_threads(2));
  all->load(configs({1, 2, 3}));
  all->load(configs({1, 4}));  // only one is missing
  EXPECT_EQ(take_log(), Log{}) << "nothing is made twice";
  starts_.at_once = 1;
  all->load(configs({5, 6}));
  EXPECT_EQ(take_log(), (Log{"start 5", "load 5", "finish 5", "start 6", "load 6", "finish 6"}));
}

TEST_F(SideBySideSessions, LeaveWhatDoesNotFitToItsTurn) {
  const auto all = test::logged_sessions(starts_, 100);
  starts_.at_once = 8;
  all->load(configs({40, 50, 20, 10}));
  EXPECT_EQ(take_log(), (Log{"start 40", "load 40", "start 50", "load 50", "finish 40", "finish 50"}))
      << "10 would fit, but not beside 20, which comes before it";
  all->of(config_of_threads(20));
  EXPECT_EQ(take_log(), Log{"make 20"});
  all->prepare(configs({10}));
  EXPECT_EQ(take_log(), Log{}) << "110 of 100 are held";
  all->drop(config_of_threads(50));
  take_log();
  all->prepare(configs({10, 31, 5}));
  EXPECT_EQ(take_log(), (Log{"start 10", "prepare 10", "wait 10"}));
}

// It may have failed for the others' sake: from there on each is made with no other loading beside it.
TEST_F(SideBySideSessions, ThatFailAreTriedAgainByThemselves) {
  fail(2, 1);
  starts_.at_once = 4;
  const auto all = test::logged_sessions(starts_);
  all->load(configs({1, 2, 3, 4}));
  EXPECT_EQ(take_log(), (Log{"start 1", "load 1", "start 2", "load 2", "start 3", "load 3", "start 4",
                             "load 4", "finish 1", "finish 2", "end 3", "end 4"}));
  EXPECT_TRUE(all->is_live(config_of_threads(1)));
  for (const int n : {2, 3, 4}) all->of(config_of_threads(n));
  EXPECT_EQ(take_log(), (Log{"make 2", "make 3", "make 4"}));
}

TEST_F(SideBySideSessions, ThatFailAgainSayWhyAndAreNotTriedAnyMore) {
  fail(2, 9);
  const auto all = test::logged_sessions(starts_);
  all->load(configs({1, 2, 3}));
  EXPECT_EQ(failure(*all, 2), "device memory: none is free");
  EXPECT_EQ(failure(*all, 3), "");
  take_log();
  all->load(configs({2, 4, 5}));
  all->prepare(configs({2}));
  EXPECT_EQ(take_log(), (Log{"start 4", "load 4", "start 5", "load 5", "finish 4", "finish 5"}));
  EXPECT_EQ(failure(*all, 2), "device memory: none is free");
}

TEST_F(SideBySideSessions, ThatAreStoppedEndAndHaveNotFailed) {
  bool is_stopped = true;
  starts_.on_finish = [&](int, int) {
    if (is_stopped) throw WorkerLost(WorkerLost::Cause::stopped, "interrupted");
  };
  const auto all = test::logged_sessions(starts_);
  all->load(configs({1, 2}));
  EXPECT_EQ(take_log(), (Log{"start 1", "load 1", "start 2", "load 2", "finish 1", "end 2"}));
  all->prepare(configs({1, 2}));
  take_log();
  EXPECT_EQ(failure(*all, 1), "interrupted");
  EXPECT_EQ(take_log(), (Log{"load 1", "finish 1"})) << "it is not tried again";
  is_stopped = false;
  EXPECT_EQ(failure(*all, 1), "");
}

TEST_F(SideBySideSessions, PrepareAndWaitUntilItIsTheirTurn) {
  const auto all = test::logged_sessions(starts_);
  all->prepare(configs({1, 2, 3}));
  EXPECT_EQ(take_log(), (Log{"start 1", "prepare 1", "start 2", "prepare 2", "wait 1", "start 3", "prepare 3",
                             "wait 2", "wait 3"}));
  all->prepare(configs({1, 2, 3}));
  EXPECT_EQ(take_log(), Log{}) << "they are there";
  all->of(config_of_threads(2));
  EXPECT_EQ(take_log(), (Log{"load 2", "finish 2"}));
  all->load(configs({2, 1, 3}));
  EXPECT_EQ(take_log(), (Log{"load 1", "load 3", "finish 1", "finish 3"}));
  starts_.is_worth_preparing = false;
  all->prepare(configs({4, 5}));
  EXPECT_EQ(take_log(), Log{});
}

// Processes of later visits, where they are few.
TEST_F(SideBySideSessions, PrepareSeveralOfEachWhileThereIsRoom) {
  const auto all = test::logged_sessions(starts_, 100);
  const auto started = [&] {
    Log log = take_log();
    std::erase_if(log, [](const std::string& entry) { return entry.rfind("start", 0) != 0; });
    return log;
  };
  starts_.at_once = 5;
  all->prepare(configs({1, 2}), 4);
  EXPECT_EQ(started(), (Log{"start 1", "start 2", "start 1", "start 2", "start 1"})) << "five at once";
  all->prepare(configs({1, 2}), 3);
  EXPECT_EQ(started(), Log{});
  all->end_prepared();
  EXPECT_EQ(std::count_if(starts_.log.begin(), starts_.log.end(),
                          [](const std::string& entry) { return entry.rfind("end", 0) == 0; }),
            5);
  started();
  all->prepare(configs({40}), 4);
  EXPECT_EQ(started(), (Log{"start 40", "start 40"})) << "a third would not fit";
}

// What is prepared holds memory of the device.
TEST_F(SideBySideSessions, ThatWerePreparedAndFailAreTriedWithoutTheOthers) {
  fail(1, 1);
  const auto all = test::logged_sessions(starts_);
  all->prepare(configs({1, 2}));
  take_log();
  EXPECT_EQ(failure(*all, 1), "");
  EXPECT_EQ(take_log(), (Log{"load 1", "finish 1", "end 1", "end 2", "make 1"}));
  fail(3, 9);
  all->prepare(configs({3}));
  take_log();
  EXPECT_EQ(failure(*all, 3), "device memory: none is free");
  EXPECT_EQ(take_log(), (Log{"load 3", "finish 3"})) << "nothing was beside it";
}

TEST_F(SideBySideSessions, EndTogether) {
  auto all = test::logged_sessions(starts_);
  all->load(configs({1, 2}));
  all->prepare(configs({3}));
  take_log();
  all->begin_end_live();
  EXPECT_EQ(take_log(), (Log{"end 1", "end 2"})) << "all begin before one is waited for";
  EXPECT_FALSE(all->is_live(config_of_threads(1)));
  all->wait_ended();
  EXPECT_EQ(take_log(), (Log{"gone 1", "gone 2"}));
  all->of(config_of_threads(3));
  EXPECT_EQ(take_log(), (Log{"load 3", "finish 3"})) << "what was prepared is kept";
  all->prepare(configs({4}));
  take_log();
  all->end_all();
  EXPECT_EQ(take_log(), (Log{"end 3", "end 4", "gone 3"}));
  all->load(configs({1, 2}));
  take_log();
  all.reset();
  EXPECT_EQ(take_log(), (Log{"end 1", "end 2", "gone 1", "gone 2"}));
}

// A load beside others takes longer than it does by itself.
TEST_F(SideBySideSessions, KeepTheTimeOfALoadByItself) {
  const auto all = test::logged_sessions(starts_);
  EXPECT_EQ(all->facts(config_of_threads(1)).model.load_s, 1);
  all->begin_end_live();
  all->load(configs({1, 2}));
  EXPECT_EQ(all->facts(config_of_threads(1)).model.load_s, 1);
  EXPECT_EQ(all->of(config_of_threads(1)).facts().model.load_s, 2);
}

Case case_of(int threads, const std::string& label) {
  Case spec;
  spec.label = label;
  spec.configuration = config_of_threads(threads);
  spec.prompts = {std::vector<TokenId>{1}};
  return spec;
}

// First loads are figures: nothing loads beside them. Later ones go side by side, in front of all runs.
TEST_F(SideBySideSessions, OfASweepLoadOneByOneInTheFirstVisitAlone) {
  const auto all = test::logged_sessions(starts_);
  starts_.at_once = 4;
  SweepOptions options;
  options.processes = 3;
  options.repeats = 1;
  const SweepResult swept =
      run_sweep(*all, "swept", {case_of(1, "a"), case_of(2, "b"), case_of(2, "c")}, options);
  ASSERT_EQ(swept.cases.size(), 3U);
  for (const CaseResult& c : swept.cases) EXPECT_EQ(c.samples.size(), 3U) << c.reason;
  EXPECT_EQ(swept.cases[0].facts.model.load_s, 1);
  EXPECT_EQ(swept.cases[1].facts.model.load_s, 1);
  Log log = take_log();
  // Runs of a round are in random order.
  std::erase_if(log, [](const std::string& entry) { return entry.rfind("run", 0) == 0; });
  std::size_t at = 0;
  const auto next = [&](std::size_t count) {
    const Log part(log.begin() + static_cast<std::ptrdiff_t>(at),
                   log.begin() + static_cast<std::ptrdiff_t>(std::min(log.size(), at + count)));
    at += count;
    return part;
  };
  EXPECT_EQ(next(13), (Log{"start 1", "prepare 1", "start 2", "prepare 2", "wait 1", "wait 2", "load 1",
                           "finish 1", "first run 1", "load 2", "finish 2", "first run 2", "first run 2"}));
  EXPECT_EQ(next(2), (Log{"end 1", "end 2"}));
  const auto place = [](const Log& part, const std::string& entry) {
    return std::find(part.begin(), part.end(), entry) - part.begin();
  };
  const auto count = [](const Log& part, const std::string& what) {
    return std::count_if(part.begin(), part.end(),
                         [&](const std::string& entry) { return entry.rfind(what, 0) == 0; });
  };
  // Two processes of each, for two visits, in any order within a visit: what is loaded now waits for none.
  const Log second = next(16);
  EXPECT_EQ(std::count(second.begin(), second.end(), "start 1"), 2);
  EXPECT_EQ(std::count(second.begin(), second.end(), "start 2"), 2);
  EXPECT_EQ(count(second, "wait"), 2) << "those of the third visit, which do nothing from then on";
  EXPECT_EQ(count(Log(second.end() - 4, second.end()), "wait"), 2);
  EXPECT_EQ(count(Log(second.end() - 2, second.end()), "gone"), 2) << "before anything runs";
  EXPECT_LT(std::max(place(second, "load 1"), place(second, "load 2")),
            std::min(place(second, "finish 1"), place(second, "finish 2")));
  EXPECT_EQ(next(2), (Log{"end 1", "end 2"}));
  const Log third = next(6);
  EXPECT_LT(std::max(place(third, "load 1"), place(third, "load 2")),
            std::min(place(third, "finish 1"), place(third, "finish 2")));
  EXPECT_EQ(at, log.size()) << "nothing else is started, and the last ones live on";
}

// The first run of each process goes on while the next loads; each warms up by itself after all of them.
TEST_F(SideBySideSessions, OfASweepWarmUpBesideOthersInLaterVisits) {
  const auto all = test::logged_sessions(starts_);
  starts_.run_s = 0.1;
  SweepOptions options;
  options.processes = 2;
  options.repeats = 1;
  const auto runs = [&](const std::vector<Case>& cases) {
    const SweepResult swept = run_sweep(*all, "swept", cases, options);
    for (const CaseResult& c : swept.cases) EXPECT_EQ(c.samples.size(), 2U) << c.reason;
    Log log = take_log();
    log.erase(log.begin(), std::find(log.begin(), log.end(), "end 1"));  // the first visit
    std::erase_if(log, [](const std::string& entry) { return entry.find("run") == std::string::npos; });
    return log;
  };
  const std::vector<Case> cases{case_of(1, "a"), case_of(2, "b"), case_of(2, "c"), case_of(3, "d")};
  Log log = runs(cases);
  ASSERT_EQ(log.size(), 6U + 4 + 4) << "beside others, then each case by itself, then the round";
  std::sort(log.begin(), log.begin() + 3);
  std::sort(log.begin() + 3, log.begin() + 6);
  EXPECT_EQ(Log(log.begin(), log.begin() + 6), (Log{"begin run 1", "begin run 2", "begin run 3",
                                                    "wait for run 1", "wait for run 2", "wait for run 3"}));
  EXPECT_EQ(std::count(log.begin() + 6, log.end(), "run 2"), 4);
  EXPECT_EQ(std::count(log.begin(), log.end(), "begin run 1"), 1);
  // One that fails beside others is made again, and has all its samples.
  starts_.on_run = [&](const std::string& name) {
    if (name == "2" && starts_.numbers[2] == 4) throw Error("device memory: none is free");
  };
  runs(cases);
  EXPECT_EQ(starts_.numbers[2], 5);
  starts_.run_s = 1;
  log = runs(cases);
  EXPECT_EQ(std::count(log.begin(), log.end(), "begin run 1"), 0)
      << "long runs would disturb each other for long";
  starts_.run_s = 0.1;
  starts_.is_worth_preparing = false;
  log = runs(cases);
  EXPECT_EQ(std::count(log.begin(), log.end(), "begin run 1"), 0) << "on a CPU they share its cores";
}

TEST_F(SideBySideSessions, OfASweepThatFailAreARowWithTheirCause) {
  starts_.on_finish = [](int threads, int) {
    if (threads == 2) throw WorkerLost(WorkerLost::Cause::crashed, "the worker was killed by signal 9");
  };
  const auto all = test::logged_sessions(starts_);
  SweepOptions options;
  options.processes = 2;
  options.repeats = 1;
  const SweepResult swept =
      run_sweep(*all, "swept", {case_of(1, "a"), case_of(2, "b"), case_of(3, "c")}, options);
  ASSERT_EQ(swept.cases.size(), 3U);
  EXPECT_EQ(swept.cases[1].status, RowStatus::error);
  EXPECT_EQ(swept.cases[1].reason, "while loading, the worker was killed by signal 9");
  for (const std::size_t i : {0, 2}) EXPECT_EQ(swept.cases[i].samples.size(), 2U);
}

// One that fails beside others in a later visit has its samples of all visits.
TEST_F(SideBySideSessions, OfASweepThatFailBesideOthersLoseNothing) {
  starts_.on_finish = [](int threads, int number) {
    if (threads == 2 && number == 1) throw Error("device memory: none is free");
  };
  starts_.is_worth_preparing = false;
  const auto all = test::logged_sessions(starts_);
  SweepOptions options;
  options.processes = 3;
  options.repeats = 1;
  const SweepResult swept =
      run_sweep(*all, "swept", {case_of(1, "a"), case_of(2, "b"), case_of(3, "c")}, options);
  for (const CaseResult& c : swept.cases) EXPECT_EQ(c.samples.size(), 3U) << c.reason;
  EXPECT_EQ(starts_.numbers[2], 4);
}

TEST_F(SideBySideSessions, OfASweepThatIsStoppedWhileLoadingEnd) {
  bool is_stopped = false;
  starts_.on_finish = [&](int, int number) {
    is_stopped = number == 1;
    if (is_stopped) throw WorkerLost(WorkerLost::Cause::stopped, "interrupted");
  };
  const auto all = test::logged_sessions(starts_);
  SweepOptions options;
  options.processes = 3;
  options.repeats = 1;
  options.should_stop = [&] { return is_stopped; };
  const SweepResult swept = run_sweep(*all, "swept", {case_of(1, "a"), case_of(2, "b")}, options);
  EXPECT_TRUE(swept.is_interrupted);
  for (const CaseResult& c : swept.cases) {
    EXPECT_EQ(c.status, RowStatus::ok);
    EXPECT_EQ(c.samples.size(), 1U);
  }
  const Log log = take_log();
  const auto count = [&](const std::string& what) {
    return std::count_if(log.begin(), log.end(),
                         [&](const std::string& entry) { return entry.rfind(what, 0) == 0; });
  };
  EXPECT_EQ(count("finish"), 3);
  EXPECT_EQ(count("make"), 0);
  // All that were started have gone or are the one that was stopped.
  EXPECT_EQ(count("end") + 1, count("start"));
}

}  // namespace
}  // namespace assay
