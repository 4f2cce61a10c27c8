// What threads fetch while they wait is what they read next.
#include "assay/backend/cpu/run/weights_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/backend/cpu/run/linear.h"

namespace assay::cpu {
namespace {

struct Zeros : WeightSource {
  void read_rows(const WeightSpec& weight, std::int64_t, std::int64_t rows, float* out) const override {
    std::fill_n(out, rows * weight.columns, 0.0F);
  }
};

WeightSpec matrix(std::int64_t rows, WeightFormat format = formats::kFloat32) {
  return {.name = "matrix", .rows = rows, .columns = 32, .kind = WeightSpec::Kind::matrix, .format = format};
}

// Two products and the LM head: 40, 40 and 3 panels of 16 outputs and 32 inputs.
struct Fixture {
  explicit Fixture(int threads, bool is_gated = false, bool has_search = false) : pool(threads) {
    Plan plan;
    plan.buffers = {{"a", 32}, {"b", 640}, {"c", 320}};
    plan.weights = {matrix(640), matrix(640), matrix(48)};
    plan.ops = {{"first", OpClass::linear, LinearOp{.weight = 0, .in = 0, .out = 1}},
                {"second", OpClass::linear, LinearOp{.weight = 1, .in = 0, .out = 1}}};
    if (is_gated) plan.ops.push_back({"gate", OpClass::linear, GatedOp{.in = 1, .out = 2}});
    plan.head.product.weight = 2;
    plan.hidden = 0;
    plan.vocab = 48;
    plan.context = 1;
    plan.has_candidate_search = has_search;
    packed = std::make_unique<PackedPlan>(plan, select_kernels(Isa::scalar));
    packed->weights = pack_weights(packed->specs(), Zeros{}, pool);
    ahead = std::make_unique<WeightsAhead>(*packed, pool);
  }
  // Panels [first, last) of `next` that a worker fetches during `weight`.
  void expect(WeightId weight, int worker, WeightId next, std::int64_t first, std::int64_t last) const {
    const PackedWeight& w = packed->weight(next);
    const std::span<const std::byte> found = ahead->behind(weight, worker);
    EXPECT_EQ(found.data() - w.data.data(), first * w.panel_bytes()) << weight << ", worker " << worker;
    EXPECT_EQ(found.size(), static_cast<std::size_t>((last - first) * w.panel_bytes()))
        << weight << ", worker " << worker;
  }
  ThreadPool pool;
  std::unique_ptr<PackedPlan> packed;
  std::unique_ptr<WeightsAhead> ahead;
};

TEST(WeightsAhead, EachWorkerFetchesTheBeginningOfItsRegion) {
  const Fixture two(2);  // 10 tasks of 4 panels: 5 of either region
  two.expect(0, 0, 1, 0, 20);
  two.expect(0, 1, 1, 20, 40);
  two.expect(1, 0, 2, 0, 2);  // the LM head is two tasks
  two.expect(1, 1, 2, 2, 3);
  two.expect(2, 0, 0, 0, 20);
  two.expect(2, 1, 0, 20, 40);
  const Fixture one(1);
  one.expect(0, 0, 1, 0, 40);
  const Fixture four(4);  // the LM head has one panel for each, and nothing for the last
  four.expect(1, 2, 2, 2, 3);
  EXPECT_TRUE(four.ahead->behind(1, 3).empty());
}

TEST(WeightsAhead, IsForFewRowsAndForItsOwnTime) {
  Fixture two(2);
  two.ahead->begin(0, kFewRows + 1);
  EXPECT_EQ(two.pool.fetched_while_waiting(), nullptr);
  two.ahead->begin(1, kFewRows);
  const auto* of_one = two.pool.fetched_while_waiting();
  ASSERT_NE(of_one, nullptr);
  EXPECT_EQ(of_one[0].data(), two.ahead->behind(1, 0).data());
  two.ahead->begin(2, kFewRows + 1);
  EXPECT_EQ(two.pool.fetched_while_waiting(), of_one);
  two.ahead.reset();
  EXPECT_EQ(two.pool.fetched_while_waiting(), nullptr);
}

TEST(WeightsAhead, GatedProductsAreCutByTheirHalves) {
  const Fixture gated(2, true);  // 20 panels of each half: 10 tasks
  gated.expect(0, 0, 1, 0, 10);
  gated.expect(0, 1, 1, 10, 20);
  gated.expect(2, 1, 0, 20, 40);
}

TEST(WeightsAhead, CandidatesOfTheHeadAreFoundInItsCopy) {
  const Fixture searched(2, false, true);
  searched.expect(1, 0, 3, 0, 2);
  searched.expect(3, 1, 0, 20, 40);  // behind the copy, and behind the whole head where that runs
  searched.expect(2, 1, 0, 20, 40);
}

TEST(WeightsAhead, NoMoreThanFitsBesideOtherThings) {
  Plan plan;
  plan.buffers = {{"a", 4096}, {"b", 640}};
  WeightSpec wide = matrix(640);
  wide.columns = 4096;
  plan.weights = {wide, wide};
  plan.ops = {{"only", OpClass::linear, LinearOp{.weight = 0, .in = 0, .out = 1}}};
  plan.head.product.weight = 1;
  plan.hidden = 0;
  plan.vocab = 640;
  plan.context = 1;
  ThreadPool pool(2);
  PackedPlan packed(plan, select_kernels(Isa::scalar));
  packed.weights = pack_weights(packed.specs(), Zeros{}, pool);
  EXPECT_EQ(WeightsAhead(packed, pool).behind(0, 1).size(), std::size_t{128} << 10);
}

}  // namespace
}  // namespace assay::cpu
