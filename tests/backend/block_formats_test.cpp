// Matrices in GGUF's block types, as stored: every kernel gives the logits of the numbers that llama.cpp
// makes of the blocks, and a device takes the bytes that the file takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/base/error.h"
#include "assay/base/random.h"
#include "assay/quant/code_values.h"
#include "assay/quant/ggml_blocks.h"
#include "assay/tensor/half.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"
#include "support/hand_written_plan.h"

namespace assay {
namespace {

using test::HandWrittenPlan;

constexpr std::int64_t kBlockInputs = 512, kBlockInner = 256, kBlockTokens = 37;
constexpr std::uint32_t kBlockTypes[] = {2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 34, 35, 39};

// Where a block of a type holds its float16 numbers: a scale, then maybe a minimum; -1: none.
std::pair<std::int64_t, std::int64_t> factors_in(const ggml::BlockType& type) {
  const bool has_minimum = type.format->offset == Offset::minimum;
  const std::int64_t count = has_minimum ? 2 : 1;
  if (type.name == "MXFP4") return {-1, -1};
  const bool is_behind = type.name == "Q2_K" || type.name == "Q3_K" || type.name == "Q6_K" ||
                         type.name == "TQ1_0" || type.name == "TQ2_0";
  const std::int64_t at = is_behind ? type.bytes - 2 * count : 0;
  return {at, has_minimum ? at + 2 : -1};
}

// Random bytes with factors that keep values small.
std::vector<std::byte> random_blocks(const ggml::BlockType& type, std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> blocks;
  for (std::int64_t i = 0; i < count * type.bytes; ++i)
    blocks.push_back(static_cast<std::byte>(256 * random.uniform()));
  const auto factors = factors_in(type);
  const std::int64_t scale_at = factors.first, minimum_at = factors.second;
  const auto put = [&](std::int64_t block, std::int64_t at, double value) {
    const std::uint16_t half = float_to_f16(static_cast<float>(value));
    if (at >= 0) std::memcpy(blocks.data() + block * type.bytes + at, &half, 2);
  };
  const float largest = [&] {  // by which scales are cut
    std::vector<float> values(static_cast<std::size_t>(type.elements * count));
    for (std::int64_t i = 0; i < count; ++i) {
      put(i, scale_at, 1);
      put(i, minimum_at, 1);
      if (scale_at < 0) blocks[static_cast<std::size_t>(i * type.bytes)] = std::byte(118 + i % 8);
    }
    ggml::dequantize(type, blocks, values.data());
    return std::fabs(*std::max_element(values.begin(), values.end(),
                                       [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
  }();
  for (std::int64_t i = 0; i < count; ++i) {
    const double sign = i % 3 == 0 ? -1 : 1;
    put(i, scale_at, sign * (0.1 + 0.2 * random.uniform()) / static_cast<double>(largest));
    put(i, minimum_at, (0.2 * random.uniform()) / static_cast<double>(largest));
  }
  return blocks;
}

class BlockPlan : public HandWrittenPlan {
 public:
  WeightId coded(std::int64_t rows, std::int64_t columns, const ggml::BlockType& type,
                 MatmulArithmetic arithmetic) {
    const WeightId id = matrix(rows, columns, *type.format);
    plan.weights.back().is_stored_quantized = true;
    plan.weights.back().arithmetic = arithmetic;
    Matrix& m = matrices_[plan.weights.back().name];
    m.type = &type;
    m.blocks = random_blocks(type, rows * columns / type.elements, static_cast<std::uint64_t>(id) + 11);
    ggml::dequantize(type, m.blocks, values.back().data());
    return id;
  }
  void read_codes(const WeightSpec& weight, std::int64_t first, std::int64_t count,
                  std::uint8_t* out) const override {
    const Matrix& m = of(weight);
    const std::int64_t row = weight.columns / m.type->elements * m.type->bytes;
    ggml::read_codes(*m.type,
                     std::span(m.blocks).subspan(static_cast<std::size_t>(first * row),
                                                 static_cast<std::size_t>(count * row)),
                     out);
  }
  std::vector<float> read_scales(const WeightSpec& weight) const override { return numbers(weight).first; }
  std::vector<float> read_offsets(const WeightSpec& weight) const override { return numbers(weight).second; }
  SuperBlocks read_super_blocks(const WeightSpec& weight) const override {
    const Matrix& m = of(weight);
    const auto groups = static_cast<std::size_t>(weight.elements() / m.type->format->inputs_per_scale),
               blocks = static_cast<std::size_t>(weight.elements() / m.type->elements);
    const std::size_t has_minima = m.type->format->offset == Offset::minimum ? 1 : 0;
    SuperBlocks all{std::vector<std::uint8_t>(groups), std::vector<std::uint8_t>(groups * has_minima),
                    std::vector<std::uint16_t>(blocks), std::vector<std::uint16_t>(blocks * has_minima)};
    ggml::read_super_blocks(
        *m.type, m.blocks,
        {all.scales.data(), all.minima.data(), all.scale_factors.data(), all.minimum_factors.data()});
    if (loses_a_factor) all.scale_factors.pop_back();
    return all;
  }
  bool loses_a_factor = false;

 private:
  struct Matrix {
    const ggml::BlockType* type = nullptr;
    std::vector<std::byte> blocks;
  };
  const Matrix& of(const WeightSpec& weight) const { return matrices_.at(weight.name); }
  std::pair<std::vector<float>, std::vector<float>> numbers(const WeightSpec& weight) const {
    const Matrix& m = of(weight);
    const auto groups = static_cast<std::size_t>(weight.elements() / m.type->format->inputs_per_scale);
    std::pair all{std::vector<float>(groups), std::vector<float>(groups)};
    ggml::read_scales(*m.type, m.blocks, all.first.data(), all.second.data());
    return all;
  }
  std::map<std::string, Matrix> matrices_;
};

BlockPlan block_plan(const ggml::BlockType& type, Multiply multiply = Multiply::float32) {
  BlockPlan p;
  const BufferId in = p.buffer(kBlockInputs), inner = p.buffer(kBlockInner);
  p.plan.hidden = p.buffer(kBlockInputs);
  // Tied: its rows are looked up too.
  const WeightId tokens = p.coded(kBlockTokens, kBlockInputs, type, {multiply});
  p.plan.weights.back().is_table_too = true;
  p.op(OpClass::embed, EmbedOp{.tokens = tokens, .out = in});
  p.op(OpClass::linear, LinearOp{.weight = p.coded(kBlockInner, kBlockInputs, type, {multiply}),
                                 .activation = Activation::silu,
                                 .in = in,
                                 .out = inner});
  p.op(OpClass::linear, LinearOp{.weight = p.coded(kBlockInputs, kBlockInner, type, {multiply}),
                                 .in = inner,
                                 .out = p.plan.hidden});
  p.plan.head.product.weight = tokens;
  p.plan.vocab = kBlockTokens;
  p.plan.context = 128;
  p.plan.layers = p.plan.kv_heads = 1;
  p.plan.head_dim = 16;
  return p;
}

// The same with int8 activations beside each of its matrices.
BlockPlan int8_block_plan(const ggml::BlockType& type, Multiply multiply = Multiply::float32) {
  BlockPlan p = block_plan(type, multiply);
  for (WeightSpec& weight : p.plan.weights) weight.arithmetic.activations = ActivationType::int8_per_group;
  for (Op& op : p.plan.ops)
    if (auto* linear = std::get_if<LinearOp>(&op.kind)) linear->has_int8_activations = true;
  p.plan.head.product.has_int8_activations = true;
  return p;
}

std::vector<TokenId> block_ids(std::int64_t count) {
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<TokenId>(i * 11 % kBlockTokens));
  return ids;
}

// The logits of the first of block_ids by the interpreter, which are slow: of as many as any row of a test
// has.
std::vector<double> wanted_logits(const BlockPlan& p, std::int64_t count, std::int64_t int8_group = 0) {
  test::PlanInterpreter interpreter(p);
  interpreter.int8_group = int8_group;
  return interpreter.logits(block_ids(count));
}
std::vector<float> block_logits(const BlockPlan& p, Backend& backend, std::int64_t count) {
  return test::all_logits(*backend.prepare(p.plan, p), block_ids(count));
}
// The largest difference of each of so many tokens' logits from those that are wanted, by the deviation of
// all.
std::vector<double> block_errors(const std::vector<float>& got, std::int64_t count,
                                 const std::vector<double>& all_wanted) {
  const std::span wanted = std::span(all_wanted).first(static_cast<std::size_t>(count * kBlockTokens));
  double squares = 0;
  for (const double value : wanted) squares += value * value;
  const double deviation = std::sqrt(squares / static_cast<double>(wanted.size()));
  std::vector<double> most(static_cast<std::size_t>(count), 0.0);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    most[i / kBlockTokens] =
        std::max(most[i / kBlockTokens], std::fabs(static_cast<double>(got[i]) - wanted[i]) / deviation);
  return most;
}
double block_error(const BlockPlan& p, Backend& backend, std::int64_t count,
                   const std::vector<double>& wanted) {
  const std::vector<double> errors = block_errors(block_logits(p, backend, count), count, wanted);
  return *std::max_element(errors.begin(), errors.end());
}

std::shared_ptr<Backend> block_gpu(CudaGemm gemm = CudaGemm::own) {
  return make_cuda_backend(Device{Device::Kind::cuda, 0}, cuda::make_emulated_runtime(), {.gemm = gemm});
}

void expect_same_bits_in_any_batch(const BlockPlan& p,
                                   const std::vector<std::shared_ptr<Backend>>& backends) {
  for (const auto& backend : backends) {
    const auto program = backend->prepare(p.plan, p);
    const std::vector<TokenId> ids = block_ids(40);
    const std::vector<float> together = test::all_logits(*program, ids);
    for (const std::size_t count : {1U, 3U, 11U})
      for (const std::size_t at : {0U, 5U, 29U}) {
        const std::vector<TokenId> few(ids.begin() + static_cast<std::ptrdiff_t>(at),
                                       ids.begin() + static_cast<std::ptrdiff_t>(at + count));
        const std::vector<float> alone = test::all_logits(*program, few);
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                               together.begin() + static_cast<std::ptrdiff_t>(at * kBlockTokens)))
            << backend->kernels() << ", " << at << ", " << count;
      }
  }
}

// Tokens at once take other paths.
constexpr std::int64_t kRows[] = {1, 2, 7, 70}, kMostRows = 70;

class BlockFormats : public testing::TestWithParam<std::uint32_t> {
 protected:
  const ggml::BlockType& type_ = *ggml::block_type(GetParam());
};

TEST_P(BlockFormats, GiveTheLogitsOfLlamaCppsNumbers) {
  for (const Multiply multiply : {Multiply::float32, Multiply::bfloat16}) {
    const BlockPlan p = block_plan(type_, multiply);
    const std::vector<double> wanted = wanted_logits(p, kMostRows);
    for (const std::int64_t rows : kRows)
      for (const Isa isa : test::usable_isas())
        EXPECT_LE(block_error(p, *test::cpu_backend(isa), rows, wanted),
                  multiply == Multiply::float32 ? 1e-5 : 0.1)
            << name_of(isa) << ", " << rows << " tokens, " << name_of(multiply);
  }
}

// An activation of the second matrix may lie so near the middle of two codes that the emulation in double
// precision takes the other: of few tokens. Without groups of 32, or without codes, all are off.
TEST_P(BlockFormats, Int8ActivationsGiveTheLogitsOfAnEmulation) {
  const BlockPlan p = int8_block_plan(type_), narrow = int8_block_plan(type_, Multiply::bfloat16);
  std::map<std::int64_t, std::vector<double>> wanted;
  for (const std::int64_t group : {0, 32, 64}) wanted[group] = wanted_logits(p, kMostRows, group);
  for (const std::int64_t rows : kRows)
    for (const Isa isa : test::usable_isas()) {
      const std::vector<float> got = block_logits(p, *test::cpu_backend(isa), rows);
      const auto beyond = [&](std::int64_t group) {
        const std::vector<double> errors = block_errors(got, rows, wanted.at(group));
        EXPECT_LE(*std::max_element(errors.begin(), errors.end()), 0.2);
        return std::count_if(errors.begin(), errors.end(), [](double error) { return error > 1e-5; });
      };
      EXPECT_LE(beyond(32), rows / 20) << name_of(isa) << ", " << rows << " tokens";
      for (const std::int64_t other : {0, 64}) EXPECT_EQ(beyond(other), rows) << other;
    }
  const std::vector<double> of_narrow = wanted_logits(narrow, 7);
  for (const Isa isa : test::usable_isas())
    EXPECT_LE(block_error(narrow, *test::cpu_backend(isa), 7, of_narrow), 0.1) << name_of(isa);
}

TEST_P(BlockFormats, AGpuRefusesInt8Activations) {
  const BlockPlan p = int8_block_plan(type_);
  try {
    block_gpu()->prepare(p.plan, p);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("the CUDA backend does not multiply int8 activations by " + name_of(*type_.format)),
              std::string::npos)
        << error.what();
  }
}

TEST_P(BlockFormats, ATokenHasTheSameBitsInAnyBatch) {
  for (const bool has_int8_activations : {false, true}) {
    const BlockPlan p = has_int8_activations ? int8_block_plan(type_) : block_plan(type_);
    std::vector<std::shared_ptr<Backend>> backends;
    if (!has_int8_activations) backends.push_back(block_gpu());
    for (const Isa isa : test::usable_isas()) backends.push_back(test::cpu_backend(isa));
    expect_same_bits_in_any_batch(p, backends);
  }
}

TEST_P(BlockFormats, GiveTheSameOnAGpu) {
  for (const Multiply multiply : {Multiply::float32, Multiply::bfloat16, Multiply::float16}) {
    const BlockPlan p = block_plan(type_, multiply);
    const std::vector<double> wanted = wanted_logits(p, 7);
    for (const std::int64_t rows : {1, 7})
      for (const CudaGemm gemm : {CudaGemm::own, CudaGemm::cublaslt})
        EXPECT_LE(block_error(p, *block_gpu(gemm), rows, wanted), multiply == Multiply::float32 ? 1e-5 : 0.1)
            << rows << " tokens, " << name_of(multiply) << ", " << static_cast<int>(gemm);
  }
}

TEST_P(BlockFormats, TakeTheBytesOfTheFile) {
  const BlockPlan p = block_plan(type_);
  const ggml::BlockType& held = type_.name == "TQ1_0" ? *ggml::block_type(35) : type_;
  const std::int64_t elements = kBlockTokens * kBlockInputs + 2 * kBlockInner * kBlockInputs;
  for (const auto& backend : {test::cpu_backend(Isa::scalar), block_gpu()})
    EXPECT_EQ(backend->prepare(p.plan, p)->memory().weights.value, elements / held.elements * held.bytes)
        << backend->device().text();
}

INSTANTIATE_TEST_SUITE_P(All, BlockFormats, testing::ValuesIn(kBlockTypes),
                         [](const auto& of) { return std::string(ggml::block_type(of.param)->name); });

TEST(BlockFormatErrors, WeightsAreQuantizedToSomeOfThemAndPartsAreComplete) {
  const auto refusal_of = [](Backend& backend, const BlockPlan& p) -> std::string {
    try {
      backend.prepare(p.plan, p);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (const auto& backend : {test::cpu_backend(Isa::scalar), block_gpu()}) {
    constexpr std::uint32_t kIq4Xs = 23, kQ4_0 = 2;
    BlockPlan made = block_plan(*ggml::block_type(kIq4Xs));
    made.plan.weights[1].is_stored_quantized = false;
    EXPECT_EQ(refusal_of(*backend, made),
              "weight 'w1': weights are not quantized to iq4_xs, which checkpoints hold");
    BlockPlan odd = block_plan(*ggml::block_type(kQ4_0));
    odd.plan.weights[1].is_stored_quantized = false;
    odd.plan.weights[1].columns = 48;
    EXPECT_EQ(refusal_of(*backend, odd),
              "weight 'w1': expected a multiple of 32 inputs, which a block of q4_0 has, found 48");
    BlockPlan lacking = block_plan(*ggml::block_type(14));
    lacking.loses_a_factor = true;
    EXPECT_NE(refusal_of(*backend, lacking).find("super-blocks, found"), std::string::npos);
  }
}

}  // namespace
}  // namespace assay
