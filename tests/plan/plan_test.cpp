// Bytes and FLOPs counted from the plan, against sums done by hand.
#include "assay/plan/cost.h"

#include <gtest/gtest.h>

#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

TEST(CostOf, GrowsWithRowsAndPastAsItShould) {
  // minimal: one layer, width 8, one head of 8, vocabulary 11.
  const ModelFolder folder(test::fixture_model("minimal"));
  const Plan plan = plan_forward(spec_from_source(folder), precision_from_name("float32"));
  const Cost one = cost_of(plan, 1, 0, 1), later = cost_of(plan, 1, 3, 1), two = cost_of(plan, 2, 0, 2);
  // A key and a value of 8 float32 for each position, read once.
  EXPECT_EQ(one.kv_bytes.value, 2 * 8 * 4);
  EXPECT_EQ(later.kv_bytes.value, 4 * 2 * 8 * 4);
  // Three more keys: a product with the keys and one with the values, two FLOPs per element each.
  EXPECT_DOUBLE_EQ(later.flops.value - one.flops.value, 4.0 * 3 * 8);
  // A second row costs its matrices (12 * 8 * 8 weights and the head), two more keys, an embedding and three
  // norms; no weight is read again but its rows of the tables.
  constexpr double kHead = 2.0 * 11 * 8 + 8.0 * 8;
  EXPECT_DOUBLE_EQ(two.flops.value - one.flops.value, 2.0 * 12 * 64 + 4.0 * 2 * 8 + 8 + 2 * 8.0 * 8 + kHead);
  EXPECT_EQ(two.weight_bytes.value - one.weight_bytes.value, 2 * 8 * 4);
}

// Each row sees as many keys as its window holds: of some rows those of the first, and one more for each.
TEST(CostOf, ReadsTheWindowsOfAllRows) {
  const ModelFolder folder(test::fixture_model("mistral_window"));
  const ModelSpec spec = spec_from_source(folder);
  const Plan plan = plan_forward(spec, precision_from_name("float32"));
  const std::int64_t each = std::int64_t{2} * spec.layers * spec.kv_heads * spec.head_dim * 4,
                     window = spec.attention_window;
  ASSERT_GT(window, 0);
  EXPECT_EQ(cost_of(plan, 1, window + 9, 1).kv_bytes.value, window * each);
  EXPECT_EQ(cost_of(plan, 4, window + 9, 1).kv_bytes.value, (window + 3) * each);
  EXPECT_EQ(cost_of(plan, 4, 0, 1).kv_bytes.value, std::min<std::int64_t>(4, window + 3) * each);
}

// Two codes of 4 bits a byte, and one alone where they are odd in number.
TEST(Footprint, OfAnOddNumberOfCodes) {
  Plan plan;
  plan.weights = {
      {.name = "w", .rows = 3, .columns = 5, .kind = WeightSpec::Kind::matrix, .format = formats::kNf4}};
  EXPECT_EQ(plan.footprint(4).value, 8);
}

TEST(CostOf, LeavesOutWhatNobodyWants) {
  const ModelFolder folder(test::fixture_model("minimal"));
  const Plan plan = plan_forward(spec_from_source(folder), precision_from_name("float32"));
  const Cost two = cost_of(plan, 2, 0, 2), last = cost_of(plan, 2, 0, 1), none = cost_of(plan, 2, 0, 0);
  // For the first row: the head and its norm, the query, the output of attention, of its one key, a norm and
  // the MLP.
  constexpr double kHead = 2.0 * 11 * 8 + 8.0 * 8, kNotRead = 2.0 * 10 * 64 + 8.0 * 8;
  EXPECT_DOUBLE_EQ(two.flops.value - last.flops.value, kHead + kNotRead + 4.0 * 8);
  EXPECT_DOUBLE_EQ(last.flops.value - none.flops.value, kHead + kNotRead + 4.0 * 2 * 8);
  // Nor are weights read for no row: matrices and biases, gain and bias of two norms.
  EXPECT_EQ(two.weight_bytes.value, last.weight_bytes.value);
  EXPECT_EQ(last.weight_bytes.value - none.weight_bytes.value, (11 * 8 + 9 * 64 + 2 * 2 * 8) * 4);
}

// What a probe reads for a step is what the step is said to read, less vectors and the rows of tables.
TEST(StepWeights, AreWhatAStepReads) {
  const auto folder = std::make_shared<const ModelFolder>(test::demo_model());
  for (const char* name : {"float32", "bfloat16", "int8-dynamic", "nf4", "candidate search"}) {
    Precision precision =
        precision_from_name(std::string_view(name) == "candidate search" ? "float32" : name);
    precision.has_candidate_search = std::string_view(name) == "candidate search";
    const Model model = Model::load(folder, test::cpu_backend(best_usable_isa(), 2), precision, {});
    double bytes = 0;
    for (const auto& region : model.program().step_weights()) bytes += static_cast<double>(region.size());
    const Bytes counted = cost_of(model.program().plan(), 1, 0, 1).weight_bytes;
    EXPECT_NEAR(bytes / static_cast<double>(counted.value), 1, 0.02) << name;
  }
}

TEST(PruningOf, EndsWhereRowsAreLookedAtTogether) {
  const ModelFolder folder(test::fixture_model("minimal"));
  for (const char* precision : {"float32", "int8-dynamic", "nf4"}) {
    const Plan plan = plan_forward(spec_from_source(folder), precision_from_name(precision));
    ASSERT_LT(pruning_of(plan).attention, plan.ops.size()) << precision;
    EXPECT_EQ(plan.ops[pruning_of(plan).attention].name, "attention.0") << precision;
  }
  Precision one_scale = precision_from_name("int8-dynamic");
  one_scale.input_scale = InputScale::per_tensor;
  for (const Precision& precision : {one_scale, precision_from_name("llm-int8")}) {
    const Plan plan = plan_forward(spec_from_source(folder), precision);
    EXPECT_EQ(pruning_of(plan).attention, plan.ops.size());
  }
}

}  // namespace
}  // namespace assay
