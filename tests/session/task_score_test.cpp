// Tasks against lm-eval: log-likelihoods of every choice, and what is right by each of its metrics.
#include "assay/session/task_score.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/session/bos.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"

namespace assay {
namespace {

class TaskScoreTest : public testing::TestWithParam<std::string> {
 protected:
  const LoadedModel loaded_ = load_model_and_tokenizer({test::fixture("quality/" + GetParam()).string()}, {});
  const nlohmann::json expected_ =
      nlohmann::json::parse(read_text_file(test::fixture("quality/expected.json")))[GetParam()]["lm-eval"];

  // Compares every item, and gives the number of items.
  std::size_t expect_like_lm_eval(const std::string& name, const std::filesystem::path& file) {
    const TaskItems items = read_task_items(file);
    const TaskScores scores = score_task(loaded_, items, file.string());
    const TaskFigures figures = figures_of(items, scores.items);
    const nlohmann::json& wanted = expected_[name];
    EXPECT_EQ(scores.items.size(), wanted["items"].size()) << name;
    for (std::size_t i = 0; i < scores.items.size(); ++i) {
      const nlohmann::json& item = wanted["items"][i];
      const auto log_likelihoods = item["log_likelihoods"].get<std::vector<double>>();
      EXPECT_EQ(scores.items[i].log_likelihoods.size(), log_likelihoods.size());
      for (std::size_t j = 0; j < log_likelihoods.size(); ++j)
        EXPECT_NEAR(scores.items[i].log_likelihoods[j], log_likelihoods[j], 1e-4)
            << name << " " << i << " " << j;
      EXPECT_EQ(figures.is_right[i], item["acc"] == 1.0) << name << " " << i;
      if (items.kind == TaskKind::completion) continue;
      EXPECT_EQ(figures.is_right_norm[i], item["acc_norm"] == 1.0) << name << " " << i;
      EXPECT_EQ(figures.is_right_bytes[i], item["acc_bytes"] == 1.0) << name << " " << i;
    }
    EXPECT_NEAR(figures.acc, wanted["acc"].get<double>(), 1e-12) << name;
    if (figures.acc_norm) {
      EXPECT_NEAR(*figures.acc_norm, wanted["acc_norm"].get<double>(), 1e-12);
      EXPECT_NEAR(*figures.acc_bytes, wanted["acc_bytes"].get<double>(), 1e-12);
    } else {
      EXPECT_NEAR(*figures.completion_perplexity / wanted["perplexity"].get<double>(), 1, 1e-5) << name;
      double sum = 0, tokens = 0;
      for (const ItemScore& score : scores.items) {
        sum += score.log_likelihoods[0];
        tokens += static_cast<double>(score.tokens[0]);
      }
      EXPECT_NEAR(*figures.token_perplexity, std::exp(-sum / tokens), 1e-9);
    }
    return scores.items.size();
  }
};

// Ties, blanks at the end of a prompt, an empty prompt, one that begins with BOS, truncation, other scripts.
TEST_P(TaskScoreTest, Choices) {
  EXPECT_EQ(expect_like_lm_eval("choices", test::fixture("quality/choices.jsonl")), 30U);
}

TEST_P(TaskScoreTest, Completions) {
  EXPECT_EQ(expect_like_lm_eval("completions", test::fixture("quality/completions.jsonl")), 16U);
}

TEST_P(TaskScoreTest, DataSetsAsDownloaded) {
  for (const char* name : {"hellaswag", "arc", "piqa", "mmlu", "winogrande", "lambada"})
    EXPECT_GT(expect_like_lm_eval(name, test::fixture(fmt::format("quality/downloads/{}.jsonl", name))), 1U);
}

TEST_P(TaskScoreTest, SaysWhatWasCut) {
  const std::filesystem::path file = test::fixture("quality/choices.jsonl");
  const TaskScores scores = score_task(loaded_, read_task_items(file), file.string());
  EXPECT_GE(scores.truncated, 2);
  ASSERT_FALSE(scores.warnings.empty());
  EXPECT_EQ(scores.warnings[0].kind, WarningKind::prompt_truncated);
}

INSTANTIATE_TEST_SUITE_P(Quality, TaskScoreTest, testing::Values("gpt2", "llama"));

class TaskTokensTest : public testing::Test {
 protected:
  const LoadedModel loaded_ = load_model_and_tokenizer({test::fixture("quality/llama").string()}, {});
  TaskTokens tokens(const std::string& context, const std::string& continuation, std::int64_t limit = 64) {
    return task_tokens(*loaded_.tokenizer, prefix_token(loaded_), {context, continuation}, limit, "f:1");
  }
  std::string text(const std::vector<TokenId>& ids) { return loaded_.tokenizer->decode(ids); }
};

TEST_F(TaskTokensTest, BlanksBelongToTheContinuation) {
  const TaskTokens blank = tokens("The river  ", " sold it");
  EXPECT_EQ(text(blank.continuation), "   sold it");
  EXPECT_EQ(blank.inputs.front(), 0) << "BOS";
  const TaskTokens none = tokens("", " sold it");
  EXPECT_EQ(none.inputs.front(), 0);
  EXPECT_EQ(text(none.continuation), " sold it");
  EXPECT_EQ(none.first_row(), 0);
  EXPECT_EQ(tokens("", "<s> sold it").continuation, none.continuation) << "the prefix is not doubled";
}

TEST_F(TaskTokensTest, AreCutOnTheLeft) {
  const TaskTokens all = tokens("The keeper of the lighthouse", " sold the harvest");
  const TaskTokens some = tokens("The keeper of the lighthouse", " sold the harvest", 11);
  EXPECT_EQ(some.inputs.size(), 11U);
  EXPECT_EQ(some.cut, std::ssize(all.inputs) - 11);
  EXPECT_EQ(some.continuation, all.continuation);
  EXPECT_TRUE(std::equal(some.inputs.begin(), some.inputs.end(), all.inputs.begin() + some.cut));
  EXPECT_THROW(tokens("The", " keeper of the lighthouse sold the harvest", 3), Error);
}

TEST_F(TaskTokensTest, TellOfATokenAcrossTheBorder) {
  EXPECT_FALSE(tokens("The river", " sold it").is_shifted);
  const TaskTokens merged = tokens("The riv", "er sold it");
  EXPECT_TRUE(merged.is_shifted) << "the text's tokens are merges of what stands in it often";
}

}  // namespace
}  // namespace assay
