// Rooflines and predictions: costs of steps against those of their parts, and what a run records of them.
#include "assay/harness/roofline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "assay/assay.h"
#include "assay/base/error.h"
#include "assay/harness/predict.h"
#include "assay/harness/run_case.h"
#include "assay/harness/run_costs.h"
#include "assay/harness/sweep.h"
#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

const LoadedModel& loaded_for_roofline() {
  static const LoadedModel loaded =
      load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, "float32", Device{});
  return loaded;
}
const Plan& plan_for_roofline() {
  return loaded_for_roofline().model->program().plan();
}

Cost cost_with(std::int64_t weights, std::int64_t kv, double flops) {
  Cost cost;
  cost.weight_bytes = {weights};
  cost.kv_bytes = {kv};
  cost.flops = {flops};
  return cost;
}

TEST(RooflinePeaks, TheLongerOfReadingAndComputingBounds) {
  const Roofline::Peaks peaks{.bytes_per_second = 100, .operations_per_second = 50};
  EXPECT_DOUBLE_EQ(peaks.seconds(cost_with(60, 40, 30)), 1);  // not 1.6
  EXPECT_DOUBLE_EQ(peaks.seconds(cost_with(60, 40, 100)), 2);
  EXPECT_TRUE(peaks.is_memory_bound(cost_with(60, 40, 30)));
  EXPECT_TRUE(peaks.is_memory_bound(cost_with(60, 40, 50))) << "both take a second";
  EXPECT_FALSE(peaks.is_memory_bound(cost_with(60, 40, 51)));
  const Roofline::Peaks reading{.bytes_per_second = 100, .operations_per_second = 0};
  EXPECT_DOUBLE_EQ(reading.seconds(cost_with(60, 40, 1e9)), 1);
  EXPECT_TRUE(reading.is_memory_bound(cost_with(60, 40, 1e9)));
  const Roofline::Peaks computing{.bytes_per_second = 0, .operations_per_second = 50};
  EXPECT_DOUBLE_EQ(computing.seconds(cost_with(60, 40, 25)), 0.5);
  EXPECT_FALSE(computing.is_memory_bound(cost_with(60, 40, 25)));
  EXPECT_EQ(Roofline::Peaks{}.seconds(cost_with(60, 40, 25)), 0);
  // Half a byte and half an operation a second are rates.
  const Roofline::Peaks slow{.bytes_per_second = 0.5, .operations_per_second = 0.5};
  EXPECT_DOUBLE_EQ(slow.seconds(cost_with(2, 1, 10)), 20);
  EXPECT_DOUBLE_EQ(slow.seconds(cost_with(20, 10, 10)), 60);
  EXPECT_FALSE(slow.is_memory_bound(cost_with(2, 1, 10)));
  EXPECT_TRUE(slow.is_memory_bound(cost_with(20, 10, 10)));
}

// By phase: keys, values and operations of each sequence, weights once for all.
void expect_step(const PhaseCosts& step, const std::vector<PhaseCosts>& sequences,
                 const PhaseCosts& together) {
  for (std::size_t i = 0; i < kOpClasses; ++i) {
    std::int64_t kv = 0;
    double flops = 0;
    for (const PhaseCosts& one : sequences) {
      kv += one[i].kv_bytes.value;
      flops += one[i].flops.value;
    }
    EXPECT_EQ(step[i].kv_bytes.value, kv) << i;
    EXPECT_DOUBLE_EQ(step[i].flops.value, flops) << i;
    EXPECT_EQ(step[i].weight_bytes.value, together[i].weight_bytes.value) << i;
  }
}

TEST(StepCosts, CountWeightsOncePerStep) {
  const Plan& plan = plan_for_roofline();
  const auto steps = step_costs(plan, {{3, 5}, 3, true});
  ASSERT_EQ(steps.size(), 3U);
  expect_step(steps[0], {costs_by_phase(plan, 3, 0, 1), costs_by_phase(plan, 5, 0, 1)},
              costs_by_phase(plan, 8, 0, 2));
  expect_step(steps[1], {costs_by_phase(plan, 1, 3, 1), costs_by_phase(plan, 1, 5, 1)},
              costs_by_phase(plan, 2, 0, 2));
  expect_step(steps[2], {costs_by_phase(plan, 1, 4, 1), costs_by_phase(plan, 1, 6, 1)},
              costs_by_phase(plan, 2, 0, 2));
  // Without a cache all tokens are computed again.
  const auto again = step_costs(plan, {{3, 5}, 2, false});
  expect_step(again[1], {costs_by_phase(plan, 4, 0, 1), costs_by_phase(plan, 6, 0, 1)},
              costs_by_phase(plan, 10, 0, 2));
  const Cost total = total_cost(steps[1]);
  Cost expected;
  for (const Cost& cost : steps[1]) expected += cost;
  EXPECT_EQ(total.weight_bytes.value, expected.weight_bytes.value);
  EXPECT_GT(total.flops.value, 0);
}

// A prefill that is longer than a step reads the weights again; what the cache holds already is only read.
TEST(StepCosts, CutAPrefillAsItRuns) {
  const Plan& plan = plan_for_roofline();
  const BatchShape shape{
      .prompt_tokens = {3, 5}, .new_tokens = 2, .uses_cache = true, .depth = 7, .rows_per_step = 4};
  const auto steps = step_costs(plan, shape);
  ASSERT_EQ(steps.size(), 3U);
  expect_step(steps[0], {costs_by_phase(plan, 3, 7, 1), costs_by_phase(plan, 1, 7, 0)},
              costs_by_phase(plan, 4, 0, 1));
  expect_step(steps[1], {costs_by_phase(plan, 4, 8, 1)}, costs_by_phase(plan, 4, 0, 1));
  expect_step(steps[2], {costs_by_phase(plan, 1, 10, 1), costs_by_phase(plan, 1, 12, 1)},
              costs_by_phase(plan, 2, 0, 2));
  EXPECT_EQ(step_costs(plan, {{8}, 1, true, 0, 8}).size(), 1U);
  EXPECT_EQ(step_costs(plan, {{9}, 1, true, 0, 8}).size(), 2U);
}

TEST(PeakInstruction, FollowsFormatAndTier) {
  const auto kind = [](const char* precision, Isa isa) -> int {
    const auto product = peak_instruction(precision_from_name(precision), isa);
    return product ? static_cast<int>(product->kind) : -1;
  };
  const auto or_none = [](ProductKind of) { return why_not_usable(of) ? -1 : static_cast<int>(of); };
  EXPECT_EQ(kind("float32", Isa::avx2), or_none(ProductKind::avx2_float32));
  EXPECT_EQ(kind("float32", Isa::avx512), or_none(ProductKind::avx512_float32));
  EXPECT_EQ(kind("nf4", Isa::avx2), or_none(ProductKind::avx2_float32));
  EXPECT_EQ(kind("int8-dynamic", Isa::avx512), or_none(ProductKind::avx512_vnni));
  EXPECT_EQ(kind("int8-dynamic", Isa::amx), or_none(ProductKind::amx_int8));
  EXPECT_EQ(kind("bfloat16", Isa::amx), static_cast<int>(ProductKind::amx_bfloat16));
  EXPECT_EQ(kind("bfloat16", Isa::avx512bf16), static_cast<int>(ProductKind::avx512_bfloat16));
  EXPECT_EQ(kind("bfloat16", Isa::avx512), or_none(ProductKind::avx512_float32));
  EXPECT_EQ(peak_instruction(precision_from_name("bfloat16"), Isa::amx)->each, 1);
}

Case case_of_two_batches() {
  Case spec;
  spec.prompts = {std::vector<TokenId>{1, 2, 3}, std::vector<TokenId>{4, 5, 6, 7, 8},
                  std::vector<TokenId>{9, 10}};
  spec.batch_size = 2;
  spec.new_tokens = 4;
  return spec;
}

TEST(RunCase, RecordsWhatItsStepsCost) {
  const LoadedModel& loaded = loaded_for_roofline();
  Roofline roofline(*loaded.model);
  const Sample s = run_case(loaded, case_of_two_batches(), &roofline);
  EXPECT_EQ(s.sequences, 3);
  EXPECT_EQ(s.batches, 2);
  EXPECT_EQ(s.prompt_tokens, 10);
  EXPECT_EQ(s.computed_prompt_tokens, 10);
  EXPECT_EQ(s.new_tokens, 12);
  ASSERT_EQ(s.step_s.size(), 6U);
  EXPECT_GT(s.first_token_s, 0);
  EXPECT_LT(s.first_token_s, s.total_latency_s);
  EXPECT_LE(s.prefill_s + s.decode_s(), s.total_latency_s * 1.0001);
  EXPECT_GE(s.end_to_end_s, s.total_latency_s);
  EXPECT_GE(s.tokenize_s, s.first_tokenize_s);
  double bytes = 0, flops = 0, allowed = 0, of_memory = 0;
  const Roofline::Peaks peaks{s.roofline_gb_s * 1e9, s.roofline_gflops * 1e9};
  for (const BatchShape& shape : {BatchShape{{3, 5}, 4, true}, BatchShape{{2}, 4, true}})
    for (const PhaseCosts& step : step_costs(plan_for_roofline(), shape)) {
      const Cost cost = total_cost(step);
      bytes += static_cast<double>(cost.weight_bytes.value + cost.kv_bytes.value);
      flops += cost.flops.value;
      allowed += peaks.seconds(cost);
      of_memory += peaks.is_memory_bound(cost) ? peaks.seconds(cost) : 0;
    }
  EXPECT_DOUBLE_EQ(s.bytes, bytes);
  EXPECT_NEAR(s.flops, flops, 1e-9 * flops);
  EXPECT_NEAR(s.roofline_s, allowed, 1e-9 * allowed);
  EXPECT_NEAR(s.memory_bound_s, of_memory, 1e-9 * allowed);
  const Bytes working_set = working_set_of(step_costs(plan_for_roofline(), {{3, 5}, 4, true}));
  EXPECT_EQ(roofline.window_beside_run(working_set).value, std::clamp(s.total_latency_s, 0.002, 0.008))
      << "the next time";
  EXPECT_GT(s.roofline_gb_s, 0.01);
  EXPECT_LT(s.roofline_gb_s, 10000);
}

TEST(FirstRunOfACase, HasItsTextsProfileAndMemory) {
  const LoadedModel& loaded = loaded_for_roofline();
  Roofline roofline(*loaded.model);
  const FirstRun first = first_run(loaded, case_of_two_batches(), roofline, {});
  ASSERT_EQ(first.ids.size(), 3U);
  const Bytes working_set = working_set_of(step_costs(plan_for_roofline(), {{3, 5}, 4, true}));
  EXPECT_EQ(roofline.window_beside_run(working_set).value, std::clamp(first.seconds, 0.002, 0.008));
  EXPECT_EQ(first.ids[2].size(), 4U);
  EXPECT_EQ(first.prompt_ids[1], (std::vector<TokenId>{4, 5, 6, 7, 8}));
  EXPECT_EQ(first.texts.size(), 3U);
  // The larger of two batches: 3 + 3 and 5 + 3 positions; the last token is never fed.
  const Program& program = loaded.model->program();
  EXPECT_EQ(first.kv_cache_bytes,
            static_cast<double>(program.cache_bytes(6).value + program.cache_bytes(8).value));
  ASSERT_EQ(first.profile.parts.size(), 5U);
  const char* names[] = {"matrix multiplication", "attention", "the LM head", "other operations",
                         "synchronization"};
  double all = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(first.profile.parts[i].phase, names[i]);
    EXPECT_GE(first.profile.parts[i].seconds, 0);
    all += first.profile.parts[i].seconds;
  }
  EXPECT_NEAR(all, first.seconds, 0.05 * first.seconds);
  EXPECT_GT(first.profile.parts[0].roofline_s, 0);
  EXPECT_EQ(first.profile.parts[4].roofline_s, 0);
  EXPECT_GE(first.peak_rss_bytes, first.current_rss_bytes);
  EXPECT_GT(first.current_rss_bytes, 1e6);
}

class Predictions : public ::testing::Test {
 protected:
  Predictions() : folder_(test::fixture_model("with_tokenizer")) {
    context_.sessions = &sessions_;
    context_.context_length = 64;
    context_.predicted_memory = [this](const RunConfig&, std::int64_t sequences, std::int64_t tokens) {
      asked_.emplace_back(sequences, tokens);
      return Bytes{1000 * sequences + tokens};
    };
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> asked_;
  Sessions sessions_{[](const RunConfig&) -> std::unique_ptr<Session> { throw Error("nothing is loaded"); },
                     [](const RunConfig& c) { return Bytes{c.precision == Preset::nf4 ? 3 << 20 : 1}; },
                     Bytes{2 << 20}};
  ModelFolder folder_;
  ExperimentContext context_;
};

TEST_F(Predictions, AddBatchesAndNameWhatCannotRun) {
  Case two = case_of_two_batches(), one = two, long_prompt = two, large = two;
  one.batch_size = 0;
  one.prompts = {two.prompts[0], two.prompts[1]};
  long_prompt.prompts = {std::vector<TokenId>(61, 1)};
  large.configuration.precision = preset_from_name("nf4");
  Case alone = one;
  alone.prompts = {two.prompts[2]};
  Case longest = long_prompt;
  longest.prompts = {std::vector<TokenId>(60, 1)};
  const auto predicted = predict_cases(context_, folder_, {two, one, alone, long_prompt, large, longest});
  ASSERT_EQ(predicted.size(), 6U);
  EXPECT_GT(predicted[1].seconds, predicted[2].seconds);
  EXPECT_NEAR(predicted[0].seconds, predicted[1].seconds + predicted[2].seconds, 1e-12);
  EXPECT_EQ(predicted[0].memory.value, 2008);  // two sequences, 5 + 4 - 1 tokens
  EXPECT_EQ(predicted[2].memory.value, 1005);
  EXPECT_EQ(predicted[0].why_not, "");
  EXPECT_EQ(predicted[3].why_not, "61 tokens of the prompt and 4 new ones exceed the model's context of 64");
  EXPECT_EQ(predicted[3].seconds, 0);
  EXPECT_EQ(predicted[4].why_not, "out of memory predicted: 3 MiB needed, 2 MiB allowed");
  EXPECT_EQ(predicted[5].why_not, "");
  // The first configuration's roofline stands for all: what differs is the cost alone.
  const auto seconds_of = seconds_predictor(context_, folder_);
  const double first = seconds_of(two), second = seconds_of(one) + seconds_of(alone);
  EXPECT_NEAR(first, second, 1e-12);
  Case equal = two;
  equal.configuration.threads = 2;
  EXPECT_NEAR(seconds_of(equal), first, 1e-12);
}

// A window in which a thread waits for its processor shows a hundredth of the rate: the others tell the
// machine's.
TEST(Roofline, AnInterruptedWindowIsNoPeak) {
  const std::vector<Roofline::Peaks> windows{{1e8, 5e11}, {3e10, 2e9}, {2e10, 4e11}};
  std::size_t at = 0;
  const Roofline::Peaks best = best_of(3, [&] { return windows[at++]; });
  EXPECT_EQ(at, 3U);
  EXPECT_EQ(best.bytes_per_second, 3e10);
  EXPECT_EQ(best.operations_per_second, 5e11);
}

}  // namespace
}  // namespace assay
