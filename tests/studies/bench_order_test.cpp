// In which order, for how long and in how many processes the tests of speed run, with sessions that compute
// nothing.
#include <gtest/gtest.h>

#include <filesystem>

#include "assay/base/error.h"
#include "assay/harness/journal.h"
#include "assay/studies/bench.h"
#include "support/fake_session.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

class BenchOrder : public testing::Test {
 protected:
  BenchOrder() {
    context_.sessions = &sessions_;
    context_.context_length = 64;
    context_.sweep.clock = [this] { return now_; };
    context_.sweep.should_stop = [this] { return log_.size() >= stops_after_; };
    context_.sweep.repeats = 3;
    options_ = {.prompt_tokens = {4},
                .new_tokens = {2},
                .depths = {0},
                .batches = {1},
                .precisions = {"float32", "bfloat16"}};
  }
  ExperimentResult run() { return measure_bench(context_, options_); }
  std::vector<std::string> labels(const ExperimentResult& result) const {
    std::vector<std::string> all;
    for (const Row& row : result.rows) all.push_back(row.label);
    return all;
  }

  TimePoint now_;
  std::vector<std::string> log_;  // a run each
  std::size_t stops_after_ = 1'000'000;
  int made_ = 0;
  // A run takes a second.
  Sessions sessions_ = test::fake_processes(
      [this](const RunConfig&, const Case& spec, int made) {
        now_ += std::chrono::seconds(1);
        log_.push_back(fmt::format("{} in {}", spec.label, made));
        return 1.0;
      },
      &made_);
  ExperimentContext context_;
  BenchOptions options_;
};

TEST_F(BenchOrder, IsOneTestAfterTheOtherInAProcessOfEachConfiguration) {
  const ExperimentResult result = run();
  EXPECT_EQ(labels(result),
            (std::vector<std::string>{"pp4, float32", "tg2, float32", "pp4, bfloat16", "tg2, bfloat16"}));
  EXPECT_EQ(made_, 2);
  ASSERT_GE(log_.size(), 12U);
  EXPECT_TRUE(std::is_sorted(log_.begin(), log_.end(), [](const std::string& a, const std::string& b) {
    return a.back() < b.back();
  })) << "no process comes back";
  std::vector<std::string> once = log_;
  once.erase(std::unique(once.begin(), once.end()), once.end());
  EXPECT_EQ(once, (std::vector<std::string>{"pp4, float32 in 0", "tg2, float32 in 0", "pp4, bfloat16 in 1",
                                            "tg2, bfloat16 in 1"}));
  for (const Row& row : result.rows) EXPECT_EQ(row.find("total_latency_s")->samples.size(), 3U);
}

TEST_F(BenchOrder, HasFiveRepeatsWhereNothingIsSaid) {
  context_.sweep.repeats.reset();
  for (const Row& row : run().rows) EXPECT_EQ(row.find("total_latency_s")->samples.size(), 5U);
}

TEST_F(BenchOrder, BeginsNoRepeatAfterTheTimeOfItsTest) {
  context_.sweep.repeats = 9;
  const auto samples_in = [&](double seconds) {
    context_.sweep.max_time_s = seconds;
    std::vector<std::size_t> all;
    for (const Row& row : run().rows) all.push_back(row.find("total_latency_s")->samples.size());
    EXPECT_EQ(all, std::vector<std::size_t>(4, all.at(0))) << "each test has its own time";
    return all.at(0);
  };
  EXPECT_EQ(samples_in(1), 1U) << "at its limit it is over";
  EXPECT_EQ(samples_in(1.5), 2U);
  EXPECT_EQ(samples_in(4), 4U);
  EXPECT_EQ(samples_in(100), 9U);
}

TEST_F(BenchOrder, KeepsTheFinishedTestsWhereItIsStopped) {
  // The first test warms up and runs three times, the second is in its repeats.
  run();
  const auto first_of_second =
      static_cast<std::size_t>(std::find(log_.begin(), log_.end(), "tg2, float32 in 0") - log_.begin());
  log_.clear();
  stops_after_ = first_of_second + 2;
  sessions_.end_all();
  const ExperimentResult result = run();
  EXPECT_TRUE(result.is_interrupted);
  EXPECT_EQ(labels(result), std::vector<std::string>{"pp4, float32"});
}

TEST_F(BenchOrder, ResumesAfterTheTestsThatAJournalHolds) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "journal.jsonl";
  options_.precisions = {"float32"};
  {
    Journal journal(file, "p", false);
    context_.sweep.journal = &journal;
    stops_after_ = 6;
    EXPECT_EQ(labels(run()), std::vector<std::string>{"pp4, float32"});
  }
  log_.clear();
  stops_after_ = 1'000'000;
  Journal journal(file, "p", true);
  context_.sweep.journal = &journal;
  const ExperimentResult result = run();
  EXPECT_EQ(labels(result), (std::vector<std::string>{"pp4, float32", "tg2, float32"}));
  for (const Row& row : result.rows) EXPECT_EQ(row.find("total_latency_s")->samples.size(), 3U);
  for (const std::string& ran : log_) EXPECT_EQ(ran.substr(0, 3), "tg2") << ran;
}

}  // namespace
}  // namespace assay
