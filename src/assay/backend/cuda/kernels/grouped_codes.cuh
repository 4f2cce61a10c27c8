// Grouped codes (lower/layout.h) as operand A of 16-bit tensor cores: small whole numbers, or entries of a
// book, which both types hold exactly.
//
// Of whole numbers two codes come out of a word by a shift and a mask, and become the mantissa of a number
// whose last bit stands for 1: what is above the code is then subtracted.
#pragma once

#include "assay/backend/cuda/kernels/linear.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// What a lane has of a span: the words of its low bits, and one of its high bits.
template <int Bits>
struct SpanWords {
  static constexpr CodePlanes kPlanes = planes_of_code(Bits);
  static constexpr int kLowWords = kPlanes.low / 2;
  std::uint32_t low[kLowWords], high;

  // Where those of a strip's span 0 are for a lane; those of span i lie i * kBytes behind.
  static constexpr std::int32_t kBytes = 64 * Bits;
  struct Place {
    Global<const std::byte> low, high;
    ASSAY_DEVICE Place(const Global<const std::byte>& strip, std::int32_t lane)
        : low(strip + lane * 2 * kPlanes.low), high(strip + (64 * kPlanes.low + lane * 2 * kPlanes.high)) {}
    ASSAY_DEVICE void move(std::int32_t spans) {
      low = low + std::int64_t{spans} * kBytes;
      high = high + std::int64_t{spans} * kBytes;
    }
  };
  ASSAY_DEVICE void fetch(const Place& from, std::int32_t span) {
    if constexpr (kPlanes.low == 8) {
      const Words4 all = from.low.load_once(span * kBytes / 16);
      ASSAY_UNROLL
      for (int i = 0; i < 4; ++i) low[i] = all.word[i];
    } else if constexpr (kPlanes.low == 4) {
      const auto both = from.low.template load_once_of<std::uint64_t>(span * kBytes / 8);
      low[0] = static_cast<std::uint32_t>(both);
      low[1] = static_cast<std::uint32_t>(both >> 32);
    } else {
      low[0] = from.low.template load_once_of<std::uint32_t>(span * kBytes / 4);
    }
    if constexpr (kPlanes.high == 2)
      high = from.high.template load_once_of<std::uint32_t>(span * kBytes / 4);
    else if constexpr (kPlanes.high == 1)
      high = from.high.template load_once_of<std::uint16_t>(span * kBytes / 2);
  }
};

template <int By>
ASSAY_DEVICE std::uint32_t shifted_right(std::uint32_t x) {
  if constexpr (By >= 0)
    return x >> By;
  else
    return x << -By;
}
ASSAY_DEVICE constexpr std::uint32_t twice(std::uint32_t half) {
  return half * 0x10001U;
}

// Codes that stand for code + book[0].
template <typename Type, int Bits>
struct IntegerCodes {
  std::uint32_t less;  // what is added to a code's mantissa

  ASSAY_DEVICE explicit IntegerCodes(const Matrix& weight) {
    const float integer = Type::value(Type::kInteger), least = weight.codebook[0];
    less = twice(Type::bits(least - integer));
  }
  // The four registers of both k16 steps.
  ASSAY_DEVICE void expand(std::uint32_t (&a)[2][4], const SpanWords<Bits>& words) const {
    std::uint32_t high = 0;
    if constexpr (SpanWords<Bits>::kPlanes.high == 2) high = words.high;
    if constexpr (SpanWords<Bits>::kPlanes.high == 1) high = words.high | (words.high << 12 & 0xffff0000U);
    expand_step<0>(a[0], words, high);
    expand_step<1>(a[1], words, high);
  }

 private:
  template <int Step>
  ASSAY_DEVICE void expand_step(std::uint32_t (&a)[4], const SpanWords<Bits>& words,
                                std::uint32_t high) const {
    a[0] = pair<Step, 0, 0>(words, high);
    a[1] = pair<Step, 1, 0>(words, high);
    a[2] = pair<Step, 0, 1>(words, high);
    a[3] = pair<Step, 1, 1>(words, high);
  }
  template <int Step, int Half, int Upper>
  ASSAY_DEVICE std::uint32_t pair(const SpanWords<Bits>& words, std::uint32_t high) const {
    constexpr CodePlanes kPlanes = SpanWords<Bits>::kPlanes;
    if constexpr (Bits == 8) {
      return eight_bits(shifted_right<8 * Upper>(words.low[2 * Step + Half]));
    } else {
      constexpr int kLow = kPlanes.low == 4 ? 8 * Half + 4 * Upper : 8 * Half + 4 * Step + 2 * Upper,
                    kHigh = kPlanes.high == 2 ? 8 * Half + 4 * Step + 2 * Upper : 8 * Half + 2 * Step + Upper;
      std::uint32_t mantissa = masked_or(shifted_right<kLow>(words.low[kPlanes.low == 4 ? Step : 0]),
                                         twice((1U << kPlanes.low) - 1U), twice(Type::kInteger));
      if constexpr (kPlanes.high > 0)
        mantissa = masked_or(shifted_right<kHigh - kPlanes.low>(high),
                             twice(((1U << kPlanes.high) - 1U) << kPlanes.low), mantissa);
      return Type::sums(mantissa, less);
    }
  }
  // bfloat16 has 7 bits for a mantissa: the eighth says which of two numbers is added, -128 or -256. All
  // such codes stand for code - 128.
  static constexpr bool kHoldsEight = Type::kInteger == 0x6400U;
  ASSAY_DEVICE std::uint32_t eight_bits(std::uint32_t codes) const {
    if constexpr (kHoldsEight)
      return Type::sums(masked_or(codes, 0x00ff00ffU, twice(Type::kInteger)), less);
    else
      return Type::sums(masked_or(codes, 0x007f007fU, twice(Type::kInteger)),
                        masked_or(~codes, 0x00800080U, 0xc300c300U));
  }
};

// 4-bit codes of a book of 16 entries, whose low and high bytes are looked up in registers.
template <typename Type>
struct BookCodes {
  std::uint32_t low[4], high[4];

  ASSAY_DEVICE explicit BookCodes(const Matrix& weight) {
    ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      low[i] = high[i] = 0;
      ASSAY_UNROLL
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t entry = Type::bits(weight.codebook[4 * i + j]);
        low[i] |= (entry & 255U) << (8 * j);
        high[i] |= (entry >> 8) << (8 * j);
      }
    }
  }
  ASSAY_DEVICE void expand(std::uint32_t (&a)[2][4], const SpanWords<4>& words) const {
    ASSAY_UNROLL
    for (int step = 0; step < 2; ++step) {
      // Nibbles: of outputs g both inputs of the lower half, then of the upper one, and so on.
      const std::uint32_t codes = bytes_of(words.low[step], 0, 0x3120U), index = codes & 0x77777777U,
                          pick = masked_or(codes >> 1, 0x44444444U, 0x32103210U);
      ASSAY_UNROLL
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t own = index >> (16 * half), own_pick = pick >> (16 * half),
                            lows = entries(low, own, own_pick), highs = entries(high, own, own_pick);
        a[step][half] = bytes_of(lows, highs, 0x6240U);
        a[step][2 + half] = bytes_of(lows, highs, 0x7351U);
      }
    }
  }

 private:
  // By the low three bits of each of four codes in both halves of the table; `pick` says which half.
  static ASSAY_DEVICE std::uint32_t entries(const std::uint32_t (&table)[4], std::uint32_t index,
                                            std::uint32_t pick) {
    return bytes_of(bytes_of(table[0], table[1], index), bytes_of(table[2], table[3], index), pick);
  }
};

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
