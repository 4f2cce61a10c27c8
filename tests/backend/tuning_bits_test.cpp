// What tuning chooses among changes no bit of a product.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/backend/cpu/lower/pack.h"
#include "assay/backend/cpu/lower/packed_plan.h"
#include "assay/backend/cpu/memory/workspace.h"
#include "assay/backend/cpu/run/linear.h"
#include "assay/backend/cpu/run/tuning.h"

namespace assay::cpu {
namespace {

// Random weights of each format.
struct Random : WeightSource {
  void read_rows(const WeightSpec& weight, std::int64_t first, std::int64_t rows, float* out) const override {
    std::mt19937 random(static_cast<unsigned>(first) + 7);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < rows * weight.columns; ++i) out[i] = normal(random);
  }
};

TEST(Tuning, NoCandidateChangesABit) {
  Plan plan;
  plan.buffers = {{"in", 320}, {"out", 208}};
  for (const WeightFormat format : {formats::kFloat32, formats::kBfloat16, formats::kInt8, formats::kNf4,
                                    formats::kQ8_0, formats::kQ4_0}) {
    const bool is_block = holds_stored_scales(format);
    plan.ops.push_back({"op", OpClass::linear,
                        LinearOp{.weight = static_cast<WeightId>(plan.weights.size()),
                                 .has_int8_activations = is_block,
                                 .in = 0,
                                 .out = 1}});
    plan.weights.push_back(
        {.name = "matrix", .rows = 208, .columns = 320, .kind = WeightSpec::Kind::matrix, .format = format});
    if (is_block) plan.weights.back().arithmetic = {Multiply::bfloat16, ActivationType::int8_per_group};
  }
  plan.head.product.weight = 0;
  plan.hidden = 1;
  plan.vocab = 208;
  plan.context = 1;
  ThreadPool pool(2);
  PackedPlan packed(plan, select_kernels(best_usable_isa()));
  packed.weights = pack_weights(packed.specs(), Random(), pool);
  Tasks tasks(pool);
  Workspace work(packed, pool.size());
  work.reserve();
  Linear linear(packed, tasks, work);
  std::vector<float> x(320);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (std::int64_t row = 0; row < kMaxRows; ++row) work[0].put_row(row, x.data());
  for (const FusedOp& fused : packed.ops)
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{3}, kMaxRows}) {
      std::vector<float> usual;
      std::vector<KernelConstants> candidates = candidates_of(Choice::fetch, usual_constants(), 2);
      for (const Choice choice : {Choice::grouped_fetch, Choice::share_rows})
        for (const KernelConstants& one : candidates_of(choice, usual_constants(), 4))
          candidates.push_back(one);
      for (const KernelConstants& candidate : candidates) {
        packed.fetch = candidate.fetch;
        packed.grouped_fetch = candidate.grouped_fetch;
        tasks.set_share_rows(candidate.share_rows);
        std::vector<float> found;
        linear.run(std::get<LinearOp>(fused.op->kind), work[0], rows, {.out = work[1]});
        for (std::int64_t row = 0; row < rows; ++row)
          found.insert(found.end(), work[1].floats + row * work[1].stride,
                       work[1].floats + row * work[1].stride + 208);
        if (usual.empty()) usual = found;
        EXPECT_NE(found[17], 0);
        EXPECT_EQ(found, usual) << text_of(candidate) << ", " << rows << " rows";
      }
    }
}

}  // namespace
}  // namespace assay::cpu
