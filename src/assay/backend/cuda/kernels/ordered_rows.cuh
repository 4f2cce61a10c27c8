// Rows for multiplications of few of them (kernels/ordered.cuh), rounded and in the order of operand B: made
// by a kernel of its own, or by each block for itself, where a norm is in front whose moments are known.
//
// 32 inputs of a row are 16 words: word 4 t + 2 s + h holds inputs 16 s + 8 h + 2 t and the one behind it,
// which lane 4 g + t multiplies in the k16 step s (PTX ISA, "Matrix Fragments for mma.m16n8k16").
#pragma once

#include "assay/backend/cuda/kernels/linear.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kUnitInputs = 32, kUnitWords = kUnitInputs / 2;
ASSAY_DEVICE std::int64_t input_of_word(std::int64_t word) {
  return word / kUnitWords * kUnitInputs + (word >> 1 & 1) * 16 + (word & 1) * 8 + (word >> 2 & 3) * 2;
}

// A thread per word: as the inputs lie in memory, or as an operation in front would make them. Of a norm
// whose moments are not there a block makes the whole row.
ASSAY_KERNEL_OF(kLinearThreads) order_inputs(OrderArgs a) {
  wait_for_previous();
  const std::int64_t row = block_y(), words = a.out_stride / 4, n = a.inputs;
  const bool is_norm = a.made.kind == FusedPrologue::Kind::norm,
             is_gated = a.made.kind == FusedPrologue::Kind::gated;
  const Global<const float> x(a.x), gain(a.made.gain), bias(a.made.bias);
  const InputRows in(x, a.x_stride, a.rows, n), up(is_gated ? x + n : x, a.x_stride, a.rows, n);
  Moments of_row{0, 1};
  if (is_norm)
    of_row =
        a.made.moments.data
            ? moments_left<8>(a.made.moments, row, n, a.made.subtracts_mean, a.made.epsilon)
            : moments_of(x + row * a.x_stride, n, a.made.subtracts_mean, a.made.epsilon, shared<float>(0));
  const auto made = [&](float value, float by, std::int64_t i) {
    if (i >= n || a.made.kind == FusedPrologue::Kind::none) return value;
    return is_norm ? normed(value, of_row, gain, bias, i) : activate(a.made.activation, value) * by;
  };
  const Global<std::uint32_t> out = Global<std::byte>(a.out).as<std::uint32_t>() + row * words;
  const std::int64_t step = std::int64_t{grid_x()} * kLinearThreads;
  for (std::int64_t word = std::int64_t{block_x()} * kLinearThreads + thread_index(); word < words;
       word += step) {
    const std::int64_t k = input_of_word(word);
    const Floats2 value = in.pair(row, k), by = is_gated ? up.pair(row, k) : Floats2{0, 0};
    const Floats2 pair{made(value.x, by.x, k), made(value.y, by.y, k + 1)};
    out[word] = a.arithmetic == Arithmetic::float16 ? packed<Float16>(pair) : packed<Bfloat16>(pair);
  }
}

// As LinearPlace, in the 32 bits that indices of few rows need. Where a product has a gate, a block has a
// strip from the gate and the strip that it multiplies.
template <int Strips>
struct OrderedPlace {
  std::int32_t warp, lane, g, t, strip, first_row, tiles, begin, end;
  Global<const std::byte> strip_data[Strips];

  template <MatrixFormat Format>
  static ASSAY_DEVICE OrderedPlace of(const OrderedArgs& a, std::int32_t rows_of_block) {
    OrderedPlace at;
    at.warp = thread_index() / kWarp;
    at.lane = thread_index() % kWarp;
    at.g = at.lane / 4;
    at.t = at.lane % 4;
    at.strip = block_x();
    at.first_row = block_y() * rows_of_block;
    at.tiles = static_cast<std::int32_t>(tiles_of_strip(Format, a.weight.inputs));
    at.begin = at.tiles * at.warp / kRanges;
    at.end = at.tiles * (at.warp + 1) / kRanges;
    const std::int64_t bytes = Format == MatrixFormat::grouped
                                   ? grouped_code_bytes(a.weight.run.code_bits, a.weight.inputs)
                                   : at.tiles * kTileBytes;
    ASSAY_UNROLL
    for (int j = 0; j < Strips; ++j)
      at.strip_data[j] = Global<const std::byte>(a.weight.data) + at.distance(a, j) * bytes;
    return at;
  }
  // How far the block's strips are from the first.
  static ASSAY_DEVICE std::int32_t distance(const OrderedArgs& a, int j) {
    return j * static_cast<std::int32_t>(a.to.gated / kStrip);
  }
  ASSAY_DEVICE Words4 tile_of(int j, std::int32_t of_strip, std::int32_t i) const {
    return strip_data[j].load_once(std::int64_t{of_strip} * tiles * (kTileBytes / 16) +
                                   i * static_cast<std::int32_t>(kTileBytes / 16) + lane);
  }
  ASSAY_DEVICE Words4 tile(int j, std::int32_t i) const { return tile_of(j, strip, i); }
};

// The rows that a lane multiplies: of each block of 8 its own, the last one where there are fewer.
template <int Blocks>
struct OrderedRows {
  static constexpr int kUnitsAtOnce = 8;  // on their way from global memory
  Global<const std::byte> x;
  std::int32_t at[Blocks];

  template <typename Place>
  ASSAY_DEVICE OrderedRows(const OrderedArgs& a, const Place& place) : x(a.x) {
    const auto rows = static_cast<std::int32_t>(a.rows), stride = static_cast<std::int32_t>(a.x_stride / 16);
    ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block)
      at[block] = smaller(place.first_row + 8 * block + place.g, rows - 1) * stride + place.t;
  }
  ASSAY_DEVICE void units(Words4 (&out)[Blocks], std::int32_t i) const {
    ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block) out[block] = x.load_shared_by_blocks(at[block] + i * 4);
  }
};

// A few long rows, each warp's inputs of which come to shared memory at once: from global memory a warp would
// wait for every eight units. In all lanes of a warp, behind the wait.
struct StagedRows {
  static constexpr int kUnitsAtOnce = 8;
  std::int32_t first, read;

  // Units [from, end) are the warp's; byte: of staged_rows_bytes() of shared memory.
  template <typename Place>
  ASSAY_DEVICE StagedRows(const OrderedArgs& a, const Place& at, std::int32_t from, std::int32_t end,
                          std::int64_t byte)
      : first(from) {
    constexpr std::int32_t kVectorsOfUnit = kUnitWords / 4;
    const auto rows = static_cast<std::int32_t>(a.rows);
    const std::int32_t stride = static_cast<std::int32_t>(normed_units(a.weight.inputs)) * kVectorsOfUnit,
                       begin = static_cast<std::int32_t>(byte / 16) + at.warp * rows * stride;
    read = begin + smaller(at.g, rows - 1) * stride + at.t;
    const Global<const std::byte> x(a.x);
    const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
    ASSAY_NO_UNROLL
    for (std::int32_t row = 0; row < rows; ++row) ASSAY_NO_UNROLL
    for (std::int32_t i = at.lane; i < (end - from) * kVectorsOfUnit; i += kWarp)
      cp_async_16(words, 4 * (begin + row * stride + i), x,
                  row * a.x_stride + (from * kVectorsOfUnit + i) * 16);
    cp_async_commit();
    cp_async_wait<0>();
    warp_barrier();
  }
  ASSAY_DEVICE void units(Words4 (&out)[1], std::int32_t i) const {
    out[0] = shared<Words4>(0)[read + (i - first) * (kUnitWords / 4)];
  }
};

// Rows as a norm in front makes them: each warp makes its own inputs of them in shared memory. Created before
// the kernel in front is waited for: where registers hold gains, they are on their way then.
template <typename Type, bool HoldsGains>
class NormedRows {
 public:
  static constexpr int kUnitsAtOnce = 2;  // from shared memory
  // Units [first, end) are the warp's; byte: of normed_rows_bytes() of shared memory.
  template <typename Place>
  ASSAY_DEVICE NormedRows(const OrderedArgs& a, const Place& at, std::int32_t first, std::int32_t end,
                          std::int64_t byte)
      : a_(a),
        first_(first),
        vectors_((end - first) * kVectorsOfUnit),
        stride_(static_cast<std::int32_t>(normed_units(a.weight.inputs))),
        begin_(static_cast<std::int32_t>((byte + normed_moments_bytes(a.rows, a.weight.inputs)) / 4) +
               at.warp * static_cast<std::int32_t>(a.rows) * stride_ * kUnitWords),
        read_((begin_ + smaller(at.g, static_cast<std::int32_t>(a.rows) - 1) * stride_ * kUnitWords) / 4 +
              at.t),
        moments_at_(static_cast<std::int32_t>(byte)),
        has_vectors_(inputs_of(a) % 4 == 0 && a.made_stride % 4 == 0 && rows_of(a).is_aligned(16)),
        has_bias_vectors_(a.made.bias && inputs_of(a) % 4 == 0 &&
                          Global<const float>(a.made.bias).is_aligned(16)) {
    if (HoldsGains) fetch(gains_, Global<const float>(a_.made.gain), 0, 0);
    if (const Global<const float> bias(a_.made.bias); bias) {
      constexpr std::int32_t kLine = 32;  // elements of 128 bytes
      for (std::int32_t k = input_of(0) + thread_index() % kWarp * kLine;
           k < smaller(input_of(vectors_), inputs_of(a_)); k += kWarp * kLine)
        bias.prefetch(k);
    }
  }

  // In all threads, behind the wait.
  ASSAY_DEVICE void make() {
    const bool is_usual = HoldsGains && a_.rows == 1 && has_vectors_ && inputs_of(a_) % kPartElements == 0 &&
                          inputs_of(a_) <= kPartsOfLane * kWarp * kPartElements &&
                          vectors_ <= kVectors * kWarp;
    is_usual ? make_one() : make_rows();
  }
  ASSAY_DEVICE void units(Words4 (&out)[1], std::int32_t i) const {
    out[0] = shared<Words4>(0)[read_ + (i - first_) * (kUnitWords / 4)];
  }
  // Unit i of those that a warp has made, behind a barrier.
  ASSAY_DEVICE void units_of(Words4 (&out)[1], std::int32_t warp, std::int32_t i) const {
    const std::int32_t warps = warp - thread_index() / kWarp;
    out[0] = shared<Words4>(
        0)[read_ + (warps * static_cast<std::int32_t>(a_.rows) * stride_ + i) * (kUnitWords / 4)];
  }

 private:
  // Four inputs each; a lane has so many on their way at once.
  static constexpr std::int32_t kVectors = 2, kVectorsOfUnit = kUnitInputs / 4, kPartsOfLane = 4;

  // One row of whole parts.
  ASSAY_DEVICE void make_one() {
    PartsOfWarp<kPartsOfLane> parts;
    parts.fetch(a_.made.moments, inputs_of(a_));
    Words4 x[kVectors];
    fetch(x, rows_of(a_), 0, 0);
    put(x, parts.merged(inputs_of(a_), a_.made.subtracts_mean, a_.made.epsilon), 0, 0);
    warp_barrier();
  }
  ASSAY_DEVICE void make_rows() {
    const auto rows = static_cast<std::int32_t>(a_.rows);
    // Parts of moments are on their way at once, one of each row a thread, and then the first inputs, before
    // any of them is stored; each warp merges the parts.
    const std::int32_t parts = (inputs_of(a_) + kPartElements - 1) / kPartElements;
    const auto left = Global<float>(a_.made.moments.data).as<const Floats2>();
    const auto stride = static_cast<std::int32_t>(a_.made.moments.stride / 2);
    const Shared<Floats2> held = shared<Floats2>(moments_at_);
    const std::int32_t own = smaller(thread_index(), parts - 1);
    Floats2 part[kMaxNormedRows];
    ASSAY_UNROLL
    for (int row = 0; row < kMaxNormedRows; ++row)
      part[row] = left.template load_written<Floats2>(smaller(row, rows - 1) * stride + own);
    Words4 x[kVectors];
    fetch(x, rows_of(a_), 0, 0);
    ASSAY_UNROLL
    for (int row = 0; row < kMaxNormedRows; ++row)
      if (row < rows && thread_index() < parts) held[row * parts + thread_index()] = part[row];
    ASSAY_NO_UNROLL
    for (std::int32_t i = thread_index() + kLinearThreads; i < parts; i += kLinearThreads)
      for (std::int32_t row = 0; row < rows; ++row) held[row * parts + i] = left[row * stride + i];
    barrier();
    ASSAY_NO_UNROLL
    for (std::int32_t row = 0; row < rows; ++row) {
      const Moments of_row = merged_moments(inputs_of(a_), a_.made.subtracts_mean, a_.made.epsilon,
                                            [&](std::int32_t i) -> Floats2 { return held[row * parts + i]; });
      ASSAY_NO_UNROLL
      for (std::int32_t first = 0; first < vectors_; first += kVectors * kWarp) {
        if (row + first > 0) fetch(x, rows_of(a_), row, first);
        if (!HoldsGains || row + first > 0) fetch(gains_, Global<const float>(a_.made.gain), 0, first);
        put(x, of_row, row, first);
      }
    }
    warp_barrier();
  }

  static ASSAY_DEVICE std::int32_t inputs_of(const OrderedArgs& a) {
    return static_cast<std::int32_t>(a.weight.inputs);
  }
  static ASSAY_DEVICE Global<const float> rows_of(const OrderedArgs& a) {
    return Global<const float>(a.made_of);
  }
  ASSAY_DEVICE std::int32_t input_of(std::int32_t vector) const { return first_ * kUnitInputs + 4 * vector; }
  ASSAY_DEVICE void fetch(Words4 (&out)[kVectors], const Global<const float>& from, std::int32_t row,
                          std::int32_t first) const {
    const std::int64_t at = row * a_.made_stride;
    ASSAY_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const std::int32_t vector = first + j * kWarp + thread_index() % kWarp, k = input_of(vector);
      out[j] = {};
      if (vector >= vectors_) continue;
      if (has_vectors_) {
        if (k < inputs_of(a_)) out[j] = from.load_shared_by_blocks((at + k) / 4);
      } else {
        ASSAY_UNROLL
        for (int i = 0; i < 4; ++i)
          if (k + i < inputs_of(a_)) out[j].word[i] = bits_of(from[at + k + i]);
      }
    }
  }
  ASSAY_DEVICE void put(const Words4 (&x)[kVectors], const Moments& of_row, std::int32_t row,
                        std::int32_t first) const {
    const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
    const Global<const float> bias(a_.made.bias);
    ASSAY_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const std::int32_t vector = first + j * kWarp + thread_index() % kWarp, k = input_of(vector);
      if (vector >= vectors_) continue;
      float value[4];
      ASSAY_UNROLL
      for (int i = 0; i < 4; ++i)
        value[i] = (float_of(x[j].word[i]) - of_row.mean) * of_row.scale * float_of(gains_[j].word[i]);
      if (HoldsGains && has_bias_vectors_ && k < inputs_of(a_)) {
        const Floats4 more = bias.template load<Floats4>(k / 4);
        ASSAY_UNROLL
        for (int i = 0; i < 4; ++i) value[i] += more.at[i];
      }
      ASSAY_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (bias && !(HoldsGains && has_bias_vectors_) && k + i < inputs_of(a_)) value[i] += bias[k + i];
        if (k + i >= inputs_of(a_)) value[i] = 0;
      }
      // Pairs p and p + 1 of a unit are words of neighbouring lanes t.
      const std::int32_t pair = 2 * (vector % kVectorsOfUnit),
                         word = pair % 4 * 4 + pair / 8 * 2 + pair / 4 % 2,
                         at = begin_ + (row * stride_ + vector / kVectorsOfUnit) * kUnitWords + word;
      words[at] = packed<Type>({value[0], value[1]});
      words[at + 4] = packed<Type>({value[2], value[3]});
    }
  }

  const OrderedArgs& a_;
  std::int32_t first_, vectors_, stride_, begin_, read_;
  std::int32_t moments_at_;
  bool has_vectors_, has_bias_vectors_;
  Words4 gains_[kVectors];
};

// What a thread needs at the end of a strip of 8 rows beside their sums: on its way before the kernel in
// front is waited for, or right behind that.
struct EndInputs {
  float bias = 0, before = 0;
  bool has_bias = false, has_before = false;

  template <typename Place>
  ASSAY_DEVICE void fetch(const OrderedArgs& a, const Place& at) {
    const std::int32_t output = output_of(at);
    if (row_of(at) >= a.rows || output >= a.weight.outputs) return;
    has_bias = static_cast<bool>(a.to.bias);
    if (has_bias) bias = Global<const float>(a.to.bias).load_written<float>(output);
    if (a.to.is_added_to_early) fetch_before(a, at);
  }
  template <typename Place>
  ASSAY_DEVICE void fetch_behind_wait(const OrderedArgs& a, const Place& at) {
    if (a.to.adds && !a.to.is_added_to_early && row_of(at) < a.rows && output_of(at) < a.weight.outputs)
      fetch_before(a, at);
  }
  ASSAY_DEVICE float finish_row(const Epilogue& to, std::int64_t row, std::int64_t output, float sum) const {
    const Global<float> out = Global<float>(to.out) + (row * to.out_stride + output);
    const float own_bias = has_bias  ? bias
                           : to.bias ? static_cast<float>(Global<const float>(to.bias)[output])
                                     : 0.0F,
                own_before = has_before ? before
                             : to.adds  ? static_cast<float>(out[0])
                                        : 0.0F;
    return finish(to, row, output, sum, own_bias, own_before);
  }

 private:
  template <typename Place>
  static ASSAY_DEVICE std::int32_t row_of(const Place& at) {
    return at.first_row + thread_index() / static_cast<std::int32_t>(kStrip);
  }
  template <typename Place>
  static ASSAY_DEVICE std::int32_t output_of(const Place& at) {
    constexpr auto kColumns = static_cast<std::int32_t>(kStrip);
    return at.strip * kColumns + thread_index() % kColumns;
  }
  template <typename Place>
  ASSAY_DEVICE void fetch_before(const OrderedArgs& a, const Place& at) {
    has_before = true;
    before = Global<float>(a.to.out).load_written<float>(row_of(at) * a.to.out_stride + output_of(at));
  }
};

// Brings the biases of a strip to the block's processor.
template <int Strips, typename Place>
ASSAY_DEVICE void prefetch_biases(const OrderedArgs& a, const Place& at) {
  const std::int32_t output = at.strip * static_cast<std::int32_t>(kStrip);
  if (!a.to.bias || thread_index() >= Strips || output >= a.weight.outputs) return;
  Global<const float>(a.to.bias).prefetch(output + thread_index() * a.to.gated);
}

// What becomes of the sums of a block: 16 outputs of a row are half a warp's, all of whose lanes take part.
template <int Blocks, int Strips, typename Place>
ASSAY_DEVICE void finish_blocks(const OrderedArgs& a, const Place& at, const Shared<float>& partial,
                                const float (&c)[Strips][Blocks][4], const EndInputs& early = {}) {
  constexpr int kRows = 8 * Blocks, kOfStrip = kRanges * kRows, kColumns = static_cast<int>(kStrip);
  ASSAY_UNROLL
  for (int j = 0; j < Strips; ++j) ASSAY_UNROLL
  for (int block = 0; block < Blocks; ++block)
    put_partial(partial, at, kRows, j * kOfStrip + 8 * block, c[j][block]);
  barrier();
  const auto outputs = static_cast<std::int32_t>(Strips == 1 ? a.weight.outputs : a.to.gated),
             rows = static_cast<std::int32_t>(a.rows), first = at.strip * kColumns;
  for (std::int32_t i = thread_index(); i < kRows * kColumns; i += kLinearThreads) {
    const std::int32_t row = i / kColumns, column = i % kColumns, output = first + column;
    const auto sum_of = [&](int j) {
      float sum = 0;
      ASSAY_UNROLL
      for (int range = 0; range < kRanges; ++range) {
        const float one = partial[(j * kOfStrip + range * kRows + row) * kPaddedStrip + column];
        sum = range == 0 ? one : sum + one;
      }
      return sum;
    };
    const bool is_there = at.first_row + row < rows && output < outputs;
    float value = 0;
    if (is_there) {
      if constexpr (Strips == 2)
        value = finish_gated(a.to, at.first_row + row, output, sum_of(0), sum_of(1));
      else
        value = early.finish_row(a.to, at.first_row + row, output, sum_of(0));
    }
    if (!a.to.moments.data) continue;
    const Floats2 part = part_moments(value, elements_of_part(outputs, at.strip));
    if (column == 0 && is_there)
      Global<float>(a.to.moments.data)
          .as<Floats2>()[(at.first_row + row) * (a.to.moments.stride / 2) + at.strip] = part;
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
