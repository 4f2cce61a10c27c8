// Matrix multiplications of many rows. A block computes 64 or 128 outputs of 64 or 128 rows; its warps stand
// 4 along the outputs and 2 along the rows, and each goes through all inputs.
//
// Rows lie in shared memory, 128 bytes of each at a time, in three stages that cp.async fills; weights come
// from global memory in fragment order, a stage ahead of their use. Sums are those of kernels/linear.cuh: a
// range after the other, added in order, so that a row has the same bits here as among few.
#pragma once

#include "assay/backend/cuda/kernels/linear.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kOutputWarps = 4, kRowWarps = 2;
// A step is what one mma takes of a row, in every format 32 bytes.
inline constexpr int kStages = 3, kStageSteps = 4, kStepBytes = 32, kStageBytes = kStageSteps * kStepBytes;

// A thread per 16 bytes of a row: inputs as the tensor cores take them, zero from the last on.
ASSAY_KERNEL_OF(kLinearThreads) round_inputs(RoundArgs a) {
  wait_for_previous();
  const std::int64_t row = block_y(), chunk = std::int64_t{block_x()} * kLinearThreads + thread_index();
  if (chunk >= a.out_stride / 16) return;
  const InputRows in(Global<const float>(a.x), a.x_stride, a.rows, a.inputs);
  Words4 words;
  if (a.arithmetic == Arithmetic::tf32) {
    // Slots t of an mma stand for even inputs, slots t + 4 for odd ones (layout.h).
    for (int i = 0; i < 4; ++i) {
      const Floats2 pair = in.pair(row, chunk / 2 * 8 + 2 * i);
      words.word[i] = tf32_bits(chunk % 2 == 0 ? pair.x : pair.y);
    }
  } else {
    for (int i = 0; i < 4; ++i) {
      const Floats2 pair = in.pair(row, chunk * 8 + 2 * i);
      words.word[i] = a.arithmetic == Arithmetic::float16 ? packed<Float16>(pair) : packed<Bfloat16>(pair);
    }
  }
  Global<std::byte>(a.out).as<Words4>()[row * (a.out_stride / 16) + chunk] = words;
}

// How tiles whose width is a step are multiplied; the others are 4-bit codes.
template <typename Type>
struct HalfTiles {
  using Sum = float;
  static ASSAY_DEVICE void prepare(Words4&) {}
  static ASSAY_DEVICE void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    Type::multiply(c, a, b);
  }
};
struct Tf32Tiles {
  using Sum = float;
  static ASSAY_DEVICE void prepare(Words4& w) {
    for (int i = 0; i < 4; ++i) w.word[i] = tf32_bits(float_of(w.word[i]));
  }
  static ASSAY_DEVICE void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    mma_tf32(c, a, b);
  }
};
struct Int8Tiles {
  using Sum = std::int32_t;
  static ASSAY_DEVICE void prepare(Words4&) {}
  static ASSAY_DEVICE void multiply(std::int32_t (&c)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]) {
    mma_s8(c, a, b);
  }
};

// Where a warp stands: `Strips` strips of outputs, `Blocks` blocks of 8 rows, tiles [begin, end) of the
// block's ranges of the inputs.
template <int Strips, int Blocks, int StepsOfTile>
struct GemmPlace {
  static constexpr int kRows = kRowWarps * Blocks * 8, kTileBytesOfRow = StepsOfTile * kStepBytes;
  std::int32_t lane, g, t, warp_row, range, end_range;
  std::int64_t first_row, strip, last_strip, tiles, begin, end;

  ASSAY_DEVICE explicit GemmPlace(const GemmInputs& in)
      : lane(thread_index() % kWarp),
        g(lane / 4),
        t(lane % 4),
        warp_row(thread_index() / kWarp / kOutputWarps * Blocks * 8),
        range(block_z() * in.ranges),
        end_range(range + in.ranges),
        first_row(std::int64_t{block_x()} * kRows),
        strip((std::int64_t{block_y()} * kOutputWarps + thread_index() / kWarp % kOutputWarps) * Strips),
        last_strip(strips_of(in.weight.outputs) - 1),
        tiles(tiles_of_strip(in.weight.format, in.weight.inputs)),
        begin(end_of(range - 1)),
        end(end_of(end_range - 1)) {}

  ASSAY_DEVICE std::int64_t end_of(std::int32_t one) const { return tiles * (one + 1) / kRanges; }
  // Beyond the last strip the last again, whose sums are not kept.
  ASSAY_DEVICE std::int64_t held_strip(int s) const { return least(strip + s, last_strip); }
  ASSAY_DEVICE Words4 tile(const Global<const std::byte>& data, int s, std::int64_t i) const {
    return data.load<Words4>((held_strip(s) * tiles + i) * (kTileBytes / 16) + lane);
  }
};

// Where 16 bytes of a row lie in their stage: so that 8 rows, read or written together, meet no bank twice.
ASSAY_DEVICE std::int32_t staged_word(std::int32_t row, std::int32_t chunk) {
  return row * (kStageBytes / 4) + ((chunk ^ (row & 7)) * 4);
}
template <typename Accessor>
ASSAY_DEVICE std::int32_t stage_at(std::int64_t stage) {
  return static_cast<std::int32_t>(stage % kStages) * Accessor::kRows * (kStageBytes / 4);
}

// Rows beyond the last repeat it. What is beyond the end is not there, and is not used.
template <typename Accessor>
ASSAY_DEVICE void load_stage(const Accessor& at, const GemmInputs& in, const Global<const std::byte>& x,
                             std::int64_t stage) {
  const std::int64_t first = at.begin * Accessor::kTileBytesOfRow + stage * kStageBytes,
                     end = at.end * Accessor::kTileBytesOfRow;
  constexpr int kChunks = kStageBytes / 16;
  for (int i = thread_index(); i < Accessor::kRows * kChunks; i += kLinearThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const std::int64_t byte = first + chunk * 16;
    if (byte < end)
      cp_async_16(shared<std::uint32_t>(0), stage_at<Accessor>(stage) + staged_word(row, chunk), x,
                  least(at.first_row + row, in.rows - 1) * in.x_stride + byte);
  }
  cp_async_commit();
}

// Operand B of a step: of each two blocks of 8 rows the registers of the one, then of the other.
template <int Blocks, typename Accessor>
ASSAY_DEVICE void load_step(std::uint32_t (&b)[Blocks / 2][4], const Accessor& at, std::int64_t stage,
                            int step) {
  const std::int32_t row = at.warp_row + at.lane % 8 + at.lane / 16 * 8, chunk = 2 * step + at.lane / 8 % 2;
  ASSAY_UNROLL
  for (int j = 0; j < Blocks / 2; ++j)
    ldmatrix_x4(b[j], shared<std::uint32_t>(0), stage_at<Accessor>(stage) + staged_word(row + 16 * j, chunk));
}

// Sums of the range that is gone through, and of those before it.
template <typename T, int Strips, int Blocks>
struct GemmSums {
  T c[Strips][Blocks][4] = {}, total[Strips][Blocks][4];

  ASSAY_DEVICE void fold(bool is_first) {
    ASSAY_UNROLL
    for (int s = 0; s < Strips; ++s) ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block) ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      total[s][block][i] = is_first ? c[s][block][i] : total[s][block][i] + c[s][block][i];
      c[s][block][i] = 0;
    }
  }
};

// Goes through the ranges as their ends are reached.
template <typename Accessor, typename Sums>
struct RangeFolder {
  const Accessor& at;
  Sums& sums;
  std::int32_t range;

  ASSAY_DEVICE RangeFolder(const Accessor& place, Sums& all) : at(place), sums(all), range(place.range) {}
  ASSAY_DEVICE void fold_before(std::int64_t tile) {
    while (range < at.end_range - 1 && at.end_of(range) <= tile) fold();
  }
  ASSAY_DEVICE void fold_rest() {
    while (range < at.end_range) fold();
  }
  ASSAY_DEVICE void fold() {
    sums.fold(range == at.range);
    ++range;
  }
};

template <typename Tiles, int Strips, int Blocks, typename Accessor>
ASSAY_DEVICE void sum_tiles(const Accessor& at, const GemmInputs& in,
                            GemmSums<typename Tiles::Sum, Strips, Blocks>& sums) {
  const Global<const std::byte> data(in.weight.data), x(in.x);
  Words4 w[Strips][kStageSteps] = {};
  ASSAY_UNROLL
  for (int s = 0; s < Strips; ++s) ASSAY_UNROLL
  for (int step = 0; step < kStageSteps; ++step)
    if (at.begin + step < at.end) w[s][step] = at.tile(data, s, at.begin + step);
  RangeFolder folder(at, sums);
  for (int stage = 0; stage < kStages - 1; ++stage) load_stage(at, in, x, stage);
  const std::int64_t stages = (at.end - at.begin + kStageSteps - 1) / kStageSteps;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    cp_async_wait<kStages - 2>();
    barrier();  // the stage is there, and the one before has been used
    load_stage(at, in, x, stage + kStages - 1);
    ASSAY_UNROLL
    for (int step = 0; step < kStageSteps; ++step) {
      const std::int64_t i = at.begin + stage * kStageSteps + step;
      if (i >= at.end) continue;
      folder.fold_before(i);
      std::uint32_t b[Blocks / 2][4];
      load_step<Blocks>(b, at, stage, step);
      ASSAY_UNROLL
      for (int s = 0; s < Strips; ++s) {
        Words4 a = w[s][step];
        Tiles::prepare(a);
        if (i + kStageSteps < at.end) w[s][step] = at.tile(data, s, i + kStageSteps);
        ASSAY_UNROLL
        for (int block = 0; block < Blocks; ++block) {
          const std::uint32_t columns[2] = {b[block / 2][block % 2 * 2], b[block / 2][block % 2 * 2 + 1]};
          Tiles::multiply(sums.c[s][block], a.word, columns);
        }
      }
    }
  }
  cp_async_wait<0>();
  folder.fold_rest();
}

// A tile of 4-bit codes is a stage. Sums of a group are scaled when it ends, as among few rows.
template <typename Type, int Strips, int Blocks, typename Accessor>
ASSAY_DEVICE void sum_codes(const Accessor& at, const GemmInputs& in, GemmSums<float, Strips, Blocks>& sums) {
  const Global<const std::byte> data(in.weight.data), x(in.x);
  const Shared<std::uint32_t> table = shared<std::uint32_t>(kStages * Accessor::kRows * kStageBytes);
  make_bank_tables<Type>(table, in.weight);  // the first barrier of the loop is behind it
  const GroupScales scales(in.weight, 0);
  const int steps = steps_of_group(in.weight.group);
  Words4 next[Strips] = {};
  ASSAY_UNROLL
  for (int s = 0; s < Strips; ++s)
    if (at.begin < at.end) next[s] = at.tile(data, s, at.begin);
  RangeFolder folder(at, sums);
  for (int stage = 0; stage < kStages - 1; ++stage) load_stage(at, in, x, stage);
  for (std::int64_t i = at.begin; i < at.end; ++i) {
    const std::int64_t stage = i - at.begin;
    cp_async_wait<kStages - 2>();
    barrier();
    load_stage(at, in, x, stage + kStages - 1);
    folder.fold_before(i);
    Words4 w[Strips];
    ASSAY_UNROLL
    for (int s = 0; s < Strips; ++s) {
      w[s] = next[s];
      if (i + 1 < at.end) next[s] = at.tile(data, s, i + 1);
    }
    float unscaled[Strips][Blocks][4] = {}, low[Strips] = {}, high[Strips] = {};
    ASSAY_UNROLL
    for (int step = 0; step < kStageSteps; ++step) {
      if ((step & (steps - 1)) == 0) ASSAY_UNROLL
      for (int s = 0; s < Strips; ++s) {
        const std::int64_t first = at.held_strip(s) * scales.groups * kStrip;
        low[s] = scales.scales[first + scales.offset(at.g, i * 64 + step * 16)];
        high[s] = scales.scales[first + scales.offset(at.g + 8, i * 64 + step * 16)];
      }
      std::uint32_t b[Blocks / 2][4];
      load_step<Blocks>(b, at, stage, step);
      const bool ends_group = ((step + 1) & (steps - 1)) == 0;
      ASSAY_UNROLL
      for (int s = 0; s < Strips; ++s) {
        std::uint32_t a[4];
        ASSAY_UNROLL
        for (int j = 0; j < 4; ++j) a[j] = table[(w[s].word[step] >> (8 * j) & 0xffU) * kWarp + at.lane];
        ASSAY_UNROLL
        for (int block = 0; block < Blocks; ++block) {
          const std::uint32_t columns[2] = {b[block / 2][block % 2 * 2], b[block / 2][block % 2 * 2 + 1]};
          Type::multiply(unscaled[s][block], a, columns);
          if (!ends_group) continue;
          ASSAY_UNROLL
          for (int j = 0; j < 4; ++j) {
            sums.c[s][block][j] = fmaf(unscaled[s][block][j], j < 2 ? low[s] : high[s], sums.c[s][block][j]);
            unscaled[s][block][j] = 0;
          }
        }
      }
    }
  }
  cp_async_wait<0>();
  folder.fold_rest();
}

// Calls take(row, output, sum) for what exists, strip by strip through shared memory: neighbouring lanes have
// neighbouring outputs.
template <typename T, int Strips, int Blocks, typename Accessor, typename Take>
ASSAY_DEVICE void take_sums(const Accessor& at, const GemmInputs& in, const T (&total)[Strips][Blocks][4],
                            const Take& take) {
  constexpr int kWarpRows = Blocks * 8;
  const Shared<T> mine = shared<T>(thread_index() / kWarp * kWarpRows * kPaddedStrip * 4);
  barrier();  // stages have been used
  ASSAY_UNROLL
  for (int s = 0; s < Strips; ++s) {
    warp_barrier();
    ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block) ASSAY_UNROLL
    for (int i = 0; i < 4; ++i)
      mine[(8 * block + 2 * at.t + i % 2) * kPaddedStrip + at.g + 8 * (i / 2)] = total[s][block][i];
    warp_barrier();
    ASSAY_NO_UNROLL
    for (int i = at.lane; i < kWarpRows * static_cast<int>(kStrip); i += kWarp) {
      const int in_warp = i / static_cast<int>(kStrip), column = i % static_cast<int>(kStrip);
      const std::int64_t row = at.first_row + at.warp_row + in_warp,
                         output = (at.strip + s) * kStrip + column;
      if (row < in.rows && output < in.weight.outputs)
        take(row, output, static_cast<T>(mine[in_warp * kPaddedStrip + column]));
    }
  }
}

// Where the sums of a range lie that are added later.
ASSAY_DEVICE std::int64_t partial_at(const GemmInputs& in, std::int64_t range, std::int64_t row,
                                     std::int64_t output) {
  return (range * in.rows + row) * in.weight.outputs + output;
}
template <typename T, int Strips, int Blocks, typename Accessor, typename Take>
ASSAY_DEVICE void finish_gemm(const Accessor& at, const GemmInputs& in, const T (&total)[Strips][Blocks][4],
                              const Take& take) {
  if (in.ranges == kRanges) return take_sums(at, in, total, take);
  const Global<T> partial = Global<std::byte>(in.partial).as<T>();
  take_sums(at, in, total, [&](std::int64_t row, std::int64_t output, T sum) {
    partial[partial_at(in, block_z(), row, output)] = sum;
  });
}
// A thread per output (block_x) and row (block_y) adds the ranges in order.
template <typename T, typename Take>
ASSAY_DEVICE void add_partial(const GemmInputs& in, const Take& take) {
  const std::int64_t row = block_y(), output = std::int64_t{block_x()} * kLinearThreads + thread_index();
  if (output >= in.weight.outputs) return;
  const Global<T> partial = Global<std::byte>(in.partial).as<T>();
  T sum = partial[partial_at(in, 0, row, output)];
  for (int range = 1; range < kRanges; ++range) sum += partial[partial_at(in, range, row, output)];
  take(row, output, sum);
}

template <typename Tiles, int Strips, int Blocks>
ASSAY_KERNEL_OF(kLinearThreads)
gemm_tiles(GemmArgs a) {
  wait_for_previous();
  const GemmPlace<Strips, Blocks, 1> at(a.in);
  GemmSums<float, Strips, Blocks> sums;
  sum_tiles<Tiles, Strips, Blocks>(at, a.in, sums);
  finish_gemm(at, a.in, sums.total,
              [&](std::int64_t row, std::int64_t output, float sum) { finish(a.to, row, output, sum); });
}

template <int Strips, int Blocks>
ASSAY_KERNEL_OF(kLinearThreads)
gemm_int8(GemmInt8Args a) {
  wait_for_previous();
  const GemmPlace<Strips, Blocks, 1> at(a.in);
  GemmSums<std::int32_t, Strips, Blocks> sums;
  sum_tiles<Int8Tiles, Strips, Blocks>(at, a.in, sums);
  finish_gemm(at, a.in, sums.total, [&](std::int64_t row, std::int64_t output, std::int32_t sum) {
    finish_int8(a.linear, row, output, sum);
  });
}

template <typename Type, int Strips, int Blocks>
ASSAY_KERNEL_OF(kLinearThreads)
gemm_codes(GemmArgs a) {
  wait_for_previous();
  const GemmPlace<Strips, Blocks, kStageSteps> at(a.in);
  GemmSums<float, Strips, Blocks> sums;
  sum_codes<Type, Strips, Blocks>(at, a.in, sums);
  finish_gemm(at, a.in, sums.total,
              [&](std::int64_t row, std::int64_t output, float sum) { finish(a.to, row, output, sum); });
}

ASSAY_KERNEL_OF(kLinearThreads) add_ranges_of_gemm(GemmArgs a) {
  wait_for_previous();
  add_partial<float>(
      a.in, [&](std::int64_t row, std::int64_t output, float sum) { finish(a.to, row, output, sum); });
}
ASSAY_KERNEL_OF(kLinearThreads) add_ranges_of_int8(GemmInt8Args a) {
  wait_for_previous();
  add_partial<std::int32_t>(a.in, [&](std::int64_t row, std::int64_t output, std::int32_t sum) {
    finish_int8(a.linear, row, output, sum);
  });
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
