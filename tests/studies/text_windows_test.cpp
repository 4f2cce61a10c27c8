// What scoring a text is predicted to cost: windows, LM heads and comparisons, counted by hand and as
// measured.
#include "assay/studies/text_windows.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

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

// GPT-2 124M on two idle cores (AVX-512), its context 1024 and its text 3,480 tokens: what `assay bench -p
// 1023` measured, LM heads at the same rate, and the seconds of one pass of `assay diverge` over all four.
TEST_F(PredictedText, OfAMeasuredDivergenceHoldsWithinAFactorOfOneAndAHalf) {
  constexpr double kMeasured_s = 26.9;
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "a1";
  test::write_file(folder / "text.txt", text);
  ExperimentContext of_gpt2 = context();
  of_gpt2.context_length = 1024;
  ASSERT_GT(of_gpt2.tokenizer->encode(text).size(), 3480U);
  const std::map<std::string, std::pair<double, double>> parts = {{"float32", {0.565, 0.25e-3}},
                                                                  {"bfloat16", {0.227, 0.1e-3}},
                                                                  {"int8-dynamic", {0.178, 0.25e-3}},
                                                                  {"nf4", {0.444, 0.25e-3}}};
  const CostOf cost_of = [&](const Case& spec) {
    CaseCost cost;
    std::tie(cost.prefill_s, cost.head_row_s) = parts.at(spec.configuration.label());
    cost.vocab = 50257;
    return cost;
  };
  const DivergenceStudyOptions options{.precisions = {"float32", "bfloat16", "int8-dynamic", "nf4"},
                                       .corpus = folder / "text.txt",
                                       .max_tokens = 3480};
  double predicted_s = 0;
  for (const CostedCase& c : study_named("divergence").costs(of_gpt2, options, cost_of).cases)
    predicted_s += c.once_s;
  EXPECT_GT(predicted_s, kMeasured_s / 1.5);
  EXPECT_LT(predicted_s, kMeasured_s * 1.5);
  // A context that holds the text: forward passes and LM heads once, not once for each stride.
  of_gpt2.context_length = 4096;
  CaseCost once;
  once.prefill_s = 1;
  const CostedStudy one =
      study_named("divergence").costs(of_gpt2, options, [&](const Case&) { return once; });
  EXPECT_DOUBLE_EQ(one.cases[0].once_s, 1);
}

}  // namespace
}  // namespace assay
