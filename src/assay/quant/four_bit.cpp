#include "assay/quant/four_bit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "assay/base/cpu.h"
#include "assay/quant/magnitude.h"

namespace assay {

namespace {

constexpr std::array<float, 16> kNf4 = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};
constexpr std::array<float, 16> kFp4 = {
    0.0F, 0x1.555556p-8F,  0x1.555556p-1F,  1.0F,  0x1.555556p-2F,  0.5F,  0x1.555556p-3F,  0.25F,
    0.0F, -0x1.555556p-8F, -0x1.555556p-1F, -1.0F, -0x1.555556p-2F, -0.5F, -0x1.555556p-3F, -0.25F,
};

// The codes by ascending value, and the values half-way between neighbours.
struct Order {
  std::array<std::uint8_t, 16> codes;
  std::array<float, 15> bounds;
};
constexpr Order order_of(const std::array<float, 16>& codebook, const std::array<std::uint8_t, 16>& codes) {
  Order order{codes, {}};
  for (std::size_t i = 0; i < 15; ++i) order.bounds[i] = (codebook[codes[i]] + codebook[codes[i + 1]]) / 2;
  return order;
}
constexpr Order kNf4Order = order_of(kNf4, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
constexpr Order kFp4Order = order_of(kFp4, {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3});

// Midpoints of 2^i equal parts of [0.1, 1], times 10^(i - 6), for i from 0 to 6, with both signs, and 0 and
// 1: as PyTorch computes them in float32 (create_dynamic_map of bitsandbytes).
std::array<float, 256> make_dynamic_map() {
  std::array<float, 256> map{};
  std::size_t count = 0;
  for (int i = 0; i < 7; ++i) {
    const int parts = 1 << i;
    const float step = (1.0F - 0.1F) / static_cast<float>(parts);
    const auto boundary = [&](int j) {  // torch.linspace goes from both ends
      return j < (parts + 1) / 2 ? std::fma(step, static_cast<float>(j), 0.1F)
                                 : std::fma(-step, static_cast<float>(parts - j), 1.0F);
    };
    const auto scale = static_cast<float>(std::pow(10.0, i - 6));
    for (int j = 0; j < parts; ++j) {
      const float mean = (boundary(j) + boundary(j + 1)) / 2.0F, value = scale * mean;
      map[count++] = value;
      map[count++] = -value;
    }
  }
  map[count++] = 0;
  map[count++] = 1;
  std::sort(map.begin(), map.end());
  return map;
}

// The nearest value's index, the lower of two that are equally near.
std::uint8_t nearest_of_map(double x) {
  const auto& map = dynamic_map();
  const auto above = std::lower_bound(map.begin(), map.end(), x, [](float value, double limit) {
    return static_cast<double>(value) < limit;
  });
  if (above == map.begin()) return 0;
  if (above == map.end()) return 255;
  const auto at = above - map.begin();
  const auto high = static_cast<double>(*above), low = static_cast<double>(*(above - 1));
  return static_cast<std::uint8_t>(high - x < x - low ? at : at - 1);
}

// bitsandbytes on a CPU rounds to one of 65536 values from -1 to 1 first, and looks the code of that up:
// next to zero, where the map is finer than they are, its codes are not the nearest ones.
std::uint8_t code_of_map(float x) {
  constexpr std::size_t kSteps = 65536;
  constexpr float kHalf = 32767.5F;
  static const std::vector<std::uint8_t> table = [] {
    std::vector<std::uint8_t> codes(kSteps);
    for (std::size_t i = 0; i < kSteps; ++i)
      codes[i] = nearest_of_map(static_cast<double>(i) / static_cast<double>(kHalf) - 1.0);
    return codes;
  }();
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): of numbers from 0 on
  return table[static_cast<std::size_t>((std::clamp(x, -1.0F, 1.0F) + 1.0F) * kHalf + 0.5F)];
}

constexpr float kMin = 1e-38F;
// The scale of a block; `is_whole`: not the shorter one at the end.
[[gnu::always_inline]] inline float scale_of(std::span<const float> part, bool is_whole) {
  const float largest = largest_magnitude(part);
  return is_whole ? largest : std::max(largest, kMin);
}

// The work of quantize_four_bit. Loops of which compilers make vectors, for the widest of the machine:
// without multiply-adds the codes are the same in all of them.
[[gnu::always_inline]] inline void quantize_blocks(FourBit type, std::span<const float> x, std::int64_t block,
                                                   std::uint8_t* codes, float* absmax) {
  const Order& order = type == FourBit::nf4 ? kNf4Order : kFp4Order;
  const auto size = static_cast<std::size_t>(block);
  for (std::size_t first = 0; first < x.size(); first += size) {
    const auto part = x.subspan(first, std::min(size, x.size() - first));
    const bool is_whole = part.size() == size;
    const float largest = scale_of(part, is_whole);
    absmax[first / size] = largest;
    const float inverse = 1.0F / std::max(largest, kMin);
    // How many bounds lie below each.
    constexpr std::size_t kAtOnce = 64;
    for (std::size_t begin = 0; begin < part.size(); begin += kAtOnce) {
      const std::size_t count = std::min(kAtOnce, part.size() - begin);
      float scaled[kAtOnce] = {};
      std::int32_t rank[kAtOnce] = {};
      for (std::size_t i = 0; i < count; ++i)
        scaled[i] = is_whole ? part[begin + i] * inverse : part[begin + i] / largest;
      for (const float bound : order.bounds)
        for (std::size_t i = 0; i < kAtOnce; ++i) rank[i] += scaled[i] > bound ? 1 : 0;
      std::uint8_t* out = codes + first + begin;
      for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(rank[i]);
      if (type == FourBit::fp4)  // whose codes are not in the order of their values
        for (std::size_t i = 0; i < count; ++i) out[i] = order.codes[out[i]];
    }
  }
}

using QuantizeBlocks = void (*)(FourBit type, std::span<const float> x, std::int64_t block,
                                std::uint8_t* codes, float* absmax);
void quantize_blocks_baseline(FourBit type, std::span<const float> x, std::int64_t block, std::uint8_t* codes,
                              float* absmax) {
  quantize_blocks(type, x, block, codes, absmax);
}
[[gnu::target("avx2")]] void quantize_blocks_avx2(FourBit type, std::span<const float> x, std::int64_t block,
                                                  std::uint8_t* codes, float* absmax) {
  quantize_blocks(type, x, block, codes, absmax);
}
#if defined(__clang__)  // which does not know how to ask for the width
#define ASSAY_AVX512_TARGET "avx512f,avx512bw,avx512vl"
#else
#define ASSAY_AVX512_TARGET "avx512f,avx512bw,avx512vl,prefer-vector-width=512"
#endif
[[gnu::target(ASSAY_AVX512_TARGET)]] void quantize_blocks_avx512(FourBit type, std::span<const float> x,
                                                                 std::int64_t block, std::uint8_t* codes,
                                                                 float* absmax) {
  quantize_blocks(type, x, block, codes, absmax);
}

}  // namespace

const std::array<float, 16>& codebook_of(FourBit type) {
  return type == FourBit::nf4 ? kNf4 : kFp4;
}

void quantize_four_bit(FourBit type, std::span<const float> x, std::int64_t block, std::uint8_t* codes,
                       float* absmax) {
  static const QuantizeBlocks quantize = is_usable(Isa::avx512) ? quantize_blocks_avx512
                                         : is_usable(Isa::avx2) ? quantize_blocks_avx2
                                                                : quantize_blocks_baseline;
  quantize(type, x, block, codes, absmax);
}

void four_bit_scales(std::span<const float> x, std::int64_t block, float* absmax) {
  const auto size = static_cast<std::size_t>(block);
  for (std::size_t first = 0; first < x.size(); first += size) {
    const auto part = x.subspan(first, std::min(size, x.size() - first));
    absmax[first / size] = scale_of(part, part.size() == size);
  }
}

const std::array<float, 256>& dynamic_map() {
  static const std::array<float, 256> map = make_dynamic_map();
  return map;
}

NestedScales nest_scales(std::span<const float> scales) {
  NestedScales nested;
  double sum = 0;
  for (const float scale : scales) sum += static_cast<double>(scale);
  nested.offset = static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(1, scales.size())));
  nested.codes.resize(scales.size());
  std::vector<float> rest(scales.begin(), scales.end());
  for (float& r : rest) r -= nested.offset;
  constexpr auto kBlock = static_cast<std::size_t>(kNestedBlock);
  for (std::size_t first = 0; first < rest.size(); first += kBlock) {
    const auto part = std::span(rest).subspan(first, std::min(kBlock, rest.size() - first));
    const float largest = largest_magnitude(part);
    nested.absmax.push_back(largest);
    for (std::size_t i = 0; i < part.size(); ++i)
      nested.codes[first + i] = code_of_map(largest > 0 ? part[i] / largest : 0.0F);
  }
  return nested;
}

void unnest_scales(const NestedScales& nested, float* scales, const std::array<float, 256>& map) {
  for (std::size_t i = 0; i < nested.codes.size(); ++i)
    scales[i] =
        map[nested.codes[i]] * nested.absmax[i / static_cast<std::size_t>(kNestedBlock)] + nested.offset;
}

}  // namespace assay
