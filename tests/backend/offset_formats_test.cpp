// 4-bit formats with zero points, minima and permuted inputs, mixed in one plan from a source of codes:
// logits are those of the interpreter over the weights that they stand for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/base/error.h"
#include "assay/base/random.h"
#include "assay/quant/code_values.h"
#include "assay/quant/quantizer.h"
#include "assay/tensor/half.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"
#include "support/hand_written_plan.h"

namespace assay {
namespace {

using test::HandWrittenPlan;

constexpr std::int64_t kInputs = 256, kInner = 80, kOutputs = 64, kTokens = 50;

// Matrices in codes, scales, offsets and groups of inputs, beside weights in float32.
class CodedPlan : public HandWrittenPlan {
 public:
  WeightId coded(std::int64_t rows, std::int64_t columns, const WeightFormat& format,
                 MatmulArithmetic arithmetic) {
    const WeightId id = matrix(rows, columns, format);
    plan.weights.back().is_stored_quantized = true;
    plan.weights.back().arithmetic = arithmetic;
    Matrix& m = matrices_[plan.weights.back().name];
    const ScaleLayout layout(format, rows, columns);
    Random random(static_cast<std::uint64_t>(id) + 7);
    const auto count = static_cast<std::size_t>(layout.count);
    if (format.inputs_per_super_block > 0) make_super_blocks(m, count, random);
    for (std::size_t i = m.scales.size(); i < count; ++i) {
      m.scales.push_back(static_cast<float>(0.01 + 0.01 * random.uniform()));
      m.offsets.push_back(-m.scales.back() * static_cast<float>(4 + 8 * random.uniform()));
    }
    const std::int64_t groups = (columns + layout.group - 1) / layout.group;
    for (std::int64_t k = 0; k < columns; ++k)
      m.groups.push_back(
          static_cast<std::int32_t>(format.has_input_groups ? k * 7 % groups : k / layout.group));
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t k = 0; k < columns; ++k) {
        m.codes.push_back(static_cast<std::uint8_t>(16 * random.uniform()));
        const auto at = static_cast<std::size_t>(row * groups + m.groups[static_cast<std::size_t>(k)]);
        values.back()[static_cast<std::size_t>(row * columns + k)] =
            static_cast<float>(m.codes.back()) * m.scales[at] + m.offsets[at];
      }
    return id;
  }
  void read_codes(const WeightSpec& weight, std::int64_t first, std::int64_t count,
                  std::uint8_t* out) const override {
    std::copy_n(of(weight).codes.data() + first * weight.columns, count * weight.columns, out);
  }
  std::vector<float> read_scales(const WeightSpec& weight) const override { return of(weight).scales; }
  std::vector<float> read_offsets(const WeightSpec& weight) const override { return of(weight).offsets; }
  std::vector<std::int32_t> read_input_groups(const WeightSpec& weight) const override {
    return of(weight).groups;
  }
  SuperBlocks read_super_blocks(const WeightSpec& weight) const override { return of(weight).blocks; }
  void spoil_group(const std::string& name) { matrices_.at(name).groups[3] = 3; }

 private:
  struct Matrix {
    SuperBlocks blocks;
    std::vector<std::uint8_t> codes;
    std::vector<float> scales, offsets;
    std::vector<std::int32_t> groups;
  };
  // Super-blocks have eight groups each.
  static void make_super_blocks(Matrix& m, std::size_t groups, Random& random) {
    for (std::size_t i = 0; i < groups; ++i) {
      if (i % 8 == 0) {
        m.blocks.scale_factors.push_back(float_to_f16(static_cast<float>(2e-4 + 2e-4 * random.uniform())));
        m.blocks.minimum_factors.push_back(float_to_f16(static_cast<float>(2e-3 * random.uniform())));
      }
      m.blocks.scales.push_back(static_cast<std::uint8_t>(64 * random.uniform()));
      m.blocks.minima.push_back(static_cast<std::uint8_t>(64 * random.uniform()));
      m.scales.push_back(static_cast<float>(m.blocks.scales.back()) *
                         f16_to_float(m.blocks.scale_factors.back()));
      m.offsets.push_back(-static_cast<float>(m.blocks.minima.back()) *
                          f16_to_float(m.blocks.minimum_factors.back()));
    }
  }
  const Matrix& of(const WeightSpec& weight) const { return matrices_.at(weight.name); }
  std::map<std::string, Matrix> matrices_;
};

CodedPlan mixed_plan(Multiply multiply = Multiply::float32) {
  CodedPlan p;
  const BufferId in = p.buffer(kInputs), inner = p.buffer(kInner);
  p.plan.hidden = p.buffer(kOutputs);
  p.op(OpClass::embed, EmbedOp{.tokens = p.table(kTokens, kInputs), .out = in});
  p.op(OpClass::linear, LinearOp{.weight = p.coded(kInner, kInputs, formats::kQ4K, {multiply}),
                                 .activation = Activation::silu,
                                 .in = in,
                                 .out = inner});
  p.op(OpClass::linear, LinearOp{.weight = p.coded(kOutputs, kInner, formats::kInt4G32, {multiply}),
                                 .in = inner,
                                 .out = p.plan.hidden});
  p.plan.head.product.weight = p.matrix(kTokens, kOutputs);
  p.plan.vocab = kTokens;
  p.plan.context = 128;
  p.plan.layers = p.plan.kv_heads = 1;
  p.plan.head_dim = 16;
  return p;
}

std::vector<TokenId> first_ids(std::int64_t count) {
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<TokenId>(i * 11 % kTokens));
  return ids;
}

// The largest difference from the interpreter's logits, by their deviation.
double error_of(const CodedPlan& p, Backend& backend, const std::vector<TokenId>& ids) {
  const std::vector<double> wanted = test::PlanInterpreter(p).logits(ids);
  double squares = 0, most = 0;
  for (const double value : wanted) squares += value * value;
  const std::vector<float> got = test::all_logits(*backend.prepare(p.plan, p), ids);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    most = std::max(most, std::fabs(static_cast<double>(got[i]) - wanted[i]));
  return most / std::sqrt(squares / static_cast<double>(wanted.size()));
}

double allowed_error(Multiply multiply) {
  return multiply == Multiply::float32 ? 1e-4 : 0.1;
}

std::shared_ptr<Backend> emulated_gpu(CudaGemm gemm = CudaGemm::own) {
  return make_cuda_backend(Device{Device::Kind::cuda, 0}, cuda::make_emulated_runtime(), {.gemm = gemm});
}

TEST(OffsetFormats, GiveTheLogitsOfTheWeightsThatTheyStandFor) {
  for (const Multiply multiply : {Multiply::float32, Multiply::bfloat16}) {
    const CodedPlan p = mixed_plan(multiply);
    for (const std::int64_t rows : {1, 2, 7, 70})  // tokens at once take other paths
      for (const Isa isa : test::usable_isas())
        EXPECT_LE(error_of(p, *test::cpu_backend(isa), first_ids(rows)), allowed_error(multiply))
            << name_of(isa) << ", " << rows << " tokens, " << name_of(multiply);
  }
}

TEST(OffsetFormats, GiveTheSameOnAGpu) {
  for (const Multiply multiply : {Multiply::float32, Multiply::bfloat16, Multiply::float16}) {
    const CodedPlan p = mixed_plan(multiply);
    for (const std::int64_t rows : {1, 7, 40})
      for (const CudaGemm gemm : {CudaGemm::own, CudaGemm::cublaslt})
        EXPECT_LE(error_of(p, *emulated_gpu(gemm), first_ids(rows)), allowed_error(multiply))
            << rows << " tokens, " << name_of(multiply) << ", " << static_cast<int>(gemm);
  }
}

TEST(OffsetFormats, ATokenHasTheSameBitsInAnyBatchOnAGpu) {
  for (const Multiply multiply : {Multiply::float32, Multiply::bfloat16}) {
    const CodedPlan p = mixed_plan(multiply);
    const auto program = emulated_gpu()->prepare(p.plan, p);
    const std::vector<TokenId> ids = first_ids(40);
    const std::vector<float> together = test::all_logits(*program, ids);
    for (const std::size_t at : {0U, 5U, 39U}) {
      const std::vector<float> alone = test::all_logits(*program, {ids[at]});
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                             together.begin() + static_cast<std::ptrdiff_t>(at * alone.size())))
          << at;
    }
  }
}

TEST(OffsetFormats, AWeightInOneIsExchangedOnAGpu) {
  const CodedPlan p = mixed_plan();
  const auto backend = emulated_gpu();
  Plan plain = p.plan;  // as float32, which is larger
  for (WeightSpec& w : plain.weights)
    if (has_offsets(w.format)) {
      w.format = formats::kFloat32;
      w.is_stored_quantized = false;
    }
  const auto program = backend->prepare(p.plan, p);
  const std::vector<TokenId> ids = first_ids(5);
  const std::vector<float> coded = test::all_logits(*program, ids);
  for (std::size_t i = 0; i < plain.weights.size(); ++i)
    if (has_offsets(p.plan.weights[i].format)) program->exchange(static_cast<WeightId>(i), plain, p);
  EXPECT_EQ(test::all_logits(*program, ids), test::all_logits(*backend->prepare(plain, p), ids));
  for (std::size_t i = 0; i < plain.weights.size(); ++i)
    if (has_offsets(p.plan.weights[i].format)) program->exchange(static_cast<WeightId>(i), p.plan, p);
  EXPECT_EQ(test::all_logits(*program, ids), coded);
}

TEST(OffsetFormats, CountTheirOffsets) {
  const CodedPlan p = mixed_plan();
  const std::int64_t tables = kTokens * kInputs * 4 + kTokens * kOutputs * 4;
  const std::int64_t k_quant = kInner * kInputs / 256 * 144,
                     permuted = kOutputs * kInner / 2 + kOutputs * 3 * 8 + kInner * 4;
  for (const auto& backend : {test::cpu_backend(Isa::scalar), emulated_gpu()})
    EXPECT_EQ(backend->prepare(p.plan, p)->memory().weights.value, tables + k_quant + permuted)
        << backend->device().text();
}

TEST(OffsetFormats, WhatCannotBeRunIsAnError) {
  const auto refusal_of = [](Backend& backend, const std::function<void(CodedPlan&)>& spoil) -> std::string {
    CodedPlan p = mixed_plan();
    spoil(p);
    try {
      backend.prepare(p.plan, p);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto refusal = [&](const std::function<void(CodedPlan&)>& spoil) {
    const std::string text = refusal_of(*test::cpu_backend(Isa::scalar), spoil);
    EXPECT_EQ(refusal_of(*emulated_gpu(), spoil), text) << "both devices say the same";
    return text;
  };
  const auto has = [](const std::string& text, std::string_view words) {
    return text.find(words) != std::string::npos;
  };
  EXPECT_PRED2(has, refusal([](CodedPlan& p) { p.plan.weights[2].is_stored_quantized = false; }),
               "which checkpoints hold");
  EXPECT_PRED2(has, refusal([](CodedPlan& p) {
                 p.plan.weights[2].arithmetic.activations = ActivationType::int8_per_group;
               }),
               "activations");
  EXPECT_PRED2(has, refusal([](CodedPlan& p) { p.spoil_group(p.plan.weights[2].name); }),
               "expected a group from 0 to 2");
}

}  // namespace
}  // namespace assay
