// GGUF's block types against llama.cpp's own dequantization (tools/make_ggml_fixtures.py), bit for bit.
#include "assay/quant/ggml_blocks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

#include "assay/quant/code_values.h"
#include "assay/quant/ggml_quantize.h"
#include "assay/tensor/half.h"
#include "support/fixtures.h"

namespace assay {
namespace {

constexpr std::uint32_t kDecoded[] = {2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 34, 35, 39};

class GgmlBlocks : public testing::TestWithParam<std::uint32_t> {
 protected:
  GgmlBlocks() {
    static const SafetensorsFile file(test::fixture("ggml_blocks.safetensors"));
    const StoredTensor& stored = *file.find(std::string(type_.name) + ".blocks");
    blocks_.resize(static_cast<std::size_t>(stored.elements()));
    file.read(stored, 0, stored.elements(), blocks_);
    wanted_ = test::read_floats(file, std::string(type_.name) + ".values");
  }
  std::int64_t groups() const {
    return static_cast<std::int64_t>(wanted_.size()) / type_.format->inputs_per_scale;
  }

  const ggml::BlockType& type_ = *ggml::block_type(GetParam());
  std::vector<std::byte> blocks_;
  std::vector<float> wanted_;
};

bool has_same_bits(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

TEST_P(GgmlBlocks, GiveTheBitsOfLlamaCpp) {
  ASSERT_EQ(static_cast<std::int64_t>(blocks_.size()) / type_.bytes * type_.elements,
            static_cast<std::int64_t>(wanted_.size()));
  std::vector<float> values(wanted_.size());
  ggml::dequantize(type_, blocks_, values.data());
  for (std::size_t i = 0; i < wanted_.size(); ++i)
    ASSERT_TRUE(has_same_bits(values[i], wanted_[i])) << i << ": " << values[i] << ", " << wanted_[i];
}

TEST_P(GgmlBlocks, CodesTimesScalesAndOffsetsAreTheValues) {
  std::vector<std::uint8_t> codes(wanted_.size());
  const auto count = static_cast<std::size_t>(groups());
  std::vector<float> scales(count), offsets(count);
  ggml::read_codes(type_, blocks_, codes.data());
  const bool has_offsets = type_.format->offset == Offset::minimum;
  ggml::read_scales(type_, blocks_, scales.data(), has_offsets ? offsets.data() : nullptr);
  const std::vector<float> book = code_values(*type_.format);
  const auto per_group = static_cast<std::size_t>(type_.format->inputs_per_scale);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const float scaled = book.at(codes[i]) * scales[i / per_group];
    ASSERT_TRUE(has_same_bits(has_offsets ? scaled + offsets[i / per_group] : scaled, wanted_[i])) << i;
  }
  const std::set<std::uint8_t> all(codes.begin(), codes.end());
  if (type_.elements == 32) return;  // too few for every code
  EXPECT_EQ(all.size(), type_.name == "TQ1_0" ? 3U : book.size());
}

TEST_P(GgmlBlocks, ScalesOfSuperBlocksAreTheirParts) {
  const WeightFormat& format = *type_.format;
  if (format.inputs_per_super_block == 0) return;
  const auto count = static_cast<std::size_t>(groups());
  const std::size_t blocks = blocks_.size() / static_cast<std::size_t>(type_.bytes), each = count / blocks;
  std::vector<float> scales(count), offsets(count);
  const bool has_minima = format.offset == Offset::minimum;
  ggml::read_scales(type_, blocks_, scales.data(), offsets.data());
  std::vector<std::uint8_t> codes(count), minima(count);
  std::vector<std::uint16_t> factors(blocks), minimum_factors(blocks);
  ggml::read_super_blocks(type_, blocks_,
                          {codes.data(), has_minima ? minima.data() : nullptr, factors.data(),
                           has_minima ? minimum_factors.data() : nullptr});
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(scales[i], scale_code_value(format, codes[i]) * f16_to_float(factors[i / each]));
    if (!has_minima) continue;
    EXPECT_EQ(offsets[i], -static_cast<float>(minima[i]) * f16_to_float(minimum_factors[i / each]));
  }
}

TEST_P(GgmlBlocks, TakeTheBytesThatTheirFormatCounts) {
  if (type_.name == "TQ1_0") return;  // held as TQ2_0, which is larger
  EXPECT_EQ(bits_per_weight(*type_.format) * static_cast<double>(type_.elements),
            static_cast<double>(type_.bytes * 8));
  EXPECT_TRUE(is_grouped(*type_.format));
  EXPECT_EQ(is_quantized_to(*type_.format), ggml::can_quantize(type_));
  std::string name(type_.name);
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  EXPECT_EQ(name_of(*type_.format), name);
}

INSTANTIATE_TEST_SUITE_P(All, GgmlBlocks, testing::ValuesIn(kDecoded),
                         [](const auto& of) { return std::string(ggml::block_type(of.param)->name); });

TEST(GgmlTypes, PlainNumbersAreWidened) {
  const std::uint16_t half = float_to_f16(-1.5F), brain = float_to_bf16(3.25F);
  const float number = 0.1F;
  const auto value_of = [](std::uint32_t id, const auto& stored) {
    float value = 0;
    ggml::dequantize(*ggml::block_type(id), std::as_bytes(std::span(&stored, 1)), &value);
    return value;
  };
  EXPECT_EQ(value_of(0, number), number);
  EXPECT_EQ(value_of(1, half), -1.5F);
  EXPECT_EQ(value_of(30, brain), 3.25F);
  for (const std::uint32_t id : {0U, 1U, 30U}) EXPECT_FALSE(ggml::block_type(id)->format);
}

TEST(GgmlTypes, OthersAreKnownOrRefused) {
  for (const std::uint32_t id : {4U, 5U, 9U, 15U, 31U, 33U, 36U, 38U, 43U, 4000000000U})
    EXPECT_EQ(ggml::block_type(id), nullptr) << id;
  for (const std::uint32_t id : {16U, 17U, 18U, 19U, 21U, 22U, 24U, 28U, 29U, 40U, 41U, 42U}) {
    ASSERT_NE(ggml::block_type(id), nullptr) << id;
    EXPECT_FALSE(ggml::block_type(id)->refused_because.empty()) << id;
    EXPECT_FALSE(ggml::block_type(id)->format) << id;
  }
  for (const std::uint32_t id : kDecoded) EXPECT_TRUE(ggml::block_type(id)->refused_because.empty());
}

TEST(GgmlTypes, AnExponentThatIsNoNumberStaysVisible) {
  std::vector<std::byte> block(17, std::byte{0x21});
  block[0] = std::byte{255};
  std::vector<float> values(32);
  ggml::dequantize(*ggml::block_type(39), block, values.data());
  for (const float value : values) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace assay
