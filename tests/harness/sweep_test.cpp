// Sweeps: rounds, failures as rows, journals; with workers that misbehave.
#include "assay/harness/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/process.h"
#include "assay/harness/rows.h"
#include "support/fake_session.h"
#include "support/field_values.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

#include "support/paths.h"

namespace assay {
namespace {

double latency_of(const RunConfig&, const Case& what) {
  return what.label == "slow" ? 0.2 : 0.1;
}

Case case_of(const std::string& label, const std::string& precision = "float32") {
  Case what;
  what.scenario = Scenario::lengths;
  what.label = label;
  what.configuration.precision = preset_from_name(precision);
  what.prompts = {"a"};
  what.new_tokens = 4;
  return what;
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
  EXPECT_EQ(paired(result.cases[0], result.cases[2], &Sample::total_latency_s).first.size(), 3u);
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
  std::ofstream(file, std::ios::app) << "garbage\n";
  EXPECT_THROW(Journal(file, "plan", true), Error);
}

TEST_F(SweepTest, OptionsOutOfRange) {
  SweepOptions options;
  options.repeats = -1;
  EXPECT_THROW(run_sweep(sessions_, "s", {case_of("a")}, options), UsageError);
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
  EXPECT_NE(reason(5).find("not understood"), std::string::npos) << reason(5);
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
  Case what = case_of("a");
  what.prompts = {"text", std::vector<TokenId>{1, 2, 3}};
  what.batch_size = 2;
  what.uses_cache = false;
  what.padding = Padding::left;
  what.truncation = Truncation::right;
  const Case back = case_from_json(to_json(what));
  EXPECT_EQ(to_json(back), to_json(what));
  EXPECT_EQ(back.key(), what.key());
}

}  // namespace
}  // namespace assay
