// Sweeps: rounds, failures as rows, journals; with workers that misbehave.
#include "assay/harness/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/process.h"
#include "assay/harness/case_json.h"
#include "assay/harness/make_case.h"
#include "assay/harness/rows.h"
#include "assay/results/judge.h"
#include "support/fake_session.h"
#include "support/field_values.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

#include "support/paths.h"
#include "support/prose.h"

namespace assay {
namespace {

double latency_of(const RunConfig&, const Case& spec) {
  return spec.label == "slow" ? 0.2 : 0.1;
}

Case case_of(const std::string& label, const std::string& precision = "float32") {
  Case spec;
  spec.scenario = Scenario::lengths;
  spec.label = label;
  spec.configuration.precision = preset_from_name(precision);
  spec.prompts = {"a"};
  spec.new_tokens = 4;
  return spec;
}

class SweepTest : public ::testing::Test {
 protected:
  std::vector<std::string> log_;
  int made_ = 0;
  std::unique_ptr<Session> make(const RunConfig& configuration) {
    ++made_;
    return std::make_unique<test::FakeSession>(configuration, latency_of, &log_);
  }
  Sessions sessions_{[this](const RunConfig& configuration) {
    if (configuration.precision == Preset::nf4) throw Error("no such thing");
    return make(configuration);
  }};
};

TEST_F(SweepTest, EveryRoundRunsEveryCaseOnceInRandomOrder) {
  SweepOptions options;
  options.repeats = 20;
  const SweepResult result =
      run_sweep(sessions_, "s", {case_of("a"), case_of("b"), case_of("slow")}, options);
  ASSERT_EQ(result.cases.size(), 3u);
  for (const CaseResult& c : result.cases) EXPECT_EQ(c.samples.size(), 20u);
  const std::size_t warm_ups = log_.size() - 60;
  std::set<std::string> orders;
  for (std::size_t round = 0; round < 20; ++round) {
    std::vector<std::string> order(log_.begin() + static_cast<std::ptrdiff_t>(warm_ups + 3 * round),
                                   log_.begin() + static_cast<std::ptrdiff_t>(warm_ups + 3 * round + 3));
    orders.insert(order[0] + order[1] + order[2]);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "slow"}));
  }
  EXPECT_GE(orders.size(), 3u);
  EXPECT_EQ(made_, 1);
}

TEST_F(SweepTest, FailuresAreResultsAndTheOthersGoOn) {
  SweepOptions options;
  options.repeats = 6;
  const SweepResult result =
      run_sweep(sessions_, "s", {case_of("a"), case_of("fails"), case_of("b", "nf4"), case_of("a")}, options);
  ASSERT_EQ(result.cases.size(), 3u);
  EXPECT_EQ(result.cases[0].samples.size(), 6u);
  EXPECT_EQ(result.cases[0].warnings.size(), 1u);  // asked for twice
  EXPECT_EQ(result.cases[1].status, RowStatus::error);
  EXPECT_EQ(result.cases[1].reason, "it always fails");
  EXPECT_EQ(result.cases[2].reason, "no such thing");
  EXPECT_TRUE(result.cases[2].samples.empty());
  EXPECT_FALSE(result.is_interrupted);
}

TEST_F(SweepTest, AdaptiveRunsStopWhenIntervalsAreNarrow) {
  const SweepResult result = run_sweep(sessions_, "s", {case_of("a"), case_of("b")}, {});
  EXPECT_EQ(result.cases[0].samples.size(), 6u);
}

// An interval is as narrow as its half: runs that deviate by 1.5 % are narrow enough for 2 %.
TEST_F(SweepTest, HalfTheWidthOfAnIntervalIsWhatIsAsked) {
  int run = 0;
  const auto runs_for = [&](double narrow) {
    Sessions sessions =
        test::fake_sessions([&](const RunConfig&, const Case&) { return ++run % 2 == 0 ? 0.1015 : 0.0985; });
    SweepOptions options;
    options.narrow = narrow;
    options.time_s = 0.2;
    return run_sweep(sessions, "s", {case_of("a")}, options).cases[0].samples.size();
  };
  EXPECT_EQ(runs_for(0.02), 6U);
  EXPECT_GT(runs_for(0.001), 6U);
}

TEST_F(SweepTest, ConfigurationsThatDoNotFitTogetherRunInGroups) {
  Sessions sessions([this](const RunConfig& configuration) { return make(configuration); },
                    [](const RunConfig& c) { return Bytes{c.precision == Preset::bfloat16 ? 1000 : 40}; },
                    Bytes{100});
  SweepOptions options;
  options.repeats = 3;
  const SweepResult result = run_sweep(
      sessions, "s", {case_of("base"), case_of("b", "int8"), case_of("c", "fp4"), case_of("big", "bfloat16")},
      options);
  ASSERT_EQ(result.cases.size(), 4u);
  EXPECT_EQ(result.cases[0].samples.size(), 9u);  // measured with each group
  const auto together = log_ratios(result.cases[2], result.cases[0], &Sample::total_latency_s);
  ASSERT_EQ(together.size(), 1u);
  EXPECT_EQ(together[0].size(), 3u);
  EXPECT_EQ(result.cases[3].status, RowStatus::error);
  EXPECT_NE(result.cases[3].reason.find("out of memory predicted"), std::string::npos);
}

TEST_F(SweepTest, AJournalIsResumedAndOnlyWhatIsMissingRuns) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "journal.jsonl";
  const std::vector<Case> cases = {case_of("a"), case_of("b")};
  SweepOptions options;
  options.repeats = 8;
  int runs = 0;
  options.should_stop = [&] { return log_.size() > 9 && ++runs > 0; };
  {
    Journal journal(file, "plan", false);
    options.journal = &journal;
    EXPECT_TRUE(run_sweep(sessions_, "s", cases, options).is_interrupted);
  }
  // Cut in the middle of a line.
  std::ofstream(file, std::ios::app) << R"({"kind":"sample","key":"s | lengths | a)";
  options.should_stop = {};
  log_.clear();
  {
    Journal journal(file, "plan", true);
    options.journal = &journal;
    const SweepResult result = run_sweep(sessions_, "s", cases, options);
    for (const CaseResult& c : result.cases) EXPECT_EQ(c.samples.size(), 8u);
  }
  EXPECT_LT(log_.size(), 16u);
  log_.clear();
  made_ = 0;
  Sessions fresh([this](const RunConfig& configuration) { return make(configuration); });
  Journal journal(file, "plan", true);
  options.journal = &journal;
  const SweepResult again = run_sweep(fresh, "s", cases, options);
  EXPECT_EQ(again.cases[1].samples.size(), 8u);
  EXPECT_EQ(made_, 0) << "nothing was missing, so nothing is loaded";
  EXPECT_THROW(Journal(file, "another plan", true), Error);
  std::string sound;
  {
    std::ifstream in(file);
    std::getline(in, sound);
  }
  for (const char* entry : {"garbage", "[1]", R"({"kind": 1, "key": "k", "data": 1})",
                            R"({"kind": "sample", "key": 1, "data": 1})", R"({"kind": "sample", "key": "k"})",
                            R"({"key": "k", "data": 1})", R"({"kind": "sample", "data": 1})"}) {
    test::write_file(file, sound + "\n" + entry + "\n");
    EXPECT_THROW(Journal(file, "plan", true), JournalError) << entry;
  }
}

TEST_F(SweepTest, OptionsOutOfRange) {
  SweepOptions options;
  options.repeats = -1;
  EXPECT_THROW(run_sweep(sessions_, "s", {case_of("a")}, options), UsageError);
  options.repeats = {};
  options.processes = 0;
  EXPECT_THROW(run_sweep(sessions_, "s", {case_of("a")}, options), UsageError);
  options.processes = 2;  // but these sessions are no processes
  try {
    run_sweep(sessions_, "s", {case_of("a")}, options);
    FAIL();
  } catch (const FieldError& error) {
    EXPECT_EQ(error.field(), "processes");
    EXPECT_EQ(error.problem(), "expected 1, because everything runs in this process, found 2");
  }
}

// Each session takes 0.1 s a run, and 0.01 s more for each process that was started before it.
class Visits : public ::testing::Test {
 protected:
  int made_ = 0;
  std::vector<std::pair<std::string, int>> log_;  // case and process of each run
  Sessions sessions_ = test::fake_processes(
      [this](const RunConfig&, const Case& spec, int made) {
        log_.emplace_back(spec.label, made);
        return 0.1 + 0.01 * made;
      },
      &made_);
};

TEST_F(Visits, StartEveryConfigurationAfreshAndRunItsRounds) {
  SweepOptions options;
  options.processes = 4;
  options.repeats = 3;
  const SweepResult result = run_sweep(sessions_, "s", {case_of("a"), case_of("b", "int8")}, options);
  EXPECT_EQ(made_, 8);
  for (const CaseResult& c : result.cases) {
    ASSERT_EQ(c.samples.size(), 12u);
    std::vector<SampleId> expected;
    for (int process = 0; process < 4; ++process)
      for (int round = 0; round < 3; ++round) expected.push_back({process, round});
    EXPECT_EQ(c.places(), expected);
    // All runs of a visit are of one session, and the next visit's are of another.
    for (int process = 0; process < 4; ++process)
      for (int round = 1; round < 3; ++round)
        EXPECT_EQ(c.samples.at({process, round}).total_latency_s, c.samples.at({process, 0}).total_latency_s);
    for (int process = 1; process < 4; ++process)
      EXPECT_GT(c.samples.at({process, 0}).total_latency_s, c.samples.at({process - 1, 2}).total_latency_s);
  }
}

// Equal processes have narrow intervals from the second on, but nobody looks before the fifth.
TEST_F(Visits, NobodyLooksBeforeTheUsualNumberOfProcesses) {
  int made = 0;
  Sessions sessions = test::fake_processes([](const RunConfig&, const Case&, int) { return 0.1; }, &made);
  const SweepResult result = run_sweep(sessions, "s", {case_of("a")}, {});
  EXPECT_EQ(made, kUsualProcesses);
  EXPECT_EQ(result.cases[0].places().back().process, kUsualProcesses - 1);
}

TEST_F(Visits, GoOnFromAJournalInsideAVisit) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "journal.jsonl";
  const std::vector<Case> cases = {case_of("a"), case_of("b", "int8")};
  SweepOptions options;
  options.processes = 3;
  options.repeats = 3;
  {
    Journal journal(file, "plan", false);
    options.journal = &journal;
    // Within the second visit, after its warm-up.
    options.should_stop = [&] { return made_ == 4 && log_.size() > 14; };
    EXPECT_TRUE(run_sweep(sessions_, "s", cases, options).is_interrupted);
  }
  log_.clear();
  const int made_before = made_;
  options.should_stop = {};
  Journal journal(file, "plan", true);
  options.journal = &journal;
  const SweepResult result = run_sweep(sessions_, "s", cases, options);
  for (const CaseResult& c : result.cases) EXPECT_EQ(c.samples.size(), 9u);
  EXPECT_EQ(made_ - made_before, 4) << "the first visit is not loaded again";
  // One warm-up for each of four processes, or a few; never all 18 runs again.
  EXPECT_LT(log_.size(), 18u);
  EXPECT_GT(log_.size(), 6u);
}

TEST_F(Visits, OfGroupsHoldTheBaselineInEach) {
  int made = 0;
  Sessions sessions(
      [&](const RunConfig& configuration) {
        const int own = made++;
        return std::make_unique<test::FakeSession>(
            configuration, [own](const RunConfig&, const Case&) { return 1.0 + own; });
      },
      [](const RunConfig&) { return Bytes{40}; }, Bytes{100}, true);
  SweepOptions options;
  options.processes = 3;
  options.repeats = 2;
  const SweepResult result =
      run_sweep(sessions, "s", {case_of("a"), case_of("b", "int8"), case_of("c", "fp4")}, options);
  ASSERT_EQ(result.cases.size(), 3u);
  EXPECT_EQ(made, 3 * 2 * 2);  // visits, groups, sessions in each
  EXPECT_EQ(result.cases[0].samples.size(), 12u);
  EXPECT_EQ(result.cases[1].samples.size(), 6u);
  for (std::size_t i : {1UL, 2UL}) {
    const auto ratios = log_ratios(result.cases[i], result.cases[0], &Sample::total_latency_s);
    ASSERT_EQ(ratios.size(), 3u);
    // The session beside it is the one that was started just before or after.
    for (const auto& own : ratios) {
      ASSERT_EQ(own.size(), 2u);
      EXPECT_LT(std::abs(own[0]), std::log(2.01));
    }
  }
}

TEST(PlanVisits, FollowsFromWhatTheyCost) {
  const auto plan = [](double start, double round, SweepOptions options = {}) {
    const VisitPlan p = plan_visits({start, round}, options);
    return std::pair(p.processes, p.rounds);
  };
  using Pair = std::pair<int, int>;
  SweepOptions short_time;
  short_time.time_s = 4;
  // Five visits of 4 s are all that is wanted where the time is over anyway.
  EXPECT_EQ(plan(2.5, 0.5, short_time), Pair(5, 3));
  // Ten of 0.4 s fit; the rest of the time goes to rounds: (4 / 10 - 0.1) / 0.1.
  EXPECT_EQ(plan(0.1, 0.1, short_time), Pair(10, 3));
  EXPECT_EQ(plan(0.1, 0.05, short_time), Pair(10, 6));
  EXPECT_EQ(plan(0.001, 0.001), Pair(10, 10));
  // A minute is too short for five, not for three; and four minutes.
  EXPECT_EQ(plan(6, 3), Pair(4, 3));
  EXPECT_EQ(plan(30, 10), Pair(3, 3));
  // Beyond four minutes it depends on whether starting dominates.
  EXPECT_EQ(plan(80, 9), Pair(3, 3));
  EXPECT_EQ(plan(82, 9), Pair(1, 6));
  SweepOptions fixed;
  fixed.processes = 7;
  fixed.repeats = 2;
  EXPECT_EQ(plan(1000, 1, fixed), Pair(7, 2));
}

// Every figure of a comparison by hand: three processes of three rounds, of which the medians count.
TEST(CompareCases, IsStudentsTOfTheProcessesMedians) {
  CaseResult base, slow;
  base.spec = case_of("base");
  slow.spec = case_of("slow");
  // Log ratios; one wild round in the first process moves its median to a neighbour at most.
  const double ratios[3][3] = {{0.10, 0.12, 9.0}, {0.14, 0.13, 0.15}, {0.09, 0.10, 0.11}};
  for (int process = 0; process < 3; ++process)
    for (int round = 0; round < 3; ++round) {
      base.samples[{process, round}].total_latency_s = 2;
      slow.samples[{process, round}].total_latency_s = 2 * std::exp(ratios[process][round]);
    }
  base.samples[{7, 0}].total_latency_s = 1;  // alone: it pairs with nothing
  auto comparison = compare_cases(slow, base, {});
  ASSERT_TRUE(comparison);
  judge(*comparison);
  // Medians 0.12, 0.14, 0.10: mean 0.12, deviation 0.02, error 0.02 / sqrt(3); t of 2 degrees at 95 % is
  // 4.302653.
  const double half = 4.302653 * 0.02 / std::sqrt(3.0);
  EXPECT_NEAR(comparison->ratio, std::exp(0.12), 1e-12);
  EXPECT_NEAR(comparison->interval->low, std::exp(0.12 - half), 1e-6);
  EXPECT_NEAR(comparison->interval->high, std::exp(0.12 + half), 1e-6);
  EXPECT_EQ(comparison->pairs, 9);
  EXPECT_EQ(comparison->processes, 3);
  EXPECT_EQ(comparison->verdict, Verdict::higher);
  EXPECT_EQ(sentence_of(*comparison), "slow is 1.13x [1.07, 1.18] slower than base in 3 processes");
}

// The row's figures from the same medians.
TEST(RowOf, ShowsTheMeanOfTheProcessesMedians) {
  CaseResult c;
  c.spec = case_of("a");
  const double times[3][3] = {{1, 1, 50}, {2, 2, 2}, {4, 3, 5}};
  for (int process = 0; process < 3; ++process)
    for (int round = 0; round < 3; ++round) {
      Sample& s = c.samples[{process, round}];
      s.total_latency_s = times[process][round];
      s.new_tokens = 8;
      s.sequences = s.batches = s.prompt_tokens = 1;
      s.step_s = {0.1, 0.2, 0.6};
      s.prefill_s = 0.5;
    }
  const Row row = row_of(c, {});
  const Value& latency = *row.find("total_latency_s");
  // Geometric mean of 1, 2, 4; their logarithms deviate by log 2.
  EXPECT_NEAR(latency.value, 2, 1e-12);
  const double half = 4.302653 * std::log(2.0) / std::sqrt(3.0);
  EXPECT_NEAR(*latency.low(), 2 * std::exp(-half), 1e-6);
  EXPECT_NEAR(*latency.high(), 2 * std::exp(half), 1e-5);
  EXPECT_EQ(latency.processes, 3);
  EXPECT_EQ(latency.n(), 9);
  EXPECT_EQ(latency.statistic, "mean of medians");
  EXPECT_EQ(row.places.size(), 9u);
  EXPECT_EQ(row.places[4], (SampleId{1, 1}));
  EXPECT_NEAR(row.find("tokens_per_sec")->value, 4, 1e-12);              // 8 tokens in 2 s
  EXPECT_NEAR(row.find("decode_latency_s")->value, 0.9, 1e-12);          // all steps
  EXPECT_NEAR(row.find("decode_tokens_per_sec")->value, 7 / 0.9, 1e-9);  // without the first token
  EXPECT_NEAR(row.find("time_per_output_token_ms")->value, 300, 1e-9);
  EXPECT_NEAR(row.find("step_latency_ms")->value, 200, 1e-9);  // a median, not a mean
  EXPECT_NEAR(row.find("prefill_tokens_per_sec")->value, 2, 1e-12);
}

TEST(RowOf, FromFewProcessesClaimsNoInterval) {
  CaseResult c;
  c.spec = case_of("a");
  for (int process = 0; process < 2; ++process)
    for (int round = 0; round < 9; ++round) c.samples[{process, round}].total_latency_s = 1 + 0.1 * round;
  const auto warned = [](const Row& row) {
    for (const Warning& w : row.warnings)
      if (w.kind == WarningKind::too_few_runs) return w.text;
    return std::string();
  };
  const Row two = row_of(c, {});
  EXPECT_FALSE(two.find("total_latency_s")->interval);
  EXPECT_EQ(warned(two), "2 processes are too few for an interval or a verdict");
  for (int round = 0; round < 9; ++round) c.samples.erase({1, round});
  const Row one = row_of(c, {});
  EXPECT_TRUE(one.find("total_latency_s")->interval);  // it is that of the rounds of that process
  EXPECT_EQ(one.find("total_latency_s")->processes, 1);
  EXPECT_EQ(warned(one), "9 runs in one process are too few for a verdict");
}

// A worker that crashes, hangs or runs out of memory at a case's label, and is the real one otherwise.
class MisbehavingWorkers : public ::testing::Test {
 protected:
  MisbehavingWorkers() {
    const std::filesystem::path script = folder_ / "worker.sh";
    std::ofstream(script) << "#!/bin/bash\n"
                             "coproc W { \""
                          << program_path()
                          << "\" worker; }\n"
                             "while read -r line; do\n"
                             "  case \"$line\" in\n"
                             "    *'\"label\":\"crash\"'*) kill -SEGV $$ ;;\n"
                             "    *'\"label\":\"killed\"'*) kill -KILL $$ ;;\n"
                             "    *'\"label\":\"hang\"'*) sleep 1000 ;;\n"
                             "    *'\"label\":\"memory\"'*) echo '{\"ok\":false,\"error\":\"not enough "
                             "memory\"}' ; continue ;;\n"
                             "    *'\"label\":\"babble\"'*) echo 'what?' ; continue ;;\n"
                             "  esac\n"
                             "  echo \"$line\" >&\"${W[1]}\"\n"
                             "  read -r answer <&\"${W[0]}\"\n"
                             "  echo \"$answer\"\n"
                             "done\n";
    options_.program = {"/bin/bash", script.string()};
    options_.candidates = {test::fixture_model("with_tokenizer").string()};
    options_.case_time_limit = {5};
    options_.sweep.processes = 1;
    options_.sweep.repeats = 3;
  }
  test::TemporaryFolder folder_;
  WorkerExperimentOptions options_;
};

TEST_F(MisbehavingWorkers, AreRowsWithTheirCauseAndTheRestIsComplete) {
  const WorkerExperiment workers(options_);
  const ExperimentContext& experiment = workers;
  std::vector<Case> cases;
  for (const char* label : {"a", "crash", "hang", "memory", "killed", "babble", "b"})
    cases.push_back(baseline_case(experiment, Scenario::lengths, label, {"a text"}, 4));
  const SweepResult result = run_sweep(*experiment.sessions, "s", cases, experiment.sweep);
  ASSERT_EQ(result.cases.size(), 7u);
  const auto reason = [&](std::size_t i) { return result.cases[i].reason; };
  for (const std::size_t i : {0UL, 6UL}) {
    EXPECT_EQ(result.cases[i].status, RowStatus::ok) << reason(i);
    EXPECT_EQ(result.cases[i].samples.size(), 3u);
  }
  for (std::size_t i = 1; i < 6; ++i) EXPECT_EQ(result.cases[i].status, RowStatus::error) << i;
  EXPECT_NE(reason(1).find("signal 11"), std::string::npos) << reason(1);
  EXPECT_NE(reason(2).find("timed out"), std::string::npos) << reason(2);
  EXPECT_EQ(reason(3), "not enough memory");
  EXPECT_NE(reason(4).find("memory runs out"), std::string::npos) << reason(4);
  EXPECT_NE(reason(5).find("cannot parse the worker's answer"), std::string::npos) << reason(5);
  for (const CaseResult& c : result.cases) {
    const Row row = row_of(c, experiment);
    EXPECT_EQ(row.find("total_latency_s") != nullptr, row.status == RowStatus::ok)
        << "no zeros for what was not measured";
  }
}

TEST_F(MisbehavingWorkers, AProgramThatIsNoneIsAnError) {
  options_.program = {"/nonexistent/assay", "worker"};
  const WorkerExperiment workers(options_);
  const ExperimentContext& experiment = workers;
  EXPECT_THROW(experiment.sessions->of(experiment.baseline), Error);
  options_.program = {"/bin/true"};
  const WorkerExperiment silent(options_);
  const ExperimentContext& other = silent;
  try {
    other.sessions->of(other.baseline);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("exited with 0"), std::string::npos) << error.what();
  }
}

TEST(FolderLock, IsHeldByOne) {
  const test::TemporaryFolder folder;
  const FolderLock lock(folder.path().string());
  EXPECT_THROW(FolderLock(folder.path().string()), Error);
}

// Unequal in any field, they share no session, and their cases are not taken for one another.
TEST_F(SweepTest, ConfigurationsThatDifferInAFieldHaveSessionsOfTheirOwn) {
  std::vector<RunConfig> loaded;
  Sessions sessions([&](const RunConfig& configuration) {
    loaded.push_back(configuration);
    return make(configuration);
  });
  std::vector<Case> cases{case_of("a")};
  for (const Field& field : fields()) {
    cases.push_back(cases.front());
    field.parse(cases.back().configuration, test::value_of(field));
  }
  SweepOptions options;
  options.repeats = 1;
  EXPECT_EQ(run_sweep(sessions, "s", cases, options).cases.size(), fields().size() + 1);
  ASSERT_EQ(loaded.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(loaded[i], cases[i].configuration);
}

TEST(Case, SurvivesJson) {
  Case spec = case_of("a");
  spec.prompts = {"text", std::vector<TokenId>{1, 2, 3}};
  spec.batch_size = 2;
  spec.uses_cache = false;
  spec.padding = Padding::left;
  spec.truncation = Truncation::right;
  const nlohmann::ordered_json json = to_json(spec);
  EXPECT_EQ(json["prompts"], nlohmann::ordered_json::parse(R"(["text", [1, 2, 3]])"));
  const Case back = case_from_json(json);
  EXPECT_EQ(to_json(back), to_json(spec));
  EXPECT_EQ(back.key(), spec.key());
}

TEST(Case, ABadOneIsRefusedByItsPath) {
  const auto refusal = [](const char* key, const nlohmann::ordered_json& value) -> std::string {
    nlohmann::ordered_json json = to_json(case_of("a"));
    json[key] = value;
    try {
      case_from_json(JsonReader(json, "request"));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(refusal("label", 1), "request: label: expected a string, found 1");
  EXPECT_EQ(refusal("cache", "yes"), "request: cache: expected true or false, found the string 'yes'");
  EXPECT_EQ(refusal("prompts", "a"), "request: prompts: expected an array, found the string 'a'");
  EXPECT_EQ(refusal("prompts", {"a", 3}),
            "request: prompts[1]: expected a text or a list of token ids, found 3");
  EXPECT_EQ(refusal("prompts", nlohmann::ordered_json::parse("[[1, 2.5]]")),
            "request: prompts[0][1]: expected a whole number from -2147483648 to 2147483647, found 2.5");
  EXPECT_EQ(
      refusal("configuration", {{"no_field", 1}}).rfind("request: configuration: unknown key 'no_field'", 0),
      0U);
}

}  // namespace
}  // namespace assay
