// Matrix multiplications of few rows by int8 matrices: codes of rows are operand B of the tensor cores, in
// the order of word_of_codes(), so that a lane reads what it multiplies by two tiles 16 bytes at a time.
//
// Very few rows are quantized by every block for itself, in shared memory, behind its wait for the kernel in
// front; all of a row's range, norm and codes is exact, or has the order of the kernels that make it alone.
// Sums of codes are exact: warps take ranges of whole units of 64 inputs, and several chains of sums.
#pragma once

#include "assay/backend/cuda/kernels/linear.cuh"
#include "assay/backend/cuda/kernels/row_codes.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

static_assert(kCodingThreads == kLinearThreads);

// Tiles of 512 bytes that are on their way before the kernel in front is waited for, in units of two of each
// strip: many rows need the registers.
template <int Blocks, int Strips>
inline constexpr int kInt8UnitsAhead = Blocks == 1   ? 8 / Strips
                                       : Blocks == 2 ? 4 / Strips
                                       : Blocks == 4 ? 2 / Strips
                                                     : 2;
// Units whose codes are fetched together, and sums that do not wait for one another.
template <int Blocks, int Strips, int Ahead>
inline constexpr int kInt8UnitsAtOnce = Blocks > 2 || Ahead == 1 ? 1
                                        : Blocks* Strips > 1     ? 2
                                        : Ahead % 4 == 0         ? 4
                                                                 : 3;
template <int Blocks, int Strips>
inline constexpr int kInt8Chains = Blocks* Strips >= 4 ? 1 : 4 / (Blocks * Strips);

// Where a warp's lane stands; strips of the gate and of what it multiplies are `apart`.
struct Int8Place {
  std::int32_t warp, lane, g, t, strip, first_row, tiles, begin, end;

  ASSAY_DEVICE Int8Place(const Matrix& weight, std::int32_t rows_of_block)
      : warp(thread_index() / kWarp),
        lane(thread_index() % kWarp),
        g(lane / 4),
        t(lane % 4),
        strip(block_x()),
        first_row(block_y() * rows_of_block),
        tiles(static_cast<std::int32_t>(tiles_of_strip(MatrixFormat::int8, weight.inputs))),
        begin((tiles + 1) / 2 * warp / kRanges),
        end((tiles + 1) / 2 * (warp + 1) / kRanges) {}
};

template <int Strips, int Ahead>
struct Int8Weights {
  const Int8Place& at;
  Global<const std::byte> data;
  std::int32_t apart;  // 16-byte pieces from strip to strip
  Words4 ahead[Ahead][Strips][2];

  ASSAY_DEVICE Int8Weights(const LinearInt8Args& a, const Int8Place& place)
      : at(place),
        data(Global<const std::byte>(a.weight.data) + std::int64_t{place.strip} * place.tiles * kTileBytes),
        apart(static_cast<std::int32_t>(a.to.gated / kStrip) * place.tiles * kLanes) {
    ASSAY_UNROLL
    for (int j = 0; j < Ahead; ++j)
      if (at.begin + j < at.end) fetch(j, at.begin + j);
  }
  // The last unit of a row may have one tile alone.
  ASSAY_DEVICE void fetch(int j, std::int32_t unit) {
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      const std::int32_t tile = 2 * unit + half;
      if (tile < at.tiles)
        ahead[j][strip][half] = data.load_once(std::int64_t{strip} * apart + tile * kLanes + at.lane);
      else
        ahead[j][strip][half] = Words4{};
    }
  }
};

// Codes that a block has made, of up to 8 rows, and codes of a kernel in front; lanes without a row of their
// own have the last one.
struct CodesOfBlock {
  Shared<Words4> codes;
  std::int32_t at;

  ASSAY_DEVICE Words4 unit(int /*block*/, std::int32_t i) const { return codes[at + i * 4]; }
};
template <int Blocks>
struct CodesInOrder {
  Global<const std::byte> codes;
  std::int32_t at[Blocks];

  ASSAY_DEVICE CodesInOrder(const LinearInt8Args& a, const Int8Place& place)
      : codes(Global<const std::int8_t>(a.codes).as<const std::byte>()) {
    const auto rows = static_cast<std::int32_t>(a.rows), stride = static_cast<std::int32_t>(a.codes_stride);
    ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block)
      at[block] = smaller(place.first_row + 8 * block + place.g, rows - 1) * (stride / 16) + place.t;
  }
  ASSAY_DEVICE Words4 unit(int block, std::int32_t i) const {
    return codes.load_shared_by_blocks(at[block] + i * 4);
  }
};

// The warp's sums into c[strip][block].
template <int Blocks, int Strips, int Ahead, typename Codes>
ASSAY_DEVICE void sum_units(std::int32_t (&sums)[Strips][Blocks][4], Int8Weights<Strips, Ahead>& weights,
                            const Codes& in) {
  constexpr int kAtOnce = kInt8UnitsAtOnce<Blocks, Strips, Ahead>, kChains = kInt8Chains<Blocks, Strips>;
  const Int8Place& at = weights.at;
  std::int32_t c[kChains][Strips][Blocks][4] = {};
  const auto multiply = [&](int j, const Words4(&x)[Blocks]) {
    ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block) {
      const std::uint32_t b[2] = {x[block].word[2 * half], x[block].word[2 * half + 1]};
      mma_s8(c[(2 * j + half) % kChains][strip][block], weights.ahead[j][strip][half].word, b);
    }
  };
  ASSAY_NO_UNROLL
  for (std::int32_t unit = at.begin; unit < at.end; unit += Ahead) {
    ASSAY_UNROLL
    for (int first = 0; first < Ahead; first += kAtOnce) {
      Words4 x[kAtOnce][Blocks];
      ASSAY_UNROLL
      for (int j = 0; j < kAtOnce; ++j)
        if (unit + first + j < at.end) ASSAY_UNROLL
      for (int block = 0; block < Blocks; ++block) x[j][block] = in.unit(block, unit + first + j);
      ASSAY_UNROLL
      for (int j = 0; j < kAtOnce; ++j)
        if (unit + first + j < at.end) {
          multiply(first + j, x[j]);
          if (unit + first + j + Ahead < at.end) weights.fetch(first + j, unit + first + j + Ahead);
        }
    }
  }
  ASSAY_UNROLL
  for (int strip = 0; strip < Strips; ++strip) ASSAY_UNROLL
  for (int block = 0; block < Blocks; ++block) ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    sums[strip][block][i] = c[0][strip][block][i];
    ASSAY_UNROLL
    for (int chain = 1; chain < kChains; ++chain) sums[strip][block][i] += c[chain][strip][block][i];
  }
}

// What a thread finishes: one output of each strip, of every other row.
template <int Strips>
struct Int8Output {
  std::int32_t column;
  std::int64_t output;  // the column of out, too
  bool exists;
  float before = 0;  // what is added to, of the first row

  // Before the wait: constants of outputs come to the processor meanwhile.
  ASSAY_DEVICE Int8Output(const LinearInt8Args& a, const Int8Place& at)
      : column(thread_index() % static_cast<std::int32_t>(kStrip)),
        output(std::int64_t{at.strip} * kStrip + column),
        exists(output < a.weight.outputs) {
    if (!exists || thread_index() >= kStrip) return;
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) {
      const std::int64_t i = output + strip * a.to.gated;
      Global<const float>(a.weight.scales).prefetch(i);
      if (a.to.bias) Global<const float>(a.to.bias).prefetch(i);
      if (a.zero_points) Global<const std::int32_t>(a.sums).prefetch(i);
    }
  }
  // Behind the wait.
  ASSAY_DEVICE void fetch_before(const LinearInt8Args& a, const Int8Place& at) {
    const std::int32_t row = at.first_row + thread_index() / static_cast<std::int32_t>(kStrip);
    if (a.to.adds && exists && row < a.rows)
      before = Global<float>(a.to.out).load_written<float>(row * a.to.out_stride + output);
  }
};

// What a norm is made of, of 16 columns of a row. In all lanes of a warp, half of which have a row.
ASSAY_DEVICE void leave_moments(const MomentParts& to, bool exists, std::int64_t row, std::int32_t strip,
                                std::int32_t columns, float value) {
  if (!to.data) return;
  const Floats2 part = part_moments(value, elements_of_part(columns, strip));
  if (exists && thread_index() % kPartElements == 0)
    Global<float>(to.data).as<Floats2>()[row * (to.stride / 2) + strip] = part;
}

// Adds the ranges of the warps, [strip][range][row][16 outputs, padded], which have been put there, and
// finishes them; scale_of(row of the block).
template <int Blocks, bool HasOutliers, int Strips, typename ScaleOf>
ASSAY_DEVICE void finish_codes(const LinearInt8Args& a, const Int8Place& at, const Int8Output<Strips>& own,
                               const Shared<std::int32_t>& partial, const ScaleOf& scale_of) {
  constexpr int kRows = 8 * Blocks, kColumns = static_cast<int>(kStrip);
  const Epilogue& to = a.to;
  const auto columns = static_cast<std::int32_t>(Strips == 2 ? to.gated : a.weight.outputs);
  ASSAY_NO_UNROLL
  for (int i = thread_index(); i < kRows * kColumns; i += kLinearThreads) {
    if (at.first_row + i / kWarp * 2 >= a.rows) break;  // a whole warp leaves
    const int row_of_block = i / kColumns;
    const std::int64_t row = at.first_row + row_of_block;
    const bool exists = own.exists && row < a.rows;
    float value = 0;
    if (exists) {
      const RowScale by = scale_of(row_of_block);
      float values[Strips];
      ASSAY_UNROLL
      for (int strip = 0; strip < Strips; ++strip) {
        std::int32_t sum = 0;
        ASSAY_UNROLL
        for (int range = 0; range < kRanges; ++range)
          sum += static_cast<std::int32_t>(
              partial[((strip * kRanges + range) * kRows + row_of_block) * kPaddedStrip + own.column]);
        const std::int64_t output = own.output + strip * to.gated;
        if (a.zero_points) sum -= by.zero_point * Global<const std::int32_t>(a.sums)[output];
        const float scale = Global<const float>(a.weight.scales)[output];
        values[strip] = value_of_codes(sum, by.absmax, scale);
        if (HasOutliers) values[strip] = add_outliers(a, row, output, scale, values[strip]);
        if (to.bias) values[strip] += Global<const float>(to.bias)[output];
      }
      value = activate(to.activation, values[0]);
      if (Strips == 2) value *= values[Strips - 1];
      const Global<float> out = Global<float>(to.out) + (row * to.out_stride + own.output);
      if (to.adds) value += i == thread_index() ? own.before : static_cast<float>(out[0]);
      out[0] = value;
      put_ordered(to.ordered, row, own.output, value);
    }
    leave_moments(to.moments, row < a.rows, row, at.strip, columns, value);
  }
}
template <int Blocks, int Strips>
ASSAY_DEVICE void put_sums(const Shared<std::int32_t>& partial, const Int8Place& at,
                           const std::int32_t (&sums)[Strips][Blocks][4]) {
  constexpr int kRows = 8 * Blocks;
  ASSAY_UNROLL
  for (int strip = 0; strip < Strips; ++strip) ASSAY_UNROLL
  for (int block = 0; block < Blocks; ++block) ASSAY_UNROLL
  for (int i = 0; i < 4; ++i)
    partial[((strip * kRanges + at.warp) * kRows + 8 * block + 2 * at.t + i % 2) * kPaddedStrip + at.g +
            8 * (i / 2)] = sums[strip][block][i];
}

// Codes that are in order already.
template <int Blocks, int Strips>
ASSAY_KERNEL_OF(kLinearThreads, Blocks < 8 ? 2 : 1)
ordered_int8(LinearInt8Args a) {
  if (a.to.lets_next_start) let_next_start();
  const Int8Place at(a.weight, 8 * Blocks);
  Int8Weights<Strips, kInt8UnitsAhead<Blocks, Strips>> weights(a, at);
  Int8Output<Strips> own(a, at);
  wait_for_previous();
  own.fetch_before(a, at);
  std::int32_t sums[Strips][Blocks][4];
  sum_units(sums, weights, CodesInOrder<Blocks>(a, at));
  const Shared<std::int32_t> partial = shared<std::int32_t>(0);
  put_sums(partial, at, sums);
  barrier();
  finish_codes<Blocks, true>(a, at, own, partial, [&](int row) {
    const std::int64_t i = at.first_row + row;
    return RowScale{
        Global<const float>(a.absmax)[i],
        a.zero_points ? static_cast<std::int32_t>(Global<const std::int32_t>(a.zero_points)[i]) : 0};
  });
}

// Codes that the block makes first; of rows that are normed, by moments that are there. It holds up to 6,144
// inputs of one row, of normed ones 4,096, with a gate half of that.
template <int Strips, bool AreNormed>
ASSAY_KERNEL_OF(kLinearThreads, 2)
coded_int8(QuantizedLinearArgs args) {
  constexpr int kAhead = Strips == 1 ? 6 : 4, kHeld = (AreNormed ? 4 : 6) / Strips;
  const LinearInt8Args& a = args.linear;
  const QuantizeArgs& from = args.quantize;
  if (a.to.lets_next_start) let_next_start();
  const Int8Place at(a.weight, 8);
  Int8Weights<Strips, kAhead> weights(a, at);
  Int8Output<Strips> own(a, at);
  if (AreNormed) prefetch_vector(Global<const float>(from.made.gain), from.inputs);
  if (AreNormed) prefetch_vector(Global<const float>(from.made.bias), from.inputs);
  prefetch_vector(Global<const float>(from.factors), from.inputs);
  const auto rows = static_cast<std::int32_t>(a.rows),
             stride = static_cast<std::int32_t>(coded_row_bytes(from.inputs));
  const Shared<RowScale> scales = shared<RowScale>(kScalesAt);
  const Shared<std::uint32_t> codes = shared<std::uint32_t>(kCodedRowsAt);
  if (a.to.is_added_to_early) own.fetch_before(a, at);
  wait_for_previous();
  const RowTeam team = RowTeam::of(rows);
  const std::int32_t row = smaller(team.index, rows - 1);
  const RowScale scale = code_row<kHeld, AreNormed>(
      from, row, team, static_cast<std::int32_t>(round_up(from.inputs, 64)), shared<Floats4>(0),
      [&] {
        // Where the codes of the row will be.
        return moments_of_team(from, row, team, team.index < rows,
                               shared<Floats2>(kCodedRowsAt + row * stride));
      },
      [&](std::int32_t k, std::uint32_t word) {
        if (team.index < rows) codes[row * (stride / 4) + word_of_codes(k)] = word;
      });
  if (team.thread == 0 && team.index < rows) scales[row] = scale;
  barrier();
  if (!a.to.is_added_to_early) own.fetch_before(a, at);
  std::int32_t sums[Strips][1][4];
  sum_units(sums, weights,
            CodesOfBlock{shared<Words4>(kCodedRowsAt), smaller(at.g, rows - 1) * (stride / 16) + at.t});
  const Shared<std::int32_t> partial = shared<std::int32_t>(kCodedRowsAt + rows * stride);
  put_sums(partial, at, sums);
  barrier();
  finish_codes<1, false>(a, at, own, partial, [&](int i) -> RowScale { return scales[i]; });
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
