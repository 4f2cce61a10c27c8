#include "assay/quant/ggml_quantize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "assay/quant/ggml_search.h"
#include "assay/tensor/half.h"

namespace assay::ggml {

namespace {

constexpr int kSmallBlock = 32;
enum class Level { f32, f16, bf16, q8_0, symmetric, with_minimum, searched };

struct WrittenType {
  std::string_view name;
  Level level;
  int bits = 0;
};
// In the order of their ids.
constexpr WrittenType kWrittenTypes[] = {{"F32", Level::f32},           {"F16", Level::f16},
                                         {"Q4_0", Level::symmetric, 4}, {"Q4_1", Level::with_minimum, 4},
                                         {"Q5_0", Level::symmetric, 5}, {"Q5_1", Level::with_minimum, 5},
                                         {"Q8_0", Level::q8_0},         {"Q4_K", Level::searched, 4},
                                         {"Q5_K", Level::searched, 5},  {"Q6_K", Level::searched, 6},
                                         {"BF16", Level::bf16}};

const WrittenType* written(const BlockType& type) {
  const auto* at = std::find_if(std::begin(kWrittenTypes), std::end(kWrittenTypes),
                                [&](const WrittenType& each) { return each.name == type.name; });
  return at == std::end(kWrittenTypes) ? nullptr : at;
}

void put_half(float value, std::byte* at) {
  const std::uint16_t half = float_to_f16(value);
  std::memcpy(at, &half, sizeof half);
}

float reciprocal(float d) {
  return d != 0 ? 1.0F / d : 0.0F;
}

// The low four bits of a block's codes in nibbles, the first half in the low ones; of five bits, the fifth of
// element e in bit e of the word before them.
void put_small_codes(int bits, const std::uint8_t* codes, std::byte* at) {
  if (bits == 5) {
    std::uint32_t high = 0;
    for (int e = 0; e < kSmallBlock; ++e) high |= static_cast<std::uint32_t>(codes[e] >> 4) << e;
    std::memcpy(at, &high, sizeof high);
    at += sizeof high;
  }
  for (int e = 0; e < kSmallBlock / 2; ++e)
    at[e] = static_cast<std::byte>((codes[e] & 15) | (codes[e + kSmallBlock / 2] & 15) << 4);
}

void quantize_q8_0(const float* x, std::byte* block) {
  float largest = 0;
  for (int e = 0; e < kSmallBlock; ++e) largest = std::max(largest, std::abs(x[e]));
  const float d = largest / 127, inverse = reciprocal(d);
  put_half(d, block);
  for (int e = 0; e < kSmallBlock; ++e)
    block[2 + e] = static_cast<std::byte>(static_cast<std::int8_t>(std::round(x[e] * inverse)));
}

// The number of largest magnitude becomes the lowest level, whatever its sign.
void quantize_symmetric(int bits, const float* x, std::byte* block) {
  const int half = 1 << (bits - 1), most = 2 * half - 1;
  float largest = 0, signed_largest = 0;
  for (int e = 0; e < kSmallBlock; ++e)
    if (std::abs(x[e]) > largest) largest = std::abs(x[e]), signed_largest = x[e];
  const float d = signed_largest / static_cast<float>(-half), inverse = reciprocal(d);
  std::uint8_t codes[kSmallBlock];
  for (int e = 0; e < kSmallBlock; ++e)
    codes[e] = static_cast<std::uint8_t>(
        std::min(most, static_cast<int>(x[e] * inverse + (static_cast<float>(half) + 0.5F))));
  put_half(d, block);
  put_small_codes(bits, codes, block + 2);
}

void quantize_with_minimum(int bits, const float* x, std::byte* block) {
  const int most = (1 << bits) - 1;
  const auto [low, high] = std::minmax_element(x, x + kSmallBlock);
  const float d = (*high - *low) / static_cast<float>(most), inverse = reciprocal(d);
  std::uint8_t codes[kSmallBlock];
  for (int e = 0; e < kSmallBlock; ++e)
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): of numbers from 0 on, as ggml rounds them
    codes[e] = static_cast<std::uint8_t>(std::min(most, static_cast<int>((x[e] - *low) * inverse + 0.5F)));
  put_half(d, block);
  put_half(*low, block + 2);
  put_small_codes(bits, codes, block + 4);
}

void write_plain(Level level, std::span<const float> values, std::byte* out) {
  if (level == Level::f32) {
    std::memcpy(out, values.data(), values.size_bytes());
    return;
  }
  for (const float x : values) {
    const std::uint16_t half = level == Level::f16 ? float_to_f16(x) : float_to_bf16(x);
    std::memcpy(out, &half, sizeof half);
    out += sizeof half;
  }
}

}  // namespace

const BlockType* block_type_named(std::string_view name) {
  constexpr std::uint32_t kIds = 64;
  const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
  for (std::uint32_t id = 0; id < kIds; ++id)
    if (const BlockType* type = block_type(id);
        type != nullptr && std::equal(name.begin(), name.end(), type->name.begin(), type->name.end(),
                                      [&](char a, char b) { return upper(a) == b; }))
      return type;
  return nullptr;
}

bool can_quantize(const BlockType& type) {
  return written(type) != nullptr;
}

std::vector<std::string> quantized_types() {
  std::vector<std::string> names;
  for (const WrittenType& each : kWrittenTypes) names.emplace_back(each.name);
  return names;
}

void quantize(const BlockType& type, std::int64_t columns, std::span<const float> values,
              std::span<const float> importance, std::byte* blocks) {
  const WrittenType& how = *written(type);
  assert(columns % type.elements == 0 && values.size() % static_cast<std::size_t>(columns) == 0);
  if (how.level == Level::f32 || how.level == Level::f16 || how.level == Level::bf16)
    return write_plain(how.level, values, blocks);
  for (std::size_t at = 0; at < values.size(); at += static_cast<std::size_t>(type.elements)) {
    const float* x = values.data() + at;
    const float* weights =
        importance.empty() ? nullptr : importance.data() + at % static_cast<std::size_t>(columns);
    if (how.level == Level::q8_0) quantize_q8_0(x, blocks);
    if (how.level == Level::symmetric) quantize_symmetric(how.bits, x, blocks);
    if (how.level == Level::with_minimum) quantize_with_minimum(how.bits, x, blocks);
    if (how.level == Level::searched) search_super_block(how.bits, x, weights, blocks);
    blocks += type.bytes;
  }
}

}  // namespace assay::ggml
