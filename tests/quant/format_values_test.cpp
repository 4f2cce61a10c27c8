// A format is a value: its names, bits and bytes follow from what it is made of.
#include <gtest/gtest.h>

#include "assay/quant/format.h"
#include "assay/quant/quantizer.h"

namespace assay {
namespace {

constexpr WeightFormat kQ4K = {.element = ElementType::integer,
                               .bits = 4,
                               .scale = ScaleType::bits6,
                               .inputs_per_scale = 32,
                               .offset = Offset::minimum,
                               .inputs_per_super_block = 256,
                               .super_scale = ScaleType::float16};

TEST(WeightFormat, NamedOnesKeepTheirBits) {
  EXPECT_EQ(bits_per_weight(formats::kFloat32), 32);
  EXPECT_EQ(bits_per_weight(formats::kBfloat16), 16);
  EXPECT_EQ(bits_per_weight(formats::kFloat16), 16);
  EXPECT_EQ(bits_per_weight(formats::kInt8), 8);
  EXPECT_EQ(bits_per_weight(formats::kLlmInt8), 8);
  EXPECT_EQ(bits_per_weight(formats::kNf4), 4.5);
  EXPECT_EQ(bits_per_weight(formats::kFp4Dq), 4.5);
  EXPECT_EQ(bits_per_weight(formats::kInt4G128), 4.25);
  EXPECT_EQ(bits_per_weight(with_scale(formats::kNf4, ScaleType::bfloat16)), 4.25);
}

// Bits per weight as llama.cpp, GPTQ and compressed-tensors count them.
TEST(WeightFormat, BitsOfOtherProgramsFormatsFollowFromTheirParts) {
  const auto integer = [](int bits, ScaleType scale, std::int64_t inputs) {
    return WeightFormat{
        .element = ElementType::integer, .bits = bits, .scale = scale, .inputs_per_scale = inputs};
  };
  EXPECT_EQ(bits_per_weight(integer(8, ScaleType::float16, 32)), 8.5) << "Q8_0";
  EXPECT_EQ(bits_per_weight(integer(4, ScaleType::float16, 32)), 4.5) << "Q4_0";
  EXPECT_EQ(bits_per_weight(kQ4K), 4.5) << "Q4_K";
  WeightFormat q2_k = kQ4K;
  q2_k.bits = 2;
  q2_k.scale = ScaleType::bits4;
  q2_k.inputs_per_scale = 16;
  EXPECT_EQ(bits_per_weight(q2_k), 2.625) << "Q2_K";
  WeightFormat q6_k = integer(6, ScaleType::int8, 16);
  q6_k.inputs_per_super_block = 256;
  q6_k.super_scale = ScaleType::float16;
  EXPECT_EQ(bits_per_weight(q6_k), 6.5625) << "Q6_K";
  WeightFormat q4_1 = integer(4, ScaleType::float16, 32);
  q4_1.offset = Offset::minimum;
  EXPECT_EQ(bits_per_weight(q4_1), 5) << "Q4_1";
  WeightFormat gptq = integer(4, ScaleType::float16, 128);
  gptq.offset = Offset::zero_point;
  EXPECT_EQ(bits_per_weight(gptq), 4 + 20.0 / 128) << "GPTQ";
  const WeightFormat mxfp4 = {
      .element = ElementType::e2m1, .bits = 4, .scale = ScaleType::e8m0, .inputs_per_scale = 32};
  EXPECT_EQ(bits_per_weight(mxfp4), 4.25);
  const WeightFormat fp8 = {.element = ElementType::e4m3,
                            .bits = 8,
                            .scale = ScaleType::float32,
                            .inputs_per_scale = 128,
                            .outputs_per_scale = 128};
  EXPECT_EQ(bits_per_weight(fp8), 8 + 32.0 / (128 * 128));
}

TEST(WeightFormat, BytesCountScalesOfOutputsAndMatrices) {
  EXPECT_EQ(stored_bytes(formats::kInt8, 3, 5).value, 15 + 3 * 4);
  EXPECT_EQ(stored_bytes(formats::kNf4, 64, 64).value, 64 * 64 / 2 + 64 * 4);
  EXPECT_EQ(stored_bytes(formats::kFloat32, 3, 5).value, 60);
  WeightFormat per_matrix = formats::kInt8;
  per_matrix.outputs_per_scale = 0;
  EXPECT_EQ(stored_bytes(per_matrix, 3, 5).value, 15 + 4);
  EXPECT_EQ(stored_bytes(kQ4K, 2, 256).value, 2 * 144);
}

TEST(WeightFormat, IsFoundByNameAndDescribedWithoutOne) {
  for (const std::string& name : weight_format_names())
    EXPECT_EQ(recipe_name_of(weight_format_from_name(name).value()), name);
  EXPECT_EQ(weight_format_from_name("NF4-DQ"), formats::kNf4Dq);
  EXPECT_EQ(name_of(formats::kLlmInt8), "int8");
  EXPECT_EQ(name_of(with_scale(formats::kNf4, ScaleType::bfloat16)), "nf4");
  EXPECT_EQ(name_of(with_block(formats::kFp4Dq, 128)), "fp4-dq with blocks of 128");
  EXPECT_EQ(bits_per_weight(with_block(formats::kNf4, 4096)), 4 + 32.0 / 4096);
  EXPECT_EQ(name_of(kQ4K), "q4_k");
  WeightFormat other = kQ4K;
  other.bits = 7;
  EXPECT_EQ(name_of(other), "7-bit integer, 6-bit scale per 32 inputs in super-blocks of 256, minimum");
  EXPECT_EQ(weight_format_from_name("nf5"), std::nullopt);
}

TEST(WeightFormat, OnesThatAreWrittenAreQuantizedTo) {
  EXPECT_TRUE(is_quantized_to(formats::kInt8));
  EXPECT_TRUE(is_quantized_to(with_scale(formats::kNf4, ScaleType::bfloat16)));
  EXPECT_FALSE(is_quantized_to(formats::kFloat32));
  EXPECT_TRUE(is_quantized_to(formats::kQ4_0));
  EXPECT_TRUE(is_quantized_to(formats::kQ2K));
  EXPECT_FALSE(is_quantized_to(formats::kIq4Xs));
  EXPECT_FALSE(is_quantized_to(formats::kMxfp4));
  EXPECT_FALSE(has_wide_scales(formats::kQ4_0));
  EXPECT_EQ(block_inputs(formats::kQ4_0), 32);
  EXPECT_EQ(block_inputs(formats::kQ3K), 256);
  EXPECT_EQ(block_inputs(formats::kNf4), 1);
  EXPECT_EQ(block_inputs(formats::kFloat32), 1);
  EXPECT_FALSE(is_quantized_to(formats::kInt4G32));
  EXPECT_FALSE(holds_stored_scales(formats::kInt4G32));
  EXPECT_TRUE(holds_stored_scales(formats::kQ8_0));
  EXPECT_FALSE(is_int8(formats::kQ8_0));
  EXPECT_FALSE(is_grouped(formats::kLlmInt8));
}

TEST(ScaleLayout, FollowsTheGroups) {
  const ScaleLayout crossing(formats::kNf4, 3, 96);
  EXPECT_EQ(crossing.count, 5);
  EXPECT_EQ(crossing.group, 32);
  EXPECT_EQ(crossing.at(1, 0), 1);
  const ScaleLayout groups(formats::kInt4G128, 3, 200);
  EXPECT_EQ(groups.count, 6);
  EXPECT_EQ(groups.at(2, 130), 5);
  WeightFormat blocks = formats::kInt4G128;
  blocks.outputs_per_scale = 128;
  const ScaleLayout square(blocks, 200, 300);
  EXPECT_EQ(square.count, 2 * 3);
  EXPECT_EQ(square.at(130, 0), 3);
  EXPECT_EQ(ScaleLayout(formats::kInt8, 7, 9).count, 7);
}

}  // namespace
}  // namespace assay
