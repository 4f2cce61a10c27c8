// Scales of grouped codes for a warp's spans: the runs of 256 inputs at a time come to shared memory as they
// are, those of the next chunk while this one is multiplied, and become float32 there, once for all lanes.
#pragma once

#include "assay/backend/cuda/kernels/linear.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kChunkSpans = 8;  // a super-block

template <int Bits, bool HasBook>
struct GroupedShape {
  static constexpr bool kHasSmallGroups = has_small_groups(Bits),
                        kMayHaveMinima = may_have_minima(Bits, HasBook);
  static constexpr int kGroups = (kHasSmallGroups ? 2 : 1) * kChunkSpans;
  static constexpr std::int32_t kStageBytes = static_cast<std::int32_t>(grouped_stage_bytes(Bits, HasBook));
  static constexpr ScaleRun kSuperBlock = super_block_of(Bits, HasBook);
};

// The scales of outputs g and g + 8, and their offsets.
struct ScalesOfLane {
  float low, low_offset, high, high_offset;
};

template <int Bits, bool HasBook>
class StagedScales {
  using Shape = GroupedShape<Bits, HasBook>;
  static constexpr ScaleRun kRun = Shape::kSuperBlock;

 public:
  // byte: of kStageBytes of shared memory, which are the warp's.
  ASSAY_DEVICE StagedScales(const Matrix& weight, std::int64_t strip, std::int64_t byte)
      : run_(weight.run),
        runs_(static_cast<std::int32_t>((weight.inputs + weight.run.inputs - 1) / weight.run.inputs)),
        runs_of_chunk_(kChunkSpans * static_cast<std::int32_t>(kSpan) / weight.run.inputs),
        run_bytes_(static_cast<std::int32_t>(weight.run.bytes())),
        from_(Global<const float>(weight.scales).as<const std::byte>() +
              strip * weight.run.panel_bytes(weight.inputs)),
        byte_(byte) {}

  // In all lanes. Each chunk is a group of copies.
  ASSAY_DEVICE void fetch(std::int32_t chunk, std::int32_t end, std::int32_t lane) const {
    const std::int32_t first = chunk * runs_of_chunk_,
                       bytes = smaller(runs_of_chunk_, runs_ - first) * run_bytes_;
    if (chunk * kChunkSpans < end && lane * 16 < bytes)
      cp_async_16(shared<std::uint32_t>(raw_of(chunk)), lane * 4, from_,
                  std::int64_t{first} * run_bytes_ + lane * 16);
  }
  // Makes those of spans [begin, end) of a chunk that is there. A lane has an output and every other group.
  ASSAY_DEVICE void make(std::int32_t chunk, std::int32_t begin, std::int32_t end, std::int32_t lane) const {
    const Making at{shared<std::uint32_t>(raw_of(chunk)), lane % 16, lane / 16, begin - chunk * kChunkSpans,
                    end - chunk * kChunkSpans};
    if constexpr (kRun.bits > 0) {
      if (run_.number_bits > 0) return make_of_super_block(at);
    }
    make_of_factors(at);
  }
  // Behind a barrier of the warp. group: in the chunk.
  ASSAY_DEVICE ScalesOfLane of(std::int32_t group, std::int32_t g) const {
    if constexpr (Shape::kMayHaveMinima) {
      const Words4 all = shared<Words4>(byte_ + 2 * kRawScaleBytes)[group * 8 + g];
      return {float_of(all.word[0]), float_of(all.word[1]), float_of(all.word[2]), float_of(all.word[3])};
    } else {
      const Floats2 both = shared<Floats2>(byte_ + 2 * kRawScaleBytes)[group * 8 + g];
      return {both.x, 0, both.y, 0};
    }
  }

 private:
  struct Making {
    Shared<std::uint32_t> raw;
    std::int32_t output, second, begin, end;  // spans of the chunk
    // Whether group 2 i + second is one of them.
    ASSAY_DEVICE bool has(int i) const {
      const std::int32_t span = Shape::kHasSmallGroups ? i : 2 * i + second;
      return span >= begin && span < end;
    }
  };
  ASSAY_DEVICE std::int64_t raw_of(std::int32_t chunk) const { return byte_ + chunk % 2 * kRawScaleBytes; }
  ASSAY_DEVICE void put(const Making& at, int i, float scale, float offset) const {
    const std::int32_t place = (2 * i + at.second) * 16 + at.output % 8 * 2 + at.output / 8;
    if constexpr (Shape::kMayHaveMinima)
      shared<Floats2>(byte_ + 2 * kRawScaleBytes)[place] = Floats2{scale, offset};
    else
      shared<float>(byte_ + 2 * kRawScaleBytes)[place] = scale;
  }
  ASSAY_DEVICE void make_of_super_block(const Making& at) const {
    constexpr int kWords = kRun.bits / 32, kLow = kRun.low_bits();
    std::uint32_t word[kWords + 1];
    ASSAY_UNROLL
    for (int i = 0; i < kWords; ++i) word[i] = at.raw[i * 16 + at.output];
    if constexpr (kRun.bits % 32 != 0)  // half a word
      word[kWords] = at.raw[kWords * 16 + at.output / 2] >> (at.output % 2 * 16);
    const auto half_at = [&](int bit) { return f16_value(word[bit / 32] >> (bit % 32) & 0xffffU); };
    // The mantissa of 2^23 and a number, less 2^23 and what the number is counted from.
    const auto number = [&](int low_at, int high_at, int i, int zero) {
      const int low = low_at + 2 * i * kLow;
      std::uint32_t bits =
          masked_or(word[low / 32] >> (at.second * kLow) >> (low % 32), (1U << kLow) - 1U, 0x4b000000U);
      if constexpr (kRun.number_bits == 6) {
        const int high = high_at + 4 * i;
        const std::uint32_t highs = word[high / 32] >> (at.second * 2);
        bits = masked_or(high % 32 == 0 ? highs << 4 : highs >> (high % 32 - 4), 0x30U, bits);
      }
      return float_of(bits) - static_cast<float>((1 << 23) + zero);
    };
    const float factor = half_at(kRun.factor_at);
    float minimum_factor = 0;
    if constexpr (kRun.has_minima) minimum_factor = half_at(kRun.minimum_factor_at);
    ASSAY_UNROLL
    for (int i = 0; i < Shape::kGroups / 2; ++i) {
      float offset = 0;
      if constexpr (kRun.has_minima)
        offset = minimum_factor * -number(kRun.minima_at, kRun.minimum_highs_at, i, 0);
      put(at, i, factor * number(0, kRun.highs_at, i, kRun.zero), offset);
    }
  }
  // Runs of a factor, or of a factor and a minimum.
  ASSAY_DEVICE void make_of_factors(const Making& at) const {
    const bool is_of_chunk = runs_of_chunk_ == 1;
    ASSAY_UNROLL
    for (int i = 0; i < Shape::kGroups / 2; ++i) {
      if (!at.has(i)) continue;
      const std::int32_t group = 2 * i + at.second,
                         run = is_of_chunk ? 0 : group / (Shape::kHasSmallGroups ? 2 : 1);
      const Shared<std::uint32_t>& raw = at.raw;
      if (run_.has_minima) {
        const std::uint32_t both = raw[run * 16 + at.output];
        put(at, i, f16_value(both & 0xffffU), f16_value(both >> 16));
      } else if (HasBook && run_.is_e8m0) {
        const std::uint32_t byte = raw[run * 4 + at.output / 4] >> (at.output % 4 * 8) & 255U;
        put(at, i, e8m0_value(byte), 0);
      } else {
        put(at, i, f16_value(raw[run * 8 + at.output / 2] >> (at.output % 2 * 16) & 0xffffU), 0);
      }
    }
  }

  const ScaleRun& run_;
  std::int32_t runs_, runs_of_chunk_, run_bytes_;
  Global<const std::byte> from_;
  std::int64_t byte_;
};

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
