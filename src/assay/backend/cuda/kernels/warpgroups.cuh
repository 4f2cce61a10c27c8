// Matrix multiplications of many rows by Hopper's warpgroup instructions (wgmma.cuh). A block computes 64
// outputs of each of its warpgroups for 64, 128 or 256 rows.
//
// Weights go from global memory into the registers of which they are operand A; rows go through shared
// memory, 128 bytes of each a stage. All inputs are summed in one run, so that the bits are not those of few
// rows.
#pragma once

#include "assay/backend/cuda/kernels/linear.cuh"
#include "assay/backend/cuda/kernels/wgmma.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// While a stage is multiplied, three behind it are there or on their way; its products may be in flight when
// the next one begins, so that the one before it is free.
inline constexpr int kSwizzledStages = 5, kStagesAhead = 3;
inline constexpr int kSwizzledRowBytes = 128, kStepsOfStage = 4, kWarpgroup = 128, kWarpgroupOutputs = 64;
// Behind the stages, and what their beginning may skip: the codebook once a bank.
inline constexpr int kBookBytes = 16 * kWarp * 4;

// Where a warp stands: its strip of outputs, and the tiles of it.
struct WarpgroupPlace {
  std::int32_t lane, g, t, tiles;
  std::int64_t strip, last_strip;

  ASSAY_DEVICE explicit WarpgroupPlace(const Matrix& weight)
      : lane(thread_index() % kWarp),
        g(lane / 4),
        t(lane % 4),
        tiles(static_cast<std::int32_t>(tiles_of_strip(weight.format, weight.inputs))),
        strip(std::int64_t{block_y()} * (block_threads() / kWarp) + thread_index() / kWarp),
        last_strip(strips_of(weight.outputs) - 1) {}

  // Beyond the last strip the last again, whose sums are not kept.
  ASSAY_DEVICE std::int64_t held_strip() const { return least(strip, last_strip); }
};

// Rows of a block in shared memory.
template <int Threads, int Rows>
class SwizzledRows {
 public:
  static constexpr std::int32_t kStageBytesOfBlock = Rows * kSwizzledRowBytes;

  ASSAY_DEVICE explicit SwizzledRows(const GemmInputs& in)
      : first_byte_(first_swizzled_byte()),
        row_(thread_index() / 8),
        rows_left_(static_cast<std::int32_t>(least(in.rows - std::int64_t{block_x()} * Rows, Rows))),
        stride_(static_cast<std::int32_t>(in.x_stride)),
        chunk_(thread_index() % 8),
        byte_(chunk_ * 16),
        x_(Global<const std::byte>(in.x) + std::int64_t{block_x()} * Rows * in.x_stride),
        descriptor_(swizzled_rows(first_byte_)) {}

  // The next stage; what is not there, rows and the end of rows, becomes zero.
  ASSAY_DEVICE void fetch() {
    const std::int32_t to =
        first_byte_ + written_ * kStageBytesOfBlock + row_ * kSwizzledRowBytes + (chunk_ ^ (row_ & 7)) * 16;
    ASSAY_UNROLL
    for (int i = 0; i < Rows; i += Threads / 8) {
      const bool is_there = row_ + i < rows_left_ && byte_ < stride_;
      cp_async_16_or_zero(shared<std::uint32_t>(0), (to + i * kSwizzledRowBytes) / 4, x_,
                          is_there ? (row_ + i) * stride_ + byte_ : 0, is_there);
    }
    cp_async_commit();
    byte_ += kSwizzledRowBytes;
    written_ = written_ + 1 < kSwizzledStages ? written_ + 1 : 0;
  }
  // Operand B of 32 bytes of the stage that is multiplied.
  ASSAY_DEVICE std::uint64_t step(int i) const {
    return descriptor_ + static_cast<std::uint64_t>((read_ * kStageBytesOfBlock + i * 32) >> 4);
  }
  ASSAY_DEVICE void go_on() { read_ = read_ + 1 < kSwizzledStages ? read_ + 1 : 0; }

 private:
  std::int32_t first_byte_, row_, rows_left_, stride_, chunk_, byte_, written_ = 0, read_ = 0;
  Global<const std::byte> x_;
  std::uint64_t descriptor_;
};

template <typename Type>
struct HalfProducts {
  using Sum = float;
  template <int N>
  static ASSAY_DEVICE void multiply(float (&d)[N], const Words4& a, std::uint64_t b) {
    if constexpr (std::is_same_v<Type, Float16>)
      wgmma_f16(d, a.word, b);
    else
      wgmma_bf16(d, a.word, b);
  }
};
struct Int8Products {
  using Sum = std::int32_t;
  template <int N>
  static ASSAY_DEVICE void multiply(std::int32_t (&d)[N], const Words4& a, std::uint64_t b) {
    wgmma_s8(d, a.word, b);
  }
};

// Weights of which four tiles are a stage, Depth stages of them in registers: that which is multiplied, and
// those that come.
template <typename Products, int Depth>
class TileWeights {
 public:
  using Product = Products;
  static constexpr int kUnroll = Depth;

  ASSAY_DEVICE TileWeights(const Matrix& weight, const WarpgroupPlace& at)
      : tiles_(at.tiles),
        data_(Global<const std::byte>(weight.data) +
              (at.held_strip() * at.tiles * kTileBytes + at.lane * 16)) {
    ASSAY_UNROLL
    for (int i = 0; i + 1 < Depth; ++i) fetch(i, i);
  }
  ASSAY_DEVICE void begin(std::int32_t) {}
  ASSAY_DEVICE const Words4& step(int slot, int i) const { return w_[slot % Depth][i]; }
  // Behind the products of `stage`, which lies in `slot`: those of the stage before are done.
  ASSAY_DEVICE void refill(int slot, std::int32_t stage) {
    fetch((slot + Depth - 1) % Depth, stage + Depth - 1);
  }

 private:
  // Beyond the last tile zeros, as the rows have them.
  ASSAY_DEVICE void fetch(int slot, std::int32_t stage) {
    ASSAY_UNROLL
    for (int i = 0; i < kStepsOfStage; ++i) {
      const std::int32_t tile = stage * kStepsOfStage + i;
      w_[slot][i] = load_or_zero(data_, std::int64_t{tile} * kTileBytes, tile < tiles_);
    }
  }

  std::int32_t tiles_;
  Global<const std::byte> data_;
  Words4 w_[Depth][kStepsOfStage];
};

// 4-bit codes, of which a tile is a stage: each becomes code x scale, rounded to the type of the rows. They
// are `Ahead` stages ahead; a stage is made while the one before it is multiplied. Wide: groups of 64 inputs
// and more.
template <typename Type, bool IsWide, int Ahead>
class CodeWeights {
 public:
  using Product = HalfProducts<Type>;
  static constexpr int kUnroll = Ahead, kScales = IsWide ? 1 : kStepsOfStage;

  ASSAY_DEVICE CodeWeights(const Matrix& weight, const WarpgroupPlace& at)
      : tiles_(at.tiles),
        group_bits_(0),
        lane_(at.lane),
        data_(Global<const std::byte>(weight.data) + at.held_strip() * at.tiles * kTileBytes),
        scales_(Global<const float>(weight.scales) +
                (at.held_strip() * groups_of_strip(weight.inputs, weight.group) * kStrip + at.g)) {
    while (std::int64_t{1} << group_bits_ < weight.group) ++group_bits_;
    ASSAY_UNROLL
    for (int i = 0; i < Ahead; ++i) fetch(i, i);
  }
  // The codebook lies at `byte`, and a barrier is behind it.
  ASSAY_DEVICE void begin(std::int32_t byte) {
    book_ = byte;
    make(0);
    fetch(0, Ahead);
  }
  ASSAY_DEVICE const Words4& step(int slot, int i) const { return w_[slot % 2][i]; }
  ASSAY_DEVICE void refill(int slot, std::int32_t stage) {
    const int next = (slot + 1) % Ahead;
    make(next);
    fetch(next, stage + 1 + Ahead);
  }

 private:
  ASSAY_DEVICE void fetch(int slot, std::int32_t stage) {
    codes_[slot] = {};
    ASSAY_UNROLL
    for (int i = 0; i < kScales; ++i) low_[slot][i] = high_[slot][i] = 0;
    if (stage >= tiles_) return;
    codes_[slot] = data_.load_once(std::int64_t{stage} * (kTileBytes / 16) + lane_);
    ASSAY_UNROLL
    for (int i = 0; i < kScales; ++i) {
      // The tile is padded to whole groups, of which there is one at least.
      const std::int32_t group = (stage * 64 + i * 16) >> group_bits_;
      low_[slot][i] = scales_[group * kStrip];
      high_[slot][i] = scales_[group * kStrip + 8];
    }
  }
  ASSAY_DEVICE void make(int slot) {
    const Shared<float> book = shared<float>(book_);
    ASSAY_UNROLL
    for (int i = 0; i < kStepsOfStage; ++i) ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t codes = codes_[slot].word[i] >> (8 * j);
      const float scale = j % 2 == 0 ? low_[slot][IsWide ? 0 : i] : high_[slot][IsWide ? 0 : i];
      const Floats2 pair{book[static_cast<std::int32_t>(codes & 15U) * kWarp + lane_] * scale,
                         book[static_cast<std::int32_t>(codes >> 4 & 15U) * kWarp + lane_] * scale};
      w_[slot % 2][i].word[j] = packed<Type>(pair);
    }
    ASSAY_UNROLL
    for (int i = 0; i < kStepsOfStage; ++i) hold(w_[slot % 2][i]);
  }

  std::int32_t tiles_, group_bits_, lane_, book_ = 0;
  Global<const std::byte> data_;
  Global<const float> scales_;
  Words4 codes_[Ahead], w_[2][kStepsOfStage];
  float low_[Ahead][kScales], high_[Ahead][kScales];
};

// The sums of a thread. A stage is waited for, and shown to the products, while those of the one before it
// run.
template <int Groups, int Rows, typename Weights, typename Sum>
ASSAY_DEVICE void multiply_stages(const GemmInputs& in, Weights& weights, Sum (&d)[Rows / 2]) {
  SwizzledRows<Groups * kWarpgroup, Rows> rows(in);
  const std::int64_t stage_inputs = in.weight.format == MatrixFormat::int8 ? 128 : 64;
  const auto stages = static_cast<std::int32_t>((in.weight.inputs + stage_inputs - 1) / stage_inputs);
  ASSAY_NO_UNROLL
  for (int stage = 0; stage < kStagesAhead; ++stage) rows.fetch();
  ASSAY_UNROLL
  for (int i = 0; i < Rows / 2; ++i) d[i] = 0;
  cp_async_wait<kStagesAhead - 1>();
  fence_async_proxy();
  // Stages beyond the last, to whole turns of the loop, are zeros.
  ASSAY_NO_UNROLL
  for (std::int32_t first = 0; first < stages; first += Weights::kUnroll) {
    ASSAY_UNROLL
    for (int slot = 0; slot < Weights::kUnroll; ++slot) {
      barrier();  // the stage is there, and products of that before the last are done
      wgmma_fence();
      ASSAY_UNROLL
      for (int i = 0; i < kStepsOfStage; ++i)
        Weights::Product::multiply(d, weights.step(slot, i), rows.step(i));
      wgmma_commit();
      rows.go_on();
      cp_async_wait<kStagesAhead - 2>();
      fence_async_proxy();
      rows.fetch();
      wgmma_wait<1>();
      weights.refill(slot, first + slot);
    }
  }
  wgmma_wait<0>();
  cp_async_wait<0>();
  hold(d);
}

// Writes the sums as an Epilogue says, value(row, output, sum) in place of each. They go through shared
// memory, so that a lane has rows of one output, eight of them at a time: what is added to comes together.
template <int Rows, typename Sum, typename Value>
ASSAY_DEVICE void put_warpgroup_sums(const GemmInputs& in, const Epilogue& to, const WarpgroupPlace& at,
                                     const Sum (&d)[Rows / 2], const Value& value) {
  constexpr int kPadded = 20, kAtOnce = 8;  // lanes of four rows meet no bank twice
  const Shared<Sum> mine = shared<Sum>(thread_index() / kWarp * Rows * kPadded * 4);
  barrier();  // stages have been used
  ASSAY_UNROLL
  for (int i = 0; i < Rows / 2; ++i)
    mine[(8 * (i / 4) + 2 * at.t + i % 2) * kPadded + at.g + 8 * (i / 2 % 2)] = d[i];
  warp_barrier();
  const std::int32_t column = at.lane % 16;
  const std::int64_t output = at.strip * kStrip + column;
  if (output >= in.weight.outputs) return;
  const float bias = to.bias ? Global<const float>(to.bias)[output] : 0;
  const Global<float> out = Global<float>(to.out) + output;
  ASSAY_NO_UNROLL
  for (std::int32_t first = at.lane / 16; first < Rows; first += 2 * kAtOnce) {
    const std::int64_t row = std::int64_t{block_x()} * Rows + first;
    float x[kAtOnce] = {}, old[kAtOnce] = {};
    if (to.adds) ASSAY_UNROLL
    for (int i = 0; i < kAtOnce; ++i)
      if (row + 2 * i < in.rows) old[i] = out[(row + 2 * i) * to.out_stride];
    ASSAY_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      if (row + 2 * i >= in.rows) continue;
      x[i] = value(row + 2 * i, output, static_cast<Sum>(mine[(first + 2 * i) * kPadded + column]));
      if (to.bias) x[i] += bias;
    }
    if (to.activation != Activation::none) ASSAY_UNROLL
    for (int i = 0; i < kAtOnce; ++i) x[i] = activate(to.activation, x[i]);
    ASSAY_UNROLL
    for (int i = 0; i < kAtOnce; ++i)
      if (row + 2 * i < in.rows) out[(row + 2 * i) * to.out_stride] = to.adds ? x[i] + old[i] : x[i];
  }
}

// Blocks that an SM shall hold: as many as registers for sums and weights leave.
template <int Groups, int Rows>
inline constexpr int kTileBlocks = Groups == 2 && Rows == 128 ? 2
                                   : Rows == 64               ? 3
                                   : Groups == 1              ? 2
                                                              : 1;
template <int Groups, int Rows>
inline constexpr int kCodeBlocks = Groups == 1 ? 2 : 1;
// Stages of weights in registers: small blocks wait longer for each.
template <int Groups, int Rows>
inline constexpr int kTileStages = Groups == 2   ? 2
                                   : Rows == 128 ? 3
                                                 : 4;
template <bool IsWide, int Rows>
inline constexpr int kCodeStages = IsWide&& Rows < 256 ? 4 : 2;

template <typename Type, int Groups, int Rows>
ASSAY_KERNEL_OF(Groups* kWarpgroup, kTileBlocks<Groups, Rows>)
warpgroup_halves(GemmArgs a) {
  if constexpr (kHasWarpgroups) {
    const WarpgroupPlace at(a.in.weight);
    TileWeights<HalfProducts<Type>, kTileStages<Groups, Rows>> weights(a.in.weight, at);
    wait_for_previous();
    float d[Rows / 2];
    multiply_stages<Groups, Rows>(a.in, weights, d);
    put_warpgroup_sums<Rows>(a.in, a.to, at, d, [](std::int64_t, std::int64_t, float sum) { return sum; });
  } else {
    refuse();
  }
}

template <typename Type, bool IsWide, int Groups, int Rows>
ASSAY_KERNEL_OF(Groups* kWarpgroup, kCodeBlocks<Groups, Rows>)
warpgroup_codes(GemmArgs a) {
  if constexpr (kHasWarpgroups) {
    constexpr std::int32_t kStages = 1024 + kSwizzledStages * Rows * kSwizzledRowBytes;
    const WarpgroupPlace at(a.in.weight);
    CodeWeights<Type, IsWide, kCodeStages<IsWide, Rows>> weights(a.in.weight, at);
    const Shared<float> book = shared<float>(kStages);
    for (int i = thread_index(); i < 16 * kWarp; i += Groups * kWarpgroup)
      book[i] = a.in.weight.codebook[i / kWarp];
    barrier();
    weights.begin(kStages);
    wait_for_previous();
    float d[Rows / 2];
    multiply_stages<Groups, Rows>(a.in, weights, d);
    put_warpgroup_sums<Rows>(a.in, a.to, at, d, [](std::int64_t, std::int64_t, float sum) { return sum; });
  } else {
    refuse();
  }
}

template <int Groups, int Rows>
ASSAY_KERNEL_OF(Groups* kWarpgroup, kTileBlocks<Groups, Rows>)
warpgroup_int8(GemmInt8Args a) {
  if constexpr (kHasWarpgroups) {
    const WarpgroupPlace at(a.in.weight);
    TileWeights<Int8Products, kTileStages<Groups, Rows>> weights(a.in.weight, at);
    wait_for_previous();
    std::int32_t d[Rows / 2];
    multiply_stages<Groups, Rows>(a.in, weights, d);
    put_warpgroup_sums<Rows>(a.in, a.linear.to, at, d,
                             [&](std::int64_t row, std::int64_t output, std::int32_t sum) {
                               return value_of_codes(a.linear, row, output, sum);
                             });
  } else {
    refuse();
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
