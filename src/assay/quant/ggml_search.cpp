#include "assay/quant/ggml_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "assay/tensor/half.h"

namespace assay::ggml {

namespace {

constexpr int kSuperBlock = 256, kLanes = 8, kRounds = 4;

// Loops over the numbers of a group, which are counted at compile time: instrumented one by one they would
// take most of the time of tests that quantize. What they call is inlined only where it is marked too.
#define ASSAY_OF_GROUP [[gnu::no_sanitize("address", "undefined")]]

// To the nearest whole number, ties to even, of magnitudes below 2^22: adding and taking off leaves no bits
// behind the point. Loops of it become vector instructions.
ASSAY_OF_GROUP float nearest(float x) {
  constexpr float kRound = 12582912.0F;
  return (x + kRound) - kRound;
}

float half_precision(float x) {
  return f16_to_float(float_to_f16(x));
}

// Sums in lanes, which loops over a group add to.
struct LaneSums {
  float lanes[kLanes] = {};
  ASSAY_OF_GROUP float total() const {
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    return sum;
  }
};

// A group's numbers and what its errors weigh.
struct SearchedGroup {
  const float *x, *w;
};

// Squared error of a group whose codes are rounded for this scale and minimum: restored = scale * code -
// minimum, codes from `low` to `high`.
template <int size>
ASSAY_OF_GROUP float exact_error(const SearchedGroup& group, float scale, float minimum, float low,
                                 float high, float* codes) {
  const float inverse = scale != 0 ? 1.0F / scale : 0.0F;
  LaneSums error;
  for (int i = 0; i < size; i += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      const float wanted = group.x[i + l] + minimum;
      const float exact = wanted * inverse, above = low < exact ? exact : low,
                  code = nearest(above < high ? above : high);
      const float off = wanted - scale * code;
      codes[i + l] = code;
      error.lanes[l] += group.w[i + l] * off * off;
    }
  return error.total();
}

struct ScaleAndMinimum {
  float scale = 0, minimum = 0;
};

// The minimum that is subtracted: none, one that is not negative, or any.
enum class Minimum { none, positive, any };

// What least squares give for a group's codes.
template <int size>
ASSAY_OF_GROUP ScaleAndMinimum fitted(const SearchedGroup& group, const float* codes, Minimum kind) {
  LaneSums sum_w, sum_q, sum_qq, sum_x, sum_xq;
  for (int i = 0; i < size; i += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      const float w = group.w[i + l], wq = w * codes[i + l], wx = w * group.x[i + l];
      sum_w.lanes[l] += w;
      sum_q.lanes[l] += wq;
      sum_x.lanes[l] += wx;
      sum_qq.lanes[l] += wq * codes[i + l];
      sum_xq.lanes[l] += wx * codes[i + l];
    }
  const float w = sum_w.total(), q = sum_q.total(), qq = sum_qq.total(), x = sum_x.total(),
              xq = sum_xq.total();
  const float determinant = w * qq - q * q;
  if (kind != Minimum::none && determinant > 0) {
    const ScaleAndMinimum both{(w * xq - x * q) / determinant, (q * xq - qq * x) / determinant};
    if (both.minimum > 0 || kind == Minimum::any) return both;
  }
  return {qq > 0 ? xq / qq : 0.0F, 0};
}

// The best scale and minimum of a group for itself. `starts` are inverse scales to round with.
template <int size, typename Starts>
ScaleAndMinimum best_of_group(const SearchedGroup& group, float minimum, float low, float high, Minimum kind,
                              const Starts& starts) {
  ScaleAndMinimum best;
  float codes[size], least = -1;
  for (const float inverse : starts) {
    if (inverse == 0 || !std::isfinite(inverse)) continue;
    exact_error<size>(group, 1.0F / inverse, minimum, low, high, codes);
    const ScaleAndMinimum found = fitted<size>(group, codes, kind);
    if (kind != Minimum::none && !(found.scale > 0)) continue;
    const float error = exact_error<size>(group, found.scale, found.minimum, low, high, codes);
    if (least < 0 || error < least) least = error, best = found;
  }
  return best;
}

// The best scale of a group whose codes lie around zero: a scan of scales that take its largest number to
// either end of the codes.
template <int size>
ScaleAndMinimum best_symmetric(const SearchedGroup& group, float low, float high) {
  constexpr int kSteps = 8;
  float largest = 0;
  for (int i = 0; i < size; ++i)
    if (std::abs(group.x[i]) > std::abs(largest)) largest = group.x[i];
  float starts[2 * (2 * kSteps + 1)];
  for (int k = -kSteps; k <= kSteps; ++k) {
    starts[k + kSteps] = (low + 0.125F * static_cast<float>(k)) / largest;
    starts[k + 3 * kSteps + 1] = (high + 0.125F * static_cast<float>(k)) / largest;
  }
  return best_of_group<size>(group, 0, low, high, Minimum::none, starts);
}

// Tenths of a code around the highest one that the scan tries. Blocks of 32 take more: there is no second
// search over a super-block.
constexpr int kUsualSteps = 12, kMoreSteps = 40;

// The best scale and minimum of a group whose codes begin at zero.
template <int size, int kSteps>
ScaleAndMinimum best_with_minimum(const SearchedGroup& group, float high, Minimum kind) {
  const auto [least, largest] = std::minmax_element(group.x, group.x + size);
  const float minimum = kind == Minimum::any ? -*least : std::max(0.0F, -*least), range = *largest + minimum;
  if (range <= 0) return {0, minimum};  // all the same
  float starts[2 * kSteps + 1];
  for (int k = -kSteps; k <= kSteps; ++k) starts[k + kSteps] = (high + 0.1F * static_cast<float>(k)) / range;
  return best_of_group<size>(group, minimum, 0, high, kind, starts);
}

// What a super-block is made of: whole scales and minima of its groups, their factors, and codes.
template <int groups>
struct SuperBlock {
  float factor = 0, minimum_factor = 0;  // as float16 holds them
  int scales[groups] = {}, minima[groups] = {};
  float codes[kSuperBlock] = {};
  float error = 0;
};

// Limits of a type.
struct Limits {
  float low, high;            // codes
  int low_scale, high_scale;  // whole scales of groups
  int high_minimum;           // the largest whole minimum; 0: the type has none
  bool has_minimum() const { return high_minimum > 0; }
};

template <int groups>
class SuperBlockSearch {
  static constexpr int kSize = kSuperBlock / groups;

 public:
  SuperBlockSearch(const float* x, const float* w, const Limits& limits) : x_(x), w_(w), limits_(limits) {}

  SuperBlock<groups> run() {
    float furthest = 0,
          deepest = 0;  // the scale of largest magnitude, with its sign, and the largest minimum
    for (int g = 0; g < groups; ++g) {
      wanted_[g] = limits_.has_minimum()
                       ? best_with_minimum<kSize, kUsualSteps>(group(g), limits_.high, Minimum::positive)
                       : best_symmetric<kSize>(group(g), limits_.low, limits_.high);
      if (std::abs(wanted_[g].scale) > std::abs(furthest)) furthest = wanted_[g].scale;
      deepest = std::max(deepest, wanted_[g].minimum);
    }
    // The lowest whole scale is the one further from zero, where there are negative ones.
    const auto whole = static_cast<float>(limits_.low_scale < 0 ? limits_.low_scale : limits_.high_scale);
    const auto highest = static_cast<float>(std::max(1, limits_.high_minimum));
    SuperBlock<groups> best = with_factors(furthest / whole, deepest / highest, nullptr);
    for (int round = 0; round < kRounds; ++round) {
      const ScaleAndMinimum factors = fitted_factors(best);
      const SuperBlock<groups> next = with_factors(factors.scale, factors.minimum, &best);
      if (!(next.error < best.error)) break;
      best = next;
    }
    return best;
  }

 private:
  SearchedGroup group(int g) const { return {x_ + g * kSize, w_ + g * kSize}; }

  // Whole scales and minima for these factors: those around what each group wants, or around `before`.
  SuperBlock<groups> with_factors(float factor, float minimum_factor,
                                  const SuperBlock<groups>* before) const {
    SuperBlock<groups> block;
    block.factor = half_precision(factor);
    block.minimum_factor = half_precision(minimum_factor);
    for (int g = 0; g < groups; ++g) {
      const int scale = before != nullptr ? before->scales[g] : whole_of(wanted_[g].scale, block.factor),
                minimum = before != nullptr ? before->minima[g]
                                            : whole_of(wanted_[g].minimum, block.minimum_factor);
      block.error += best_around(g, scale, minimum, block);
    }
    return block;
  }

  static int whole_of(float wanted, float factor) {
    constexpr float kFar = 1024;
    return factor == 0 ? 0 : static_cast<int>(nearest(std::clamp(wanted / factor, -kFar, kFar)));
  }

  float best_around(int g, int scale, int minimum, SuperBlock<groups>& block) const {
    float codes[kSize], least = -1;
    const int reach = limits_.has_minimum() ? 1 : 0;
    for (int s = scale - 1; s <= scale + 1; ++s)
      for (int m = minimum - reach; m <= minimum + reach; ++m) {
        const int tried = std::clamp(s, limits_.low_scale, limits_.high_scale),
                  tried_minimum = std::clamp(m, 0, limits_.high_minimum);
        const float error = exact_error<kSize>(group(g), block.factor * static_cast<float>(tried),
                                               block.minimum_factor * static_cast<float>(tried_minimum),
                                               limits_.low, limits_.high, codes);
        if (least >= 0 && !(error < least)) continue;
        least = error;
        block.scales[g] = tried;
        block.minima[g] = tried_minimum;
        std::copy_n(codes, kSize, block.codes + g * kSize);
      }
    return least;
  }

  // The factors that least squares give for all that is whole.
  ScaleAndMinimum fitted_factors(const SuperBlock<groups>& block) const {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;  // restored = factor * a - minimum_factor * b
    for (int g = 0; g < groups; ++g)
      for (int i = g * kSize; i < (g + 1) * kSize; ++i) {
        const double a = block.scales[g] * static_cast<double>(block.codes[i]), b = block.minima[g];
        const double wa = static_cast<double>(w_[i]) * a, wb = static_cast<double>(w_[i]) * b;
        aa += wa * a;
        ab += wa * b;
        bb += wb * b;
        ax += wa * static_cast<double>(x_[i]);
        bx += wb * static_cast<double>(x_[i]);
      }
    const double determinant = aa * bb - ab * ab;
    if (determinant > 0) {
      const double minimum = (ab * ax - aa * bx) / determinant;
      if (minimum > 0)
        return {static_cast<float>((bb * ax - ab * bx) / determinant), static_cast<float>(minimum)};
    }
    return {aa > 0 ? static_cast<float>(ax / aa) : 0.0F, 0};
  }

  const float *x_, *w_;
  Limits limits_;
  ScaleAndMinimum wanted_[groups] = {};
};

std::byte byte_of_bits(int bits) {
  return static_cast<std::byte>(static_cast<unsigned char>(bits));
}
void put_factor(float factor, std::byte* at) {
  const std::uint16_t half = float_to_f16(factor);
  std::memcpy(at, &half, sizeof half);
}

// Codes of 64 elements to 32 bytes of nibbles, twice four times.
void put_k_nibbles(const float* codes, std::byte* q) {
  for (int e = 0; e < kSuperBlock; e += 64)
    for (int i = 0; i < 32; ++i)
      q[e / 2 + i] = byte_of_bits((static_cast<int>(codes[e + i]) & 15) |
                                  (static_cast<int>(codes[e + 32 + i]) & 15) << 4);
}

// Six bits each of eight scales and eight minima, in twelve bytes.
void put_k_scales(const int* scales, const int* minima, std::byte* s) {
  for (int i = 0; i < 4; ++i) {
    s[i] = byte_of_bits(scales[i] | scales[i + 4] >> 4 << 6);
    s[i + 4] = byte_of_bits(minima[i] | minima[i + 4] >> 4 << 6);
    s[i + 8] = byte_of_bits((scales[i + 4] & 15) | (minima[i + 4] & 15) << 4);
  }
}

void put_k_block(int bits, const SuperBlock<8>& block, std::byte* out) {
  put_factor(block.factor, out);
  put_factor(block.minimum_factor, out + 2);
  put_k_scales(block.scales, block.minima, out + 4);
  if (bits == 5) {
    for (int i = 0; i < 32; ++i) {
      int high = 0;
      for (int j = 0; j < 8; ++j) high |= (static_cast<int>(block.codes[32 * j + i]) >> 4) << j;
      out[16 + i] = byte_of_bits(high);
    }
  }
  put_k_nibbles(block.codes, out + (bits == 5 ? 48 : 16));
}

void put_six_bits(const SuperBlock<16>& block, std::byte* out) {
  std::memset(out, 0, 192);
  for (int e = 0; e < kSuperBlock; ++e) {
    const int code = static_cast<int>(block.codes[e]) + 32;
    const int half = e / 128, part = e % 128 / 32, l = e % 32;
    out[64 * half + l + 32 * (part & 1)] |= byte_of_bits((code & 15) << (part < 2 ? 0 : 4));
    out[128 + 32 * half + l] |= byte_of_bits(code >> 4 << 2 * part);
  }
  for (int g = 0; g < 16; ++g) out[192 + g] = byte_of_bits(block.scales[g]);
  put_factor(block.factor, out + 208);
}

// Two bits of each code, four codes to a byte; of three bits, what is above them goes elsewhere.
void put_low_pairs(const float* codes, int zero, std::byte* q) {
  for (int e = 0; e < kSuperBlock; ++e) {
    const int code = static_cast<int>(codes[e]) + zero, half = e / 128, part = e % 128 / 32, l = e % 32;
    q[32 * half + l] |= byte_of_bits((code & 3) << 2 * part);
  }
}

void put_two_bits(const SuperBlock<16>& block, std::byte* out) {
  std::memset(out, 0, 80);
  for (int g = 0; g < 16; ++g) out[g] = byte_of_bits(block.scales[g] | block.minima[g] << 4);
  put_low_pairs(block.codes, 0, out + 16);
  put_factor(block.factor, out + 80);
  put_factor(block.minimum_factor, out + 82);
}

void put_three_bits(const SuperBlock<16>& block, std::byte* out) {
  constexpr int kZero = 4, kZeroScale = 32;
  std::memset(out, 0, 108);
  for (int e = 0; e < kSuperBlock; ++e)
    out[e % 32] |= byte_of_bits((static_cast<int>(block.codes[e]) + kZero) >> 2 << e / 32);
  put_low_pairs(block.codes, kZero, out + 32);
  for (int g = 0; g < 16; ++g) {
    const int scale = block.scales[g] + kZeroScale;
    out[96 + g % 8] |= byte_of_bits((scale & 15) << (g < 8 ? 0 : 4));
    out[104 + g % 4] |= byte_of_bits(scale >> 4 << 2 * (g / 4));
  }
  put_factor(block.factor, out + 108);
}

}  // namespace

SmallBlock search_small_block(int bits, bool has_minimum, const float* x, const float* weights) {
  const float most = static_cast<float>((1 << bits) - 1), low = has_minimum ? 0.0F : -(most + 1) / 2;
  const SearchedGroup group{x, weights};
  SmallBlock best{};
  float least = -1;
  for (const Minimum kind : {Minimum::none, Minimum::positive, Minimum::any}) {
    if ((kind != Minimum::none) != has_minimum) continue;
    ScaleAndMinimum found = has_minimum ? best_with_minimum<kSmallBlock, kMoreSteps>(group, most, kind)
                                        : best_symmetric<kSmallBlock>(group, low, low + most);
    // Codes for the numbers that float16 holds, and numbers for those codes, in turns.
    for (int round = 0; round < kRounds; ++round) {
      const float scale = half_precision(found.scale), minimum = half_precision(found.minimum);
      float codes[kSmallBlock];
      const float error = exact_error<kSmallBlock>(group, scale, minimum, low, low + most, codes);
      if (least < 0 || error < least) {
        least = error;
        best.scale = scale;
        best.minimum = -minimum;
        for (int i = 0; i < kSmallBlock; ++i) best.codes[i] = static_cast<std::uint8_t>(codes[i] - low);
      }
      found = fitted<kSmallBlock>(group, codes, kind);
    }
  }
  return best;
}

void search_super_block(int bits, const float* x, const float* weights, std::byte* block) {
  float ones[kSuperBlock];
  if (weights == nullptr) {
    std::fill_n(ones, kSuperBlock, 1.0F);
    weights = ones;
  }
  if (bits == 6) return put_six_bits(SuperBlockSearch<16>(x, weights, {-32, 31, -128, 127, 0}).run(), block);
  if (bits == 3) return put_three_bits(SuperBlockSearch<16>(x, weights, {-4, 3, -32, 31, 0}).run(), block);
  if (bits == 2) return put_two_bits(SuperBlockSearch<16>(x, weights, {0, 3, 0, 15, 15}).run(), block);
  const float most = bits == 5 ? 31 : 15;
  put_k_block(bits, SuperBlockSearch<8>(x, weights, {0, most, 0, 63, 63}).run(), block);
}

}  // namespace assay::ggml
