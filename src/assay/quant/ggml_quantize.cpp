#include "assay/quant/ggml_quantize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "assay/quant/ggml_search.h"
#include "assay/tensor/half.h"

namespace assay::ggml {

namespace {

enum class Level { f32, f16, bf16, q8_0, symmetric, with_minimum, searched, table };

struct WrittenType {
  std::string_view name;
  Level level;
  int bits = 0;
};
// In the order of their ids.
constexpr WrittenType kWrittenTypes[] = {{"F32", Level::f32},           {"F16", Level::f16},
                                         {"Q4_0", Level::symmetric, 4}, {"Q4_1", Level::with_minimum, 4},
                                         {"Q5_0", Level::symmetric, 5}, {"Q5_1", Level::with_minimum, 5},
                                         {"Q8_0", Level::q8_0},         {"Q2_K", Level::searched, 2},
                                         {"Q3_K", Level::searched, 3},  {"Q4_K", Level::searched, 4},
                                         {"Q5_K", Level::searched, 5},  {"Q6_K", Level::searched, 6},
                                         {"IQ4_NL", Level::table, 4},   {"BF16", Level::bf16}};

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

void put_searched(int bits, bool has_minimum, const float* x, const float* weights, std::byte* block) {
  const SmallBlock found = search_small_block(bits, has_minimum, x, weights);
  put_half(found.scale, block);
  if (has_minimum) put_half(found.minimum, block + 2);
  put_small_codes(bits, found.codes, block + (has_minimum ? 4 : 2));
}

// What the squared errors of a row weigh, as ggml's functions for an importance matrix have it: large numbers
// count for more than the importance of their column, but for Q6_K. Blocks are scaled to at most 1, where all
// weigh nothing to 1.
void weigh_row(const WrittenType& how, std::int64_t block, std::span<const float> x,
               std::span<const float> importance, std::vector<float>& weights) {
  const auto mean_square = [](std::span<const float> part) {
    double sum = 0;
    for (const float each : part) sum += static_cast<double>(each) * static_cast<double>(each);
    return sum / static_cast<double>(part.size());
  };
  const bool is_of_block = how.level == Level::searched || how.level == Level::table,
             is_plain = how.level == Level::searched && how.bits == 6;
  const double blocks_variance = how.bits == 2 ? 1 : 2;  // times the mean square of a block
  double variance = is_of_block ? 0 : mean_square(x);
  weights.resize(x.size());
  for (std::size_t at = 0; at < x.size(); at += static_cast<std::size_t>(block)) {
    const std::span<const float> own = x.subspan(at, static_cast<std::size_t>(block));
    if (is_of_block) variance = blocks_variance * mean_square(own);
    double largest = 0;
    const auto weight = [&](std::size_t i) {
      const double more = variance + static_cast<double>(own[i]) * static_cast<double>(own[i]);
      return static_cast<double>(importance[at + i]) * (is_plain ? 1 : std::sqrt(more));
    };
    for (std::size_t i = 0; i < own.size(); ++i) largest = std::max(largest, weight(i));
    for (std::size_t i = 0; i < own.size(); ++i)
      weights[at + i] = largest > 0 ? static_cast<float>(weight(i) / largest) : 1.0F;
  }
}

void put_table_codes(const float* x, const float* weights, std::byte* block) {
  const SmallBlock found = search_iq4_nl(x, weights);
  put_half(found.scale, block);
  put_small_codes(4, found.codes, block + 2);
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

const BlockType* written_type(const WeightFormat& format) {
  for (const WrittenType& each : kWrittenTypes)
    if (const BlockType* type = block_type_named(each.name); type->format == format) return type;
  return nullptr;
}

const BlockType& fitting_type(const BlockType& type, std::int64_t columns) {
  const auto fits = [&](const BlockType& each) { return columns % each.elements == 0; };
  if (fits(type)) return type;
  constexpr std::pair<std::string_view, std::string_view> kNext[] = {
      {"Q2_K", "Q4_0"}, {"Q3_K", "Q4_0"}, {"Q4_K", "Q5_0"}, {"Q5_K", "Q5_1"}, {"Q6_K", "Q8_0"}};
  for (const auto& [name, next] : kNext)
    if (const BlockType& other = *block_type_named(next); name == type.name && fits(other)) return other;
  return *block_type_named("F16");
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
  const auto width = static_cast<std::size_t>(columns);
  std::vector<float> weights;
  for (std::size_t at = 0; at < values.size(); at += static_cast<std::size_t>(type.elements)) {
    const float* x = values.data() + at;
    if (!importance.empty() && at % width == 0)
      weigh_row(how, type.elements, values.subspan(at, width), importance, weights);
    const float* w = importance.empty() ? nullptr : weights.data() + at % width;
    const bool has_minimum = how.level == Level::with_minimum;
    if (how.level == Level::q8_0)
      quantize_q8_0(x, blocks);
    else if (how.level == Level::searched)
      search_super_block(how.bits, x, w, blocks);
    else if (how.level == Level::table)
      put_table_codes(x, w, blocks);
    else if (w != nullptr)
      put_searched(how.bits, has_minimum, x, w, blocks);
    else if (has_minimum)
      quantize_with_minimum(how.bits, x, blocks);
    else
      quantize_symmetric(how.bits, x, blocks);
    blocks += type.bytes;
  }
}

}  // namespace assay::ggml
