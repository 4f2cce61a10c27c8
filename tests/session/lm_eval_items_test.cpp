// 200 items of each kind of task against lm-eval, by the model that ships: every log-likelihood, and what is
// right by each of its metrics.
#include <algorithm>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/file.h"
#include "assay/session/task_score.h"
#include "support/fixtures.h"

namespace assay {
namespace {

class LmEvalItemsTest : public testing::TestWithParam<const char*> {};

TEST_P(LmEvalItemsTest, AreScoredAlike) {
  const std::string name = GetParam();
  const LoadedModel loaded = load_model_and_tokenizer({test::demo_model().string()}, {});
  const nlohmann::json expected =
      nlohmann::json::parse(read_text_file(test::fixture("tasks/expected.json")))[name];
  const std::filesystem::path file = test::fixture("tasks/" + name + ".jsonl");
  const TaskItems items = read_task_items(file);
  const TaskScores scores = score_task(loaded, items, file.string());
  const TaskFigures figures = figures_of(items, scores.items);
  ASSERT_EQ(items.items.size(), 200U);
  ASSERT_EQ(expected["items"].size(), 200U);
  EXPECT_GE(scores.truncated, 1);
  for (std::size_t i = 0; i < scores.items.size(); ++i) {
    const nlohmann::json& wanted = expected["items"][i];
    const std::vector<double>& found = scores.items[i].log_likelihoods;
    ASSERT_EQ(found.size() + 1, wanted.size()) << i;
    for (std::size_t j = 0; j < found.size(); ++j) {
      const double theirs = wanted[j + 1].get<double>();
      // lm-eval sums in float32, where -1248 is known to 1.2e-4.
      EXPECT_NEAR(found[j], theirs, std::max(1e-4, -1e-6 * theirs)) << "line " << i + 1 << ", choice " << j;
    }
    int digit = figures.is_right[i] ? 1 : 0;
    if (items.kind == TaskKind::choices)
      digit += (figures.is_right_norm[i] ? 2 : 0) + (figures.is_right_bytes[i] ? 4 : 0);
    EXPECT_EQ(digit, wanted[0].get<int>()) << "line " << i + 1;
  }
  EXPECT_DOUBLE_EQ(figures.acc, expected["acc"].get<double>());
  if (items.kind == TaskKind::choices) {
    EXPECT_DOUBLE_EQ(figures.acc_norm.value(), expected["acc_norm"].get<double>());
    EXPECT_DOUBLE_EQ(figures.acc_bytes.value(), expected["acc_bytes"].get<double>());
  } else {
    EXPECT_NEAR(figures.completion_perplexity.value() / expected["perplexity"].get<double>(), 1, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, LmEvalItemsTest,
                         testing::Values("choices", "contexts", "completion", "hellaswag", "arc", "piqa",
                                         "mmlu", "winogrande", "lambada"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace assay
