#include "assay/quant/ggml_blocks.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "assay/quant/code_values.h"
#include "assay/tensor/half.h"

namespace assay::ggml {

namespace {

constexpr std::string_view kNeedsGrid = "it needs llama.cpp's tables of grid points, which are not built in",
                           kNeedsNvfp4 = "it needs e4m3 scales beside a scale of the tensor",
                           kNeedsBinary = "it needs codes of one bit without a zero",
                           kNeedsTwoBits = "it needs codes of two bits that stand for -1 to 2",
                           kNotWeights = "weights are not stored in it";

// Ids 4, 5, 31 to 33 and 36 to 38 were removed. Q8_1 (9) and Q8_K (15) never are in files.
constexpr BlockType kTypes[] = {
    {0, "F32", 1, 4, {}, {}},
    {1, "F16", 1, 2, {}, {}},
    {2, "Q4_0", 32, 18, formats::kQ4_0, {}},
    {3, "Q4_1", 32, 20, formats::kQ4_1, {}},
    {6, "Q5_0", 32, 22, formats::kQ5_0, {}},
    {7, "Q5_1", 32, 24, formats::kQ5_1, {}},
    {8, "Q8_0", 32, 34, formats::kQ8_0, {}},
    {10, "Q2_K", 256, 84, formats::kQ2K, {}},
    {11, "Q3_K", 256, 110, formats::kQ3K, {}},
    {12, "Q4_K", 256, 144, formats::kQ4K, {}},
    {13, "Q5_K", 256, 176, formats::kQ5K, {}},
    {14, "Q6_K", 256, 210, formats::kQ6K, {}},
    {16, "IQ2_XXS", 256, 66, {}, kNeedsGrid},
    {17, "IQ2_XS", 256, 74, {}, kNeedsGrid},
    {18, "IQ3_XXS", 256, 98, {}, kNeedsGrid},
    {19, "IQ1_S", 256, 50, {}, kNeedsGrid},
    {20, "IQ4_NL", 32, 18, formats::kIq4Nl, {}},
    {21, "IQ3_S", 256, 110, {}, kNeedsGrid},
    {22, "IQ2_S", 256, 82, {}, kNeedsGrid},
    {23, "IQ4_XS", 256, 136, formats::kIq4Xs, {}},
    {24, "I8", 1, 1, {}, kNotWeights},
    {25, "I16", 1, 2, {}, kNotWeights},
    {26, "I32", 1, 4, {}, kNotWeights},
    {27, "I64", 1, 8, {}, kNotWeights},
    {28, "F64", 1, 8, {}, kNotWeights},
    {29, "IQ1_M", 256, 56, {}, kNeedsGrid},
    {30, "BF16", 1, 2, {}, {}},
    {34, "TQ1_0", 256, 54, formats::kTq1_0, {}},
    {35, "TQ2_0", 256, 66, formats::kTq2_0, {}},
    {39, "MXFP4", 32, 17, formats::kMxfp4, {}},
    {40, "NVFP4", 64, 36, {}, kNeedsNvfp4},
    {41, "Q1_0", 128, 18, {}, kNeedsBinary},
    {42, "Q2_0", 64, 18, {}, kNeedsTwoBits},
};
enum Id : std::uint32_t {
  kIdF32 = 0,
  kIdF16 = 1,
  kIdQ4_0 = 2,
  kIdQ4_1 = 3,
  kIdQ5_0 = 6,
  kIdQ5_1 = 7,
  kIdQ8_0 = 8,
  kIdQ2K = 10,
  kIdQ3K = 11,
  kIdQ4K = 12,
  kIdQ5K = 13,
  kIdQ6K = 14,
  kIdIq4Nl = 20,
  kIdIq4Xs = 23,
  kIdBf16 = 30,
  kIdTq1_0 = 34,
  kIdTq2_0 = 35,
  kIdMxfp4 = 39
};

constexpr std::int64_t kMostElements = 256, kMostGroups = 16;

int byte_of(std::byte b) {
  return std::to_integer<int>(b);
}
std::uint16_t half_of(const std::byte* at) {
  return static_cast<std::uint16_t>(byte_of(at[0]) | byte_of(at[1]) << 8);
}

// Codes in nibbles: of 2 * half elements the first half in the low ones.
void take_nibbles(const std::byte* q, int half, std::uint8_t* codes) {
  for (int i = 0; i < half; ++i) {
    codes[i] = static_cast<std::uint8_t>(byte_of(q[i]) & 15);
    codes[i + half] = static_cast<std::uint8_t>(byte_of(q[i]) >> 4);
  }
}

// A fifth bit beside each nibble, element e's being bit e of a little-endian word.
void take_five_bits(const std::byte* high, const std::byte* q, std::uint8_t* codes) {
  take_nibbles(q, 16, codes);
  for (int e = 0; e < 32; ++e)
    codes[e] = static_cast<std::uint8_t>(codes[e] | (byte_of(high[e / 8]) >> e % 8 & 1) << 4);
}

// Two bits each: byte 32 * (e / 128) + e % 32 holds elements e, e + 32, e + 64 and e + 96 of its half.
int two_bits_of(const std::byte* q, int e) {
  return byte_of(q[32 * (e / 128) + e % 32]) >> 2 * (e % 128 / 32) & 3;
}

void take_k_nibbles(const std::byte* q, std::uint8_t* codes) {
  for (int e = 0; e < 256; e += 64) take_nibbles(q + e / 2, 32, codes + e);
}

void take_six_bits(const std::byte* block, std::uint8_t* codes) {
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128, part = e % 128 / 32, l = e % 32;
    const int low = byte_of(block[64 * half + l + 32 * (part & 1)]) >> (part < 2 ? 0 : 4) & 15;
    codes[e] = static_cast<std::uint8_t>(low | two_bits_of(block + 128, e) << 4);
  }
}

// Base 3: a byte holds five digits as a fraction of 256, the first the most significant.
void take_ternary(const std::byte* block, std::uint8_t* codes) {
  static constexpr int kPowers[] = {1, 3, 9, 27, 81};
  const auto digit = [](std::byte b, int place) {
    return static_cast<std::uint8_t>((byte_of(b) * kPowers[place] & 255) * 3 >> 8);
  };
  for (int e = 0; e < 160; ++e) codes[e] = digit(block[e % 32], e / 32);
  for (int e = 160; e < 240; ++e) codes[e] = digit(block[32 + (e - 160) % 16], (e - 160) / 16);
  for (int e = 240; e < 256; ++e) codes[e] = digit(block[48 + (e - 240) % 4], (e - 240) / 4);
}

void take_codes(std::uint32_t id, const std::byte* b, std::uint8_t* codes) {
  switch (id) {
    case kIdQ4_0:
    case kIdIq4Nl:
      return take_nibbles(b + 2, 16, codes);
    case kIdQ4_1:
      return take_nibbles(b + 4, 16, codes);
    case kIdMxfp4:
      return take_nibbles(b + 1, 16, codes);
    case kIdQ5_0:
      return take_five_bits(b + 2, b + 6, codes);
    case kIdQ5_1:
      return take_five_bits(b + 4, b + 8, codes);
    case kIdQ8_0:  // two's complement to levels from 0 on
      for (int e = 0; e < 32; ++e) codes[e] = static_cast<std::uint8_t>(byte_of(b[2 + e]) ^ 128);
      return;
    case kIdQ2K:
      for (int e = 0; e < 256; ++e) codes[e] = static_cast<std::uint8_t>(two_bits_of(b + 16, e));
      return;
    case kIdQ3K:
      for (int e = 0; e < 256; ++e)
        codes[e] =
            static_cast<std::uint8_t>(two_bits_of(b + 32, e) | (byte_of(b[e % 32]) >> e / 32 & 1) << 2);
      return;
    case kIdQ4K:
      return take_k_nibbles(b + 16, codes);
    case kIdQ5K:
      take_k_nibbles(b + 48, codes);
      for (int e = 0; e < 256; ++e)
        codes[e] = static_cast<std::uint8_t>(codes[e] | (byte_of(b[16 + e % 32]) >> e / 32 & 1) << 4);
      return;
    case kIdQ6K:
      return take_six_bits(b, codes);
    case kIdIq4Xs:
      for (int e = 0; e < 256; e += 32) take_nibbles(b + 8 + e / 2, 16, codes + e);
      return;
    case kIdTq1_0:
      return take_ternary(b, codes);
    case kIdTq2_0:
      for (int e = 0; e < 256; ++e) codes[e] = static_cast<std::uint8_t>(two_bits_of(b, e));
      return;
    default:
      assert(false);
  }
}

// Six bits each of eight scales and eight minima, in twelve bytes.
void take_k_scales(const std::byte* s, std::uint8_t* scales, std::uint8_t* minima) {
  for (int i = 0; i < 4; ++i) {
    const int first = byte_of(s[i]), second = byte_of(s[i + 4]), third = byte_of(s[i + 8]);
    scales[i] = static_cast<std::uint8_t>(first & 63);
    minima[i] = static_cast<std::uint8_t>(second & 63);
    scales[i + 4] = static_cast<std::uint8_t>((third & 15) | first >> 6 << 4);
    minima[i + 4] = static_cast<std::uint8_t>(third >> 4 | second >> 6 << 4);
  }
}

// Whole numbers of the groups of one block, and where its factors lie.
struct BlockScaleCodes {
  std::uint8_t scales[kMostGroups] = {}, minima[kMostGroups] = {};
  std::uint16_t factor = 0, minimum_factor = 0;
};

BlockScaleCodes scale_codes_of(std::uint32_t id, const std::byte* b) {
  BlockScaleCodes all;
  switch (id) {
    case kIdQ2K:
      for (int k = 0; k < 16; ++k) {
        all.scales[k] = static_cast<std::uint8_t>(byte_of(b[k]) & 15);
        all.minima[k] = static_cast<std::uint8_t>(byte_of(b[k]) >> 4);
      }
      all.factor = half_of(b + 80);
      all.minimum_factor = half_of(b + 82);
      break;
    case kIdQ3K:
      for (int k = 0; k < 16; ++k) {
        const int low = k < 8 ? byte_of(b[96 + k]) & 15 : byte_of(b[96 + k - 8]) >> 4;
        all.scales[k] = static_cast<std::uint8_t>(low | (byte_of(b[104 + k % 4]) >> 2 * (k / 4) & 3) << 4);
      }
      all.factor = half_of(b + 108);
      break;
    case kIdQ4K:
    case kIdQ5K:
      take_k_scales(b + 4, all.scales, all.minima);
      all.factor = half_of(b);
      all.minimum_factor = half_of(b + 2);
      break;
    case kIdQ6K:
      for (int k = 0; k < 16; ++k) all.scales[k] = static_cast<std::uint8_t>(byte_of(b[192 + k]));
      all.factor = half_of(b + 208);
      break;
    case kIdIq4Xs:
      for (int k = 0; k < 8; ++k)
        all.scales[k] = static_cast<std::uint8_t>((byte_of(b[4 + k / 2]) >> 4 * (k % 2) & 15) |
                                                  (half_of(b + 2) >> 2 * k & 3) << 4);
      all.factor = half_of(b);
      break;
    default:
      assert(false);
  }
  return all;
}

// A power of two: 2^(bits - 127), of 0 a subnormal number.
float e8m0_value(std::byte bits) {
  return bits == std::byte{255} ? std::numeric_limits<float>::quiet_NaN()
                                : std::ldexp(1.0F, byte_of(bits) - 127);
}

std::int64_t groups_of(const BlockType& type) {
  return type.elements / type.format->inputs_per_scale;
}
std::int64_t blocks_in(const BlockType& type, std::span<const std::byte> blocks) {
  const auto size = static_cast<std::int64_t>(blocks.size());
  assert(size % type.bytes == 0 && type.refused_because.empty());
  return size / type.bytes;
}

// The scales of one block, and what is added.
void take_scales(const BlockType& type, const std::byte* b, float* scales, float* offsets) {
  const WeightFormat& format = *type.format;
  if (format.inputs_per_super_block > 0) {
    const BlockScaleCodes codes = scale_codes_of(type.id, b);
    const float factor = f16_to_float(codes.factor), minimum_factor = f16_to_float(codes.minimum_factor);
    for (std::int64_t i = 0; i < groups_of(type); ++i) {
      scales[i] = factor * scale_code_value(format, codes.scales[i]);
      if (format.offset == Offset::minimum)
        offsets[i] = -(minimum_factor * static_cast<float>(codes.minima[i]));
    }
    return;
  }
  const std::int64_t at = type.id == kIdTq1_0 ? 52 : type.id == kIdTq2_0 ? 64 : 0;
  *scales = type.id == kIdMxfp4 ? e8m0_value(b[0]) : f16_to_float(half_of(b + at));
  if (format.offset == Offset::minimum) *offsets = f16_to_float(half_of(b + 2));
}

void widen_plain(const BlockType& type, std::span<const std::byte> numbers, float* out) {
  const DType dtype = type.id == kIdF32 ? DType::f32 : type.id == kIdF16 ? DType::f16 : DType::bf16;
  widen(dtype, numbers.data(), static_cast<std::size_t>(blocks_in(type, numbers)), out);
}

}  // namespace

const BlockType* block_type(std::uint32_t id) {
  const auto* at = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [id](const BlockType& each) { return each.id == id; });
  return at == std::end(kTypes) ? nullptr : at;
}

void read_codes(const BlockType& type, std::span<const std::byte> blocks, std::uint8_t* codes) {
  for (std::int64_t i = 0; i < blocks_in(type, blocks); ++i)
    take_codes(type.id, blocks.data() + i * type.bytes, codes + i * type.elements);
}

void read_scales(const BlockType& type, std::span<const std::byte> blocks, float* scales, float* offsets) {
  const std::int64_t groups = groups_of(type);
  for (std::int64_t i = 0; i < blocks_in(type, blocks); ++i)
    take_scales(type, blocks.data() + i * type.bytes, scales + i * groups,
                type.format->offset == Offset::none ? nullptr : offsets + i * groups);
}

void read_super_blocks(const BlockType& type, std::span<const std::byte> blocks, const SuperBlockParts& out) {
  const std::int64_t groups = groups_of(type);
  for (std::int64_t i = 0; i < blocks_in(type, blocks); ++i) {
    const BlockScaleCodes codes = scale_codes_of(type.id, blocks.data() + i * type.bytes);
    std::copy_n(codes.scales, groups, out.scales + i * groups);
    out.scale_factors[i] = codes.factor;
    if (type.format->offset != Offset::minimum) continue;
    std::copy_n(codes.minima, groups, out.minima + i * groups);
    out.minimum_factors[i] = codes.minimum_factor;
  }
}

void dequantize(const BlockType& type, std::span<const std::byte> blocks, float* out) {
  if (!type.format) return widen_plain(type, blocks, out);
  const std::vector<float> values = code_values(*type.format);
  std::array<std::uint8_t, kMostElements> codes;
  std::array<float, kMostGroups> scales, offsets;
  const bool has_offsets = type.format->offset != Offset::none;
  for (std::int64_t i = 0; i < blocks_in(type, blocks); ++i) {
    const std::byte* block = blocks.data() + i * type.bytes;
    take_codes(type.id, block, codes.data());
    take_scales(type, block, scales.data(), offsets.data());
    for (std::int64_t e = 0; e < type.elements; ++e) {
      const auto group = static_cast<std::size_t>(e / type.format->inputs_per_scale);
      const float value = values[codes[static_cast<std::size_t>(e)]] * scales[group];
      *out++ = has_offsets ? value + offsets[group] : value;
    }
  }
}

}  // namespace assay::ggml
