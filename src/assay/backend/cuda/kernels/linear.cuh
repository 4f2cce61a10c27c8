// Matrix multiplications from weights in fragment order, for any number of rows.
//
// A block computes a strip of 16 outputs for some rows. Its 8 warps each take a range of the inputs, which
// depends on the matrix alone, and their sums are added in the order of the inputs: a row has the same bits
// in every batch. Weights are operand A of the tensor cores, read once by a block, 16 bytes a lane and tile;
// the rows' inputs are operand B, 8 rows at a time, zeros beyond the last.
#pragma once

#include <type_traits>

#include "assay/backend/cuda/kernels/inputs.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// Where a warp's lane stands in a product: PTX ISA, "Matrix Fragments", g = lane / 4 and t = lane % 4.
struct LinearPlace {
  std::int32_t warp, lane, g, t;
  std::int64_t strip, first_row, tiles, begin, end;  // the warp's tiles of its strip

  ASSAY_DEVICE LinearPlace(const Matrix& weight, std::int64_t rows_of_block)
      : warp(thread_index() / kWarp),
        lane(thread_index() % kWarp),
        g(lane / 4),
        t(lane % 4),
        strip(block_x()),
        first_row(block_y() * rows_of_block),
        tiles(tiles_of_strip(weight.format, weight.inputs)),
        begin(tiles * warp / kRanges),
        end(tiles * (warp + 1) / kRanges) {}

  ASSAY_DEVICE Words4 tile(const Global<const std::byte>& data, std::int64_t i) const {
    return data.load<Words4>((strip * tiles + i) * (kTileBytes / 16) + lane);
  }
};

// The tiles of a warp in their order. Some are on their way before they are needed, the first of them before
// the kernel in front is waited for: nothing writes weights.
// Many rows need the registers.
template <int Blocks, int OfFewRows = 6>
inline constexpr int kTilesAhead = Blocks <= 2 ? OfFewRows : 2;
template <int Ahead>
class TileStream {
 public:
  ASSAY_DEVICE TileStream(const LinearPlace& at, const Global<const std::byte>& data) : at_(at), data_(data) {
    ASSAY_UNROLL
    for (int j = 0; j < Ahead; ++j)
      if (at.begin + j < at.end) ahead_[j] = at.tile(data, at.begin + j);
  }
  // multiply(tile, i); `in` prepares the inputs of the tiles that are held, Inputs of each.
  template <int Inputs, typename Rows, typename Multiply>
  ASSAY_DEVICE void for_each(Rows& in, const Multiply& multiply) {
    ASSAY_NO_UNROLL
    for (std::int64_t first = at_.begin; first < at_.end; first += Ahead) {
      in.template prepare<Ahead * Inputs>(first * Inputs);
      ASSAY_UNROLL
      for (int j = 0; j < Ahead; ++j) {
        const std::int64_t i = first + j;
        if (i < at_.end) {
          const Words4 now = ahead_[j];
          if (i + Ahead < at_.end) ahead_[j] = at_.tile(data_, i + Ahead);
          multiply(now, i);
        }
      }
    }
  }
  template <typename Multiply>
  ASSAY_DEVICE void for_each(const Multiply& multiply) {
    NothingToPrepare nothing;
    for_each<1>(nothing, multiply);
  }

 private:
  const LinearPlace& at_;
  const Global<const std::byte>& data_;
  Words4 ahead_[Ahead];
};

// Inputs are made of few rows: a block of more than 8 makes none.
template <int Blocks>
using RowsOf = std::conditional_t<Blocks == 1, MadeRows, InputRows>;

// Partial sums of the ranges: [range][row of the block][16 outputs, padded].
inline constexpr int kPaddedStrip = static_cast<int>(kStrip) + 1;
template <typename T, typename Place>
ASSAY_DEVICE void put_partial(const Shared<T>& partial, const Place& at, int rows, int first,
                              const T (&c)[4]) {
  for (int i = 0; i < 4; ++i)
    partial[((at.warp * rows) + first + 2 * at.t + i % 2) * kPaddedStrip + at.g + 8 * (i / 2)] = c[i];
}
// Adds the ranges and calls take(row, output, sum) for what exists.
template <typename T, typename Place, typename Take>
ASSAY_DEVICE void add_ranges(const Shared<T>& partial, const Place& at, int rows, std::int64_t row_count,
                             std::int64_t outputs, const Take& take) {
  barrier();
  for (int i = thread_index(); i < rows * static_cast<int>(kStrip); i += kLinearThreads) {
    const int row = i / static_cast<int>(kStrip), column = i % static_cast<int>(kStrip);
    const std::int64_t output = std::int64_t{at.strip} * kStrip + column;
    if (at.first_row + row >= row_count || output >= outputs) continue;
    T sum = partial[row * kPaddedStrip + column];
    for (int range = 1; range < kRanges; ++range)
      sum += static_cast<T>(partial[(range * rows + row) * kPaddedStrip + column]);
    take(at.first_row + row, output, sum);
  }
}
template <int Rows>
inline constexpr std::int64_t kPartialBytes = std::int64_t{kRanges} * Rows* kPaddedStrip * 4;

// How 16-bit elements are made and multiplied.
struct Float16 {
  static constexpr std::uint32_t kOne = 0x3c00U, kInteger = 0x6400U;  // 1,024, whose last bit stands for 1
  static constexpr std::uint32_t kExponent = 0x7c00U;  // where all of it is set, it is no finite number
  static ASSAY_DEVICE std::uint32_t bits(float x) { return f16_bits(x); }
  static ASSAY_DEVICE std::uint32_t pair(float x, float y) { return f16_pair(x, y); }
  static ASSAY_DEVICE float value(std::uint32_t bits) { return f16_value(bits); }
  static ASSAY_DEVICE std::uint32_t sums(std::uint32_t x, std::uint32_t y) { return f16_sums(x, y); }
  static ASSAY_DEVICE void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    mma_f16(c, a, b);
  }
};
struct Bfloat16 {
  static constexpr std::uint32_t kOne = 0x3f80U, kInteger = 0x4300U;  // 128
  static constexpr std::uint32_t kExponent = 0x7f80U;
  static ASSAY_DEVICE std::uint32_t bits(float x) { return bf16_bits(x); }
  static ASSAY_DEVICE std::uint32_t pair(float x, float y) { return bf16_pair(x, y); }
  static ASSAY_DEVICE float value(std::uint32_t bits) { return bf16_value(bits); }
  static ASSAY_DEVICE std::uint32_t sums(std::uint32_t x, std::uint32_t y) { return bf16_sums(x, y); }
  static ASSAY_DEVICE void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    mma_bf16(c, a, b);
  }
};
template <typename Type>
ASSAY_DEVICE std::uint32_t packed(const Floats2& pair) {
  return Type::bits(pair.x) | Type::bits(pair.y) << 16;
}
// Slots t and t + 4 of m16n8k8 stand for inputs 2 t and 2 t + 1 (layout.h).
template <int Blocks>
ASSAY_KERNEL_OF(kLinearThreads)
linear_tf32(LinearArgs a) {
  const LinearPlace at(a.weight, 8 * Blocks);
  const Global<const std::byte> data(a.weight.data);
  TileStream<kTilesAhead<Blocks>> tiles(at, data);
  wait_for_previous();
  RowsOf<Blocks> in(a, at.end * 8, kPartialBytes<8 * Blocks>);
  float c[Blocks][4] = {};
  tiles.template for_each<8>(in, [&](Words4 w, std::int64_t i) {
    for (int j = 0; j < 4; ++j) w.word[j] = tf32_bits(float_of(w.word[j]));
    ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block) {
      const Floats2 x = in.pair(at.first_row + 8 * block + at.g, i * 8 + 2 * at.t);
      const std::uint32_t b[2] = {tf32_bits(x.x), tf32_bits(x.y)};
      mma_tf32(c[block], w.word, b);
    }
  });
  const Shared<float> partial = shared<float>(0);
  ASSAY_UNROLL
  for (int block = 0; block < Blocks; ++block) put_partial(partial, at, 8 * Blocks, 8 * block, c[block]);
  add_ranges(partial, at, 8 * Blocks, a.rows, a.weight.outputs,
             [&](std::int64_t row, std::int64_t output, float sum) { finish(a.to, row, output, sum); });
}

// Sums of lanes that hold other inputs of the same outputs, then of ranges.
template <int Rows>
ASSAY_DEVICE void finish_rows(const LinearArgs& a, const LinearPlace& at, const Shared<float>& partial,
                              float (&sums)[2][Rows]) {
  ASSAY_UNROLL
  for (int half = 0; half < 2; ++half) ASSAY_UNROLL
  for (int row = 0; row < Rows; ++row) {
    float sum = sums[half][row];
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    if (at.t == 0) partial[(at.warp * Rows + row) * kPaddedStrip + at.g + 8 * half] = sum;
  }
  add_ranges(partial, at, Rows, a.rows, a.weight.outputs,
             [&](std::int64_t row, std::int64_t output, float sum) { finish(a.to, row, output, sum); });
}

// float32 without tensor cores: a chain of multiply-adds in each lane.
template <int Rows>
ASSAY_KERNEL_OF(kLinearThreads)
linear_float32(LinearArgs a) {
  const LinearPlace at(a.weight, Rows);
  const Global<const std::byte> data(a.weight.data);
  TileStream<kTilesAhead<1>> tiles(at, data);
  wait_for_previous();
  const InputRows in(Global<const float>(a.x), a.x_stride, a.rows, a.weight.inputs);
  float sums[2][Rows] = {};
  tiles.for_each([&](const Words4& w, std::int64_t i) {
    ASSAY_UNROLL
    for (int row = 0; row < Rows; ++row) {
      const Floats2 x = in.pair(at.first_row + row, i * 8 + 2 * at.t);
      for (int half = 0; half < 2; ++half)
        sums[half][row] =
            fmaf(float_of(w.word[half + 2]), x.y, fmaf(float_of(w.word[half]), x.x, sums[half][row]));
    }
  });
  finish_rows<Rows>(a, at, shared<float>(0), sums);
}

// Which power of two a group is: shifts take the place of divisions, for which ptxas calls a function.
ASSAY_DEVICE int shift_of(std::int64_t group) {
  int shift = 0;
  while (std::int64_t{1} << shift < group) ++shift;
  return shift;
}

// Scales of 4-bit weights, of the strip.
struct GroupScales {
  Global<const float> scales;
  int shift;
  std::int64_t groups, first;

  ASSAY_DEVICE GroupScales(const Matrix& weight, std::int64_t strip)
      : scales(weight.scales),
        shift(shift_of(weight.group)),
        groups((round_up(weight.inputs, 64) + weight.group - 1) >> shift),
        first(strip * groups * kStrip) {}
  ASSAY_DEVICE std::int64_t offset(std::int64_t row, std::int64_t k) const {
    return (k >> shift) * kStrip + row;
  }
  ASSAY_DEVICE float of(std::int64_t row, std::int64_t k) const { return scales[first + offset(row, k)]; }
};

inline constexpr int kFourBitRows = 4;
// 4-bit codes in float32: any group. With room for two blocks on a processor it spills nothing.
ASSAY_KERNEL_OF(kLinearThreads, 2) four_bit_float32(LinearArgs a) {
  const LinearPlace at(a.weight, kFourBitRows);
  const Global<const std::byte> data(a.weight.data);
  TileStream<kTilesAhead<1, 3>> tiles(at, data);
  const GroupScales scales(a.weight, at.strip);
  const Shared<float> codebook = shared<float>(0), partial = shared<float>(64);
  if (thread_index() < 16) codebook[thread_index()] = a.weight.codebook[thread_index()];
  barrier();
  wait_for_previous();
  MadeRows in(a, at.end * 64, 64 + kPartialBytes<kFourBitRows>);
  float sums[2][kFourBitRows] = {};
  tiles.for_each<64>(in, [&](const Words4& w, std::int64_t i) {
    for (int step = 0; step < 4; ++step)
      for (int upper = 0; upper < 2; ++upper) {
        const std::int64_t k = i * 64 + step * 16 + upper * 8 + 2 * at.t;
        if (k >= a.weight.inputs) continue;
        float weights[2][2];  // [half of the strip][input]
        for (int half = 0; half < 2; ++half)
          for (int j = 0; j < 2; ++j) {
            const std::uint32_t code = w.word[step] >> (8 * (half + 2 * upper) + 4 * j) & 15U;
            weights[half][j] =
                k + j < a.weight.inputs ? codebook[code] * scales.of(at.g + 8 * half, k + j) : 0.0F;
          }
        ASSAY_UNROLL
        for (int row = 0; row < kFourBitRows; ++row) {
          const Floats2 x = in.pair(at.first_row + row, k);
          for (int half = 0; half < 2; ++half)
            sums[half][row] = fmaf(weights[half][1], x.y, fmaf(weights[half][0], x.x, sums[half][row]));
        }
      }
  });
  finish_rows<kFourBitRows>(a, at, partial, sums);
}

// Without an index into registers, which would put them into memory.
ASSAY_DEVICE std::uint32_t word_of(const Words4& words, int i) {
  return i < 2 ? (i == 0 ? words.word[0] : words.word[1]) : (i == 2 ? words.word[2] : words.word[3]);
}

// Two codes of a byte as a pair of 16-bit values.
inline constexpr int kTableBytes = 256 * 4;
template <typename Type>
ASSAY_DEVICE void make_byte_table(const Shared<std::uint32_t>& table, const Matrix& weight) {
  for (int i = thread_index(); i < 256; i += kLinearThreads)
    table[i] = Type::bits(weight.codebook[i & 15]) | Type::bits(weight.codebook[i >> 4]) << 16;
  barrier();
}
ASSAY_DEVICE void expand_codes(std::uint32_t (&a)[4], std::uint32_t codes,
                               const Shared<std::uint32_t>& table) {
  for (int j = 0; j < 4; ++j) a[j] = table[codes >> (8 * j) & 0xffU];
}
inline constexpr std::int64_t kBankTableBytes = 256 * kWarp * 4;
// The table of pairs of codes for each bank, so that lanes do not wait for one another; so many words from
// pair to pair.
template <typename Type, std::int32_t Pitch = kWarp>
ASSAY_DEVICE void make_bank_tables(const Shared<std::uint32_t>& table, const Matrix& weight) {
  static_assert(kLinearThreads == 256);  // a pair of codes a thread
  const std::int32_t pair = thread_index(), lane = pair % kWarp;
  const std::uint32_t values = Type::bits(weight.codebook[pair & 15]) | Type::bits(weight.codebook[pair >> 4])
                                                                            << 16;
  ASSAY_UNROLL
  for (int bank = 0; bank < kWarp; ++bank) table[pair * Pitch + (bank + lane) % kWarp] = values;
}

// Steps of 16 inputs after which sums are scaled: those of a group, at most those of a tile.
ASSAY_DEVICE int steps_of_group(std::int64_t group) {
  return group >= 64 ? 4 : static_cast<int>(group / 16);
}

// 4-bit codes times int8 inputs that have a scale for each group, of at least 16. Codes and the book's
// integers are bfloat16 exactly, and so are their sums in float32.
template <int Blocks>
ASSAY_KERNEL_OF(kLinearThreads)
linear_int8_activations(LinearInt8ActivationsArgs a) {
  const LinearPlace at(a.weight, 8 * Blocks);
  const Global<const std::byte> data(a.weight.data);
  TileStream<kTilesAhead<Blocks, 3>> tiles(at, data);
  const Global<const std::byte> x = Global<const std::int8_t>(a.codes).as<const std::byte>();
  const Global<const float> x_scales(a.x_scales);
  const GroupScales scales(a.weight, at.strip);
  const Shared<std::uint32_t> table = shared<std::uint32_t>(0);
  make_byte_table<Bfloat16>(table, a.weight);
  wait_for_previous();
  const int steps = steps_of_group(a.weight.group);
  float c[Blocks][4] = {};
  const auto pair = [&](std::int64_t row, std::int64_t k) -> std::uint32_t {
    if (row >= a.rows) return 0;
    const std::uint32_t both = x.load<std::uint16_t>((row * a.codes_stride + k) / 2);
    return packed<Bfloat16>({static_cast<float>(static_cast<std::int8_t>(both & 0xffU)),
                             static_cast<float>(static_cast<std::int8_t>(both >> 8))});
  };
  tiles.for_each([&](const Words4& w, std::int64_t i) {
    float unscaled[Blocks][4] = {};
    ASSAY_NO_UNROLL
    for (int step = 0; step < 4; ++step) {
      const std::int64_t k = i * 64 + step * 16;
      std::uint32_t codes[4];
      expand_codes(codes, word_of(w, step), table);
      ASSAY_UNROLL
      for (int block = 0; block < Blocks; ++block) {
        const std::int64_t row = at.first_row + 8 * block + at.g;
        const std::uint32_t b[2] = {pair(row, k + 2 * at.t), pair(row, k + 2 * at.t + 8)};
        mma_bf16(unscaled[block], codes, b);
      }
      if (((step + 1) & (steps - 1)) != 0) continue;
      const float low = scales.of(at.g, k), high = scales.of(at.g + 8, k);
      ASSAY_UNROLL
      for (int block = 0; block < Blocks; ++block)
        for (int j = 0; j < 4; ++j) {
          const std::int64_t row = at.first_row + 8 * block + 2 * at.t + j % 2;
          const float x_scale = row < a.rows ? x_scales[row * scales.groups + (k >> scales.shift)] : 0.0F;
          c[block][j] = fmaf(unscaled[block][j], x_scale * (j < 2 ? low : high), c[block][j]);
          unscaled[block][j] = 0;
        }
    }
  });
  const Shared<float> partial = shared<float>(kTableBytes);
  ASSAY_UNROLL
  for (int block = 0; block < Blocks; ++block) put_partial(partial, at, 8 * Blocks, 8 * block, c[block]);
  add_ranges(partial, at, 8 * Blocks, a.rows, a.weight.outputs,
             [&](std::int64_t row, std::int64_t output, float sum) { finish(a.to, row, output, sum); });
}

// What a sum of codes becomes, of a row with this absmax and an output with this scale; and with what
// outliers add to it.
ASSAY_DEVICE float value_of_codes(std::int32_t sum, float absmax, float scale) {
  constexpr float kUnit = 1.0F / (127 * 127);
  return static_cast<float>(sum) * (absmax * kUnit * scale);
}
ASSAY_DEVICE float add_outliers(const LinearInt8Args& a, std::int64_t row, std::int64_t output, float scale,
                                float value) {
  const std::int64_t outliers = a.outliers ? Global<const std::int32_t>(a.outlier_count)[0] : 0;
  const Global<const std::byte> data(a.weight.data);
  const float unit = scale * (1.0F / 127.0F);
  for (std::int64_t i = 0; i < outliers; ++i) {
    const std::int64_t k = Global<const std::int32_t>(a.outliers)[i];
    const auto code = data.load<std::int8_t>(byte_of(MatrixFormat::int8, a.weight.inputs, output, k));
    value += Global<const float>(a.x)[row * a.x_stride + k] * (static_cast<float>(code) * unit);
  }
  return value;
}
ASSAY_DEVICE float value_of_codes(const LinearInt8Args& a, std::int64_t row, std::int64_t output,
                                  std::int32_t sum) {
  if (a.zero_points)
    sum -= Global<const std::int32_t>(a.zero_points)[row] * Global<const std::int32_t>(a.sums)[output];
  const float scale = Global<const float>(a.weight.scales)[output];
  return add_outliers(a, row, output, scale, value_of_codes(sum, Global<const float>(a.absmax)[row], scale));
}
ASSAY_DEVICE void finish_int8(const LinearInt8Args& a, std::int64_t row, std::int64_t output,
                              std::int32_t sum) {
  finish(a.to, row, output, value_of_codes(a, row, output, sum));
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
