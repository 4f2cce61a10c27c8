// The KV cache and padding ablated on a scripted model: fits, crossings and overheads by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/error.h"
#include "support/prose.h"
#include "support/scripted_model.h"

namespace assay {
namespace {

using test::kDeviation;
using test::ScriptedStudies;

TEST(DescribeSteps, SaysWhereTheLinesCross) {
  StepTimes on, off;
  for (double at = 10; at <= 100; at += 10) {
    on.position.push_back(at);
    on.milliseconds.push_back(5 + 0.001 * at);
    off.position.push_back(at + 5);
    off.milliseconds.push_back(1 + 0.1 * (at + 5));
  }
  std::vector<std::string> sentences = step_sentences(on, off);
  ASSERT_EQ(sentences.size(), 5U);
  EXPECT_EQ(sentences[0], "With the KV cache, a decode step takes 5 ms + 1 us per position (R2 1.00).");
  EXPECT_EQ(sentences[1], "Without the KV cache, a decode step takes 1 ms + 100 us per position (R2 1.00).");
  // (5 - 1) / (0.1 - 0.001).
  EXPECT_EQ(sentences[4],
            "The fitted lines cross at position 40, within the measured 15 to 100; beyond it a step with the "
            "KV cache is faster.");
  // Reversed: with the cache a step becomes slower, and beyond the crossing it stays so.
  EXPECT_EQ(step_sentences(off, on).size(), 4U);
  // The crossing lies beyond what was measured, above and below.
  for (double& ms : on.milliseconds) ms += 7;  // 11 / 0.099 = 111
  EXPECT_EQ(step_sentences(on, off).size(), 4U);
  for (double& ms : on.milliseconds) ms -= 10;  // 1 / 0.099 = 10, below 15
  EXPECT_EQ(step_sentences(on, off).size(), 4U);
  for (double& ms : on.milliseconds) ms += 0.6;  // 1.6 / 0.099 = 16
  EXPECT_EQ(step_sentences(on, off).size(), 5U);
  // Undecidable: times that do not follow their position.
  for (std::size_t i = 0; i < on.milliseconds.size(); ++i) on.milliseconds[i] = i % 2 == 0 ? 5 : 1;
  sentences = step_sentences(on, off);
  ASSERT_EQ(sentences.size(), 2U);
  EXPECT_EQ(sentences[0].rfind("Without", 0), 0U);
  EXPECT_EQ(sentences[1].rfind("Without", 0), 0U);
}

TEST(DescribeSteps, OfAParabolaHasItsThreeCoefficients) {
  StepTimes on, off;
  for (double at = 1; at <= 50; ++at) {
    on.position.push_back(at);
    off.position.push_back(at);
    on.milliseconds.push_back(9 - 0.02 * at - 0.0005 * at * at);
    off.milliseconds.push_back(2 - 0.03 * at + 0.0025 * at * at);
  }
  const std::vector<std::string> sentences = step_sentences(on, off);
  ASSERT_GE(sentences.size(), 4U);
  EXPECT_EQ(sentences[2],
            "With the KV cache, a decode step takes 9 ms - 20 us per position - 500 ns per position squared "
            "(R2 1.00) in a quadratic fit.");
  EXPECT_EQ(sentences[3],
            "Without the KV cache, a decode step takes 2 ms - 30 us per position + 2.5 us per position "
            "squared (R2 1.00) in a quadratic fit.");
}

TEST_F(ScriptedStudies, CacheAblationFitsPositionsAndNamesTheUnexpected) {
  bool is_reversed = false;
  script_.run = [&](const Case& spec, int process) {
    // A step at position p takes 2 ms with the cache, 1 + 0.2 p ms without; they would cross at 5.
    const int prompt = spec.label.find(" 4 tokens") != std::string::npos ? 4 : 8;
    std::vector<double> steps;
    for (int i = 0; i < 3; ++i)
      steps.push_back(
          1e-3 * (spec.uses_cache != is_reversed ? 2 + 0.01 * (prompt + i + 1) : 1 + 0.2 * (prompt + i + 1)));
    if (process == 1) steps[0] *= 1.01;  // the median of the runs does not see it
    return test::scripted_sample(0.001, steps, prompt);
  };
  const auto ablate = [&] {
    return run("cache", [](std::any& o) {
      auto& options = std::any_cast<AblationOptions&>(o);
      options.lengths = {4, 8};
      options.new_tokens = 4;
    });
  };
  ExperimentResult result = ablate();
  ASSERT_EQ(result.rows.size(), 6U);
  const Row& on = *result.find("cache on");
  EXPECT_EQ(on.find("position")->samples, (std::vector<double>{5, 6, 7, 9, 10, 11}));
  EXPECT_EQ(on.find("position")->value, 8);
  EXPECT_EQ(on.find("position")->statistic, "median");
  ASSERT_EQ(on.find("step_latency_ms")->samples.size(), 6U);
  EXPECT_NEAR(on.find("step_latency_ms")->samples[0], 2.05, 1e-9);
  EXPECT_NEAR(on.find("step_latency_ms")->samples[5], 2.11, 1e-9);
  EXPECT_NEAR(result.find("cache off")->find("step_latency_ms")->samples[5], 3.2, 1e-9);
  EXPECT_NEAR(result.find("cache off")->find("step_latency_ms")->value, 2.6, 1e-9);  // the median of 2 to 3.2
  EXPECT_EQ(on.scenario, Scenario::step_times);
  EXPECT_EQ(on.parameter("configuration"), context().baseline.label());
  ASSERT_FALSE(test::remarks_of(result).empty());
  EXPECT_EQ(test::remarks_of(result)[0],
            "With the KV cache, a decode step takes 2 ms + 10 us per position (R2 1.00).");
  // (2 - 1) / (0.2 - 0.01) = 5.26.
  EXPECT_NE(test::remarks_of(result)[4].find("cross at position 5, within the measured 5 to 11"),
            std::string::npos);
  ASSERT_EQ(result.comparisons.size(), 2U);
  EXPECT_EQ(result.comparisons[0].subject, "cache off, 4 tokens");
  EXPECT_EQ(result.comparisons[0].baseline, "cache on, 4 tokens");
  EXPECT_EQ(result.comparisons[0].verdict, Verdict::higher);
  for (const std::string& remark : test::remarks_of(result))
    EXPECT_EQ(remark.find("does not help"), std::string::npos) << remark;
  is_reversed = true;
  result = ablate();
  EXPECT_EQ(
      test::remarks_of(result).back().rfind("The KV cache does not help: cache off, 8 tokens is 1.37x [", 0),
      0U)
      << test::remarks_of(result).back();
}

TEST_F(ScriptedStudies, AblationTellsWhichLengthsItReduced) {
  AblationOptions options{.lengths = {100, 60, 59}, .new_tokens = 4};
  const std::vector<Case> cases = study_named("cache").cases(context(), options);
  ASSERT_EQ(cases.size(), 6U);
  EXPECT_EQ(cases[0].label, "cache on, 60 tokens");
  ASSERT_EQ(cases[0].warnings.size(), 1U);
  EXPECT_EQ(cases[0].warnings[0].text, "100 prompt tokens were asked for, but the context has room for 60");
  EXPECT_TRUE(cases[2].warnings.empty());
  EXPECT_EQ(cases[5].label, "cache off, 59 tokens");
  options.lengths = {0};
  EXPECT_THROW(study_named("cache").cases(context(), options), FieldError);
  options = {.lengths = {1}, .new_tokens = 63};
  EXPECT_EQ(study_named("cache").cases(context(), options).size(), 2U);
  options.new_tokens = 64;
  EXPECT_THROW(study_named("cache").cases(context(), options), Error);
  // The prompts that ship have 8, 24, 48 and 96 tokens, as far as there is room for them.
  const std::vector<Case> padded = study_named("padding").cases(context(), AblationOptions{.new_tokens = 4});
  ASSERT_EQ(padded.size(), 3U);
  std::vector<std::size_t> lengths;
  for (const Prompt& prompt : padded[1].prompts)
    lengths.push_back(std::get<std::vector<TokenId>>(prompt).size());
  EXPECT_EQ(lengths, (std::vector<std::size_t>{8, 24, 48, 60}));
  EXPECT_EQ(padded[0].padding, Padding::none);
  EXPECT_EQ(padded[1].label, "padded left");
  EXPECT_EQ(padded[2].padding, Padding::right);
}

TEST_F(ScriptedStudies, PaddingOverheadIsAShareOfWhatIsComputed) {
  script_.run = [](const Case& spec, int process) {
    const double slow = spec.padding == Padding::left ? 1.5 * std::exp(kDeviation[process]) : 1;
    Sample s = test::scripted_sample(0.5 * slow, {0.25 * slow, 0.25 * slow}, 30);
    s.sequences = 2;
    s.new_tokens = 6;
    s.computed_prompt_tokens = spec.padding == Padding::none ? 30 : 40;
    return s;
  };
  const ExperimentResult result = run("padding", [](std::any& o) {
    auto& options = std::any_cast<AblationOptions&>(o);
    options.padded_prompts = {std::vector<TokenId>(10, 1), std::vector<TokenId>(20, 1)};
    options.new_tokens = 3;
  });
  ASSERT_EQ(result.rows.size(), 3U);
  const Row &none = *result.find("no padding"), &left = *result.find("padded left");
  EXPECT_EQ(none.find("padding_waste_percent")->value, 0);
  EXPECT_DOUBLE_EQ(left.find("padding_waste_percent")->value, 25);  // 10 of 40, not of 30
  EXPECT_EQ(left.find("computed_prompt_tokens")->value, 40);
  EXPECT_NEAR(left.find("real_tokens_per_sec")->value, 36 / 1.5, 1e-9);
  EXPECT_NEAR(left.find("padded_tokens_per_sec")->value, 46 / 1.5, 1e-9);
  EXPECT_EQ(test::remarks_of(result),
            (std::vector<std::string>{
                "padded left and padded right: 10 of 40 computed prompt tokens are padding (25 %)."}));
}

}  // namespace
}  // namespace assay
