// The task study: rows, flips against the baseline, failures, and the accuracy column of the trade-off.
#include "assay/studies/task.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/assay.h"
#include "assay/base/error.h"
#include "assay/results/results_json.h"
#include "assay/statistics/paired_counts.h"
#include "assay/studies/registry.h"
#include "assay/studies/tradeoff.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

class TaskStudy : public testing::Test {
 protected:
  LocalExperiment experiment_{std::vector<std::string>{test::fixture("quality/gpt2").string()}, RunConfig{}};
  TaskOptions options_{.precisions = {"float32", "nf4"}, .file = test::fixture("quality/choices.jsonl")};
};

TEST_F(TaskStudy, RowsHoldAccuracyAndAnswers) {
  const ExperimentResult result = compare_task(experiment_, options_);
  ASSERT_EQ(result.rows.size(), 2U);
  const Row &baseline = result.rows[0], &row = result.rows[1];
  EXPECT_EQ(row.scenario, Scenario::task);
  EXPECT_EQ(row.label, "nf4");
  EXPECT_EQ(row.parameter("task"), "choices.jsonl");
  EXPECT_EQ(row.parameter("protocol"), "lm-eval choices");
  EXPECT_NEAR(baseline.find("accuracy")->value, 11.0 / 30, 1e-12) << "expected.json";
  EXPECT_NEAR(baseline.find("accuracy_bytes")->value, 11.0 / 30, 1e-12);
  EXPECT_EQ(baseline.find("accuracy")->interval->low, statistics::wilson_interval(11, 30).low);
  EXPECT_EQ(baseline.find("items")->value, 30);
  EXPECT_EQ(baseline.find("flips"), nullptr);
  ASSERT_EQ(row.answers->items.size(), 30U);
  EXPECT_EQ(row.answers->items[2].line, 3);
  EXPECT_EQ(row.answers->items[2].log_likelihoods.size(), 4U);
  std::int64_t lost = 0, gained = 0;
  for (std::size_t i = 0; i < 30; ++i) {
    const bool was = baseline.answers->items[i].is_right, is = row.answers->items[i].is_right;
    lost += was && !is ? 1 : 0;
    gained += is && !was ? 1 : 0;
  }
  EXPECT_EQ(row.find("flips")->value, static_cast<double>(lost + gained));
  EXPECT_EQ(row.find("flips_to_wrong")->value, static_cast<double>(lost));
  EXPECT_GT(lost + gained, 0) << "the fixture shows none";
  EXPECT_NEAR(row.find("accuracy_change")->value, static_cast<double>(gained - lost) / 30, 1e-12);
  ASSERT_EQ(result.findings.size(), 1U);
  const TaskFlips& found = std::get<TaskFlips>(result.findings[0]);
  EXPECT_EQ(found.to_wrong, lost);
  EXPECT_EQ(found.p_value, row.find("mcnemar_p")->value);
  EXPECT_FALSE(found.is_shown);
}

TEST_F(TaskStudy, RowsSurviveTheirFile) {
  const ExperimentResult result = compare_task(experiment_, options_);
  const nlohmann::ordered_json json = to_json(result.rows[1]);
  const Row read = row_from_json(json);
  EXPECT_EQ(*read.answers, *result.rows[1].answers);
  EXPECT_EQ(to_json(read), json);
}

TEST_F(TaskStudy, CompletionsHaveBothPerplexities) {
  options_.file = test::fixture("quality/completions.jsonl");
  const ExperimentResult result = compare_task(experiment_, options_);
  EXPECT_NE(result.rows[0].find("completion_perplexity"), nullptr);
  EXPECT_NE(result.rows[0].find("completion_token_perplexity"), nullptr);
  EXPECT_EQ(result.rows[0].find("accuracy_norm"), nullptr);
}

// What a run adds unasked must not take long.
TEST_F(TaskStudy, ABriefOneScoresOnePrecisionOfEachKind) {
  options_.is_brief = true;
  EXPECT_EQ(compare_task(experiment_, options_).rows.size(), 2U) << "what was asked for is scored";
  options_.precisions.clear();
  std::vector<std::string> labels;
  for (const Row& row : compare_task(experiment_, options_).rows) labels.push_back(row.label);
  EXPECT_EQ(labels, (std::vector<std::string>{"float32", "bfloat16", "int8-dynamic", "nf4"}));
}

TEST_F(TaskStudy, AFileThatCannotBeReadIsRefused) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path() / "t.jsonl", "{\"prompt\": \"p\"}\n");
  options_.file = folder.path() / "t.jsonl";
  EXPECT_THROW(compare_task(experiment_, options_), Error);
  EXPECT_THROW(compare_task(experiment_, {}), FieldError);
}

TEST(TaskColumns, StandInTheTradeoffRow) {
  std::vector<Row> rows(3);
  rows[0].scenario = Scenario::tradeoff;
  rows[0].label = rows[1].label = "nf4";
  rows[1].scenario = Scenario::task;
  rows[1].set("accuracy", 0.5);
  rows[1].set("flips", 3.0);
  rows[2].scenario = Scenario::task;
  rows[2].label = "fp4";
  rows[2].set("accuracy", 0.25);
  merge_quality(rows);
  ASSERT_NE(rows[0].find("accuracy"), nullptr);
  EXPECT_EQ(rows[0].find("accuracy")->value, 0.5);
  EXPECT_EQ(rows[0].find("flips")->value, 3);
}

}  // namespace
}  // namespace assay
