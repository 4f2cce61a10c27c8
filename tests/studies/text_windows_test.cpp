// What scoring a text is predicted to cost: windows, LM heads and comparisons, counted by hand and as
// measured.
#include "assay/studies/text_windows.h"

#include <gtest/gtest.h>

#include <utility>

#include "assay/studies/compare_perplexity.h"
#include "assay/studies/divergence.h"
#include "assay/studies/registry.h"
#include "support/scripted_model.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

using test::ScriptedModel;

class PredictedText : public ScriptedModel {
 protected:
  TextWindows windows(std::int64_t tokens, std::optional<std::int64_t> window,
                      std::optional<std::int64_t> stride) {
    return text_windows(context(), Scenario::perplexity, tokens, window, stride);
  }
};

TEST_F(PredictedText, CountsInputsOfAllWindowsAndScoredTokens) {
  // The context is 64: [0, 64) and [32, 70).
  const TextWindows two = windows(70, {}, {});
  EXPECT_EQ(std::get<std::vector<TokenId>>(two.one.prompts[0]).size(), 63U) << "with a new token it is 64";
  EXPECT_DOUBLE_EQ(two.count, (64 + 38) / 63.0);
  EXPECT_EQ(two.scored, 69);
  // A text longer than half a window and shorter than one is read once.
  const TextWindows one = windows(50, {}, {});
  EXPECT_DOUBLE_EQ(one.count, 1);
  EXPECT_EQ(one.scored, 49);
  // [0, 10), [10, 20) and [20, 25): the first token of each has nothing before it.
  const TextWindows apart = windows(25, 10, 10);
  EXPECT_DOUBLE_EQ(apart.count, 2.5);
  EXPECT_EQ(apart.scored, 22);
  EXPECT_DOUBLE_EQ(windows(1, {}, {}).count, 1);
  EXPECT_EQ(windows(1, {}, {}).scored, 0);
}

TEST_F(PredictedText, TakesItsWindowsAndItsLmHeads) {
  CaseCost cost;
  cost.prefill_s = 2;
  cost.head_row_s = 0.1;
  EXPECT_DOUBLE_EQ(seconds_of(windows(50, {}, {}), cost), 2 + 4.9);
}

// Every model loads once and goes over the text once, with the LM head of each scored token, the comparison
// of its logits, and what the noise floor is measured with, where that is none of them.
TEST_F(PredictedText, OfADivergenceIsThatOfItsModels) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "a1";
  test::write_file(folder / "text.txt", text);
  ExperimentContext own = context();
  own.context_length = 1024;
  ASSERT_GT(own.tokenizer->encode(text).size(), 300U);
  const CostOf cost_of = [](const Case& spec) {
    CaseCost cost;
    cost.load_s = 10;
    cost.prefill_s = spec.configuration.label() == "bfloat16" ? 2 : 1;
    cost.head_row_s = 0.01;
    cost.vocab = 50000;
    return cost;
  };
  const auto costs_of = [&](std::vector<std::string> precisions) {
    const DivergenceStudyOptions options{
        .precisions = std::move(precisions), .corpus = folder / "text.txt", .max_tokens = 301};
    return study_named("divergence").costs(own, options, cost_of).cases;
  };
  const double comparison_s = 6e-10 * 300 * 50000, heads_s = 300 * 0.01;
  const auto with_floor = costs_of({"float32", "nf4"}), without = costs_of({"float32", "bfloat16"});
  ASSERT_EQ(with_floor.size(), 2U);
  EXPECT_DOUBLE_EQ(with_floor[1].once_s, 1 + heads_s + comparison_s);
  EXPECT_EQ(with_floor[1].load_s, 10);
  EXPECT_DOUBLE_EQ(with_floor[0].once_s, (1 + heads_s + comparison_s) + 10 + (2 + heads_s + comparison_s));
  EXPECT_DOUBLE_EQ(without[0].once_s, 1 + heads_s + comparison_s);
  EXPECT_DOUBLE_EQ(without[1].once_s, 2 + heads_s + comparison_s);
  EXPECT_LT(comparison_s, 0.01) << "a small part of it";
}

// A sample takes the baseline's decoding too: eight sequences at a time.
TEST_F(PredictedText, OfASampleCountsWhatTheBaselineWrites) {
  ExperimentContext own = context();
  std::vector<std::int64_t> new_tokens;
  const CostOf cost_of = [&](const Case& spec) {
    CaseCost cost;
    cost.prefill_s = 1;
    cost.decode_s = spec.prompts.size() > 1 ? 100 : 0;
    if (spec.prompts.size() > 1) new_tokens.push_back(spec.new_tokens);
    return cost;
  };
  const DivergenceStudyOptions options{.precisions = {"float32", "bfloat16"}, .sample_tokens = 640};
  const auto cases = study_named("divergence").costs(own, options, cost_of).cases;
  ASSERT_EQ(cases.size(), 2U);
  // The context is 64: ten sequences or eleven, in two batches.
  EXPECT_GT(cases[0].once_s - cases[1].once_s, 200);
  EXPECT_LT(cases[0].once_s - cases[1].once_s, 203);
  ASSERT_EQ(new_tokens.size(), 1U);
  EXPECT_GE(new_tokens[0], 60);
}

}  // namespace
}  // namespace assay
