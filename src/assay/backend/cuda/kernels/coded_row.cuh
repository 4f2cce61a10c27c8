// A multiplication of one row by an int8 matrix, which makes the codes of the row itself: of a row as it lies
// in memory, or as a norm makes it by moments that are there. Bits are those of kernels/ordered_int8.cuh.
//
// Time behind the wait for the kernel in front is that of one instruction behind another: each warp makes the
// codes of an eighth of the inputs, which it fetches at once, and of the rest of the row learns their range
// alone, through one barrier. Blocks take strip after strip, whose sums all warps share; or, since sums of
// codes are exact in any order, each warp has strips of its own and waits for nobody.
#pragma once

#include "assay/backend/cuda/kernels/ordered_int8.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// An eighth of a row by one warp, in quads of inputs: a lane holds every 32nd, or all lie in shared memory.
// Gains of a norm come from the L1 cache: registers have no room for them behind weights.
template <int Held, bool AreNormed>
class CodesOfWarp {
 public:
  // Before the wait. Inputs [first, end) are the warp's, multiples of 64; `a.inputs` end the row.
  ASSAY_DEVICE CodesOfWarp(const QuantizeArgs& a, std::int32_t first, std::int32_t end)
      : a_(a),
        n_(static_cast<std::int32_t>(a.inputs)),
        first_(first),
        end_(end),
        lane_(thread_index() % kWarp),
        is_held_(end - first <= Held * 4 * kWarp) {
    if constexpr (AreNormed) {
      prefetch_own(Global<const float>(a.made.gain));
      prefetch_own(Global<const float>(a.made.bias));
    }
    prefetch_own(Global<const float>(a.factors));
  }

  // Behind the wait, in all threads. The codes go to `codes` in the order of operand B; `ranges` has an
  // element a warp, `staged` room for the row where a warp does not hold its inputs.
  ASSAY_DEVICE RowScale make(const Shared<std::uint32_t>& codes, const Shared<Floats4>& ranges,
                             std::int64_t staged) {
    const Global<const float> x(a_.x);
    const Shared<Floats4> quads = shared<Floats4>(staged);
    RowRange range;
    Floats4 held[Held];
    if (AreNormed || is_held_) {
      // A row that is normed is held.
      PartsOfWarp<2 * Held> parts;
      if constexpr (AreNormed) parts.fetch(a_.made.moments, n_);
      Words4 words[Held];
      for_held([&](int i, std::int32_t k) { words[i] = x.load_shared_by_blocks(k / 4); });
      Moments of_row{0, 1};
      if constexpr (AreNormed) of_row = parts.merged(n_, a_.made.subtracts_mean, a_.made.epsilon);
      for_held([&](int i, std::int32_t k) {
        Words4 gain{};
        if constexpr (AreNormed) gain = Global<const float>(a_.made.gain).template load<Words4>(k / 4);
        held[i] = made(words[i], gain, of_row, k);
        range.take(held[i]);
      });
    } else {
      stage(x, quads);
      for (std::int32_t k = first_ + 4 * lane_; k < smaller(end_, n_); k += 4 * kWarp) {
        Floats4 quad = quads[k / 4];
        if (quad_changes()) {
          quad = rounded(multiplied(quad, k));
          quads[k / 4] = quad;
        }
        range.take(quad);
      }
    }
    RowCoder coder;
    coder.set(a_, of_block(range, ranges));
    const auto put = [&](const Floats4& quad, std::int32_t k) {
      codes[word_of_codes(k)] = k < n_ ? coder.codes(quad) : 0U;
    };
    if (AreNormed || is_held_) {
      ASSAY_UNROLL
      for (int i = 0; i < Held; ++i)
        if (const std::int32_t k = place(i); k < end_) put(held[i], k);
    } else {
      for (std::int32_t k = first_ + 4 * lane_; k < end_; k += 4 * kWarp)
        put(k < n_ ? static_cast<Floats4>(quads[k / 4]) : Floats4{}, k);
    }
    return coder.scale;
  }

 private:
  ASSAY_DEVICE std::int32_t place(int i) const { return first_ + 4 * (lane_ + kWarp * i); }
  template <typename Take>
  ASSAY_DEVICE void for_held(const Take& take) const {
    ASSAY_UNROLL
    for (int i = 0; i < Held; ++i)
      if (const std::int32_t k = place(i); k < end_ && k < n_) take(i, k);
  }
  ASSAY_DEVICE void prefetch_own(const Global<const float>& from) const {
    constexpr std::int32_t kLine = 32;  // elements of 128 bytes
    if (!from) return;
    for (std::int32_t k = first_ + lane_ * kLine; k < smaller(end_, n_); k += kWarp * kLine) from.prefetch(k);
  }
  ASSAY_DEVICE void stage(const Global<const float>& x, const Shared<Floats4>& quads) const {
    const Global<const std::byte> bytes = x.as<const std::byte>();
    ASSAY_NO_UNROLL
    for (std::int32_t k = first_ + 4 * lane_; k < smaller(end_, n_); k += 4 * kWarp)
      cp_async_16(quads, k / 4, bytes, std::int64_t{k} * 4);
    cp_async_commit();
    cp_async_wait<0>();  // a lane reads what it copied itself
  }

  ASSAY_DEVICE bool is_rounded() const {
    return a_.kind == QuantizeArgs::Kind::symmetric && a_.threshold > 0;
  }
  ASSAY_DEVICE bool quad_changes() const { return a_.factors || is_rounded(); }
  ASSAY_DEVICE Floats4 multiplied(Floats4 quad, std::int32_t k) const {
    const Global<const float> factors(a_.factors);
    if (!factors) return quad;
    const Floats4 by = factors.load<Floats4>(k / 4);
    ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) quad.at[j] *= by.at[j];
    return quad;
  }
  ASSAY_DEVICE Floats4 rounded(Floats4 quad) const {
    if (!is_rounded()) return quad;
    ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) quad.at[j] = rounded_to_f16(quad.at[j]);
    return quad;
  }
  // As HeldRow::norm() has it.
  ASSAY_DEVICE Floats4 made(const Words4& x, const Words4& gain, const Moments& of_row,
                            std::int32_t k) const {
    Floats4 quad;
    ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) {
      quad.at[j] = float_of(x.word[j]);
      if (AreNormed) quad.at[j] = (quad.at[j] - of_row.mean) * of_row.scale * float_of(gain.word[j]);
    }
    if constexpr (AreNormed) {
      if (const Global<const float> bias(a_.made.bias); bias) {
        const Floats4 more = bias.template load<Floats4>(k / 4);
        ASSAY_UNROLL
        for (int j = 0; j < 4; ++j) quad.at[j] += more.at[j];
      }
    }
    return rounded(multiplied(quad, k));
  }
  // The range of the row from those of all threads of the block.
  ASSAY_DEVICE RowRange of_block(const RowRange& own, const Shared<Floats4>& ranges) const {
    const RowRange of_warp = own.of_warp();
    if (lane_ == 0) ranges[thread_index() / kWarp] = Floats4{{of_warp.low, of_warp.high, of_warp.others, 0}};
    barrier();
    const Floats4 one = ranges[lane_ % kRanges];
    return RowRange{one.at[0], one.at[1], one.at[2]}.of_warp();
  }

  const QuantizeArgs& a_;
  std::int32_t n_, first_, end_, lane_;
  bool is_held_;
};

// Units of two tiles of each strip on their way: those of one strip, and the first of the next.
template <int Strips, int Ahead>
struct RowUnits {
  // From a unit of a strip on.
  struct Source {
    Global<const std::byte> strip[Strips];
    std::int32_t unit;
  };
  Global<const std::byte> data;
  std::int32_t tiles, gate_strips, lane, begin, end;
  Words4 ahead[Ahead][Strips][2];

  ASSAY_DEVICE RowUnits(const Matrix& weight, std::int64_t gated, std::int32_t first, std::int32_t last)
      : data(weight.data),
        tiles(static_cast<std::int32_t>(tiles_of_strip(MatrixFormat::int8, weight.inputs))),
        gate_strips(static_cast<std::int32_t>(gated / kStrip)),
        lane(thread_index() % kWarp),
        begin(first),
        end(last) {}
  ASSAY_DEVICE Source source(std::int32_t strip, std::int32_t unit) const {
    Source from;
    ASSAY_UNROLL
    for (int j = 0; j < Strips; ++j)
      from.strip[j] =
          (data + ((std::int64_t{strip + j * gate_strips} * tiles + 2 * unit) * kTileBytes + lane * 16))
              .pinned();
    from.unit = unit;
    return from;
  }
  // The last unit of a row may have one tile alone.
  ASSAY_DEVICE void fetch(int j, const Source& from) {
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (half == 0 || 2 * (from.unit + j) + half < tiles)
        ahead[j][strip][half] = from.strip[strip].load_once((2 * j + half) * kLanes);
      else
        ahead[j][strip][half] = Words4{};
    }
  }
  ASSAY_DEVICE void fetch_first(std::int32_t strip) {
    const Source from = source(strip, begin);
    ASSAY_UNROLL
    for (int j = 0; j < Ahead; ++j)
      if (begin + j < end) fetch(j, from);
  }
  // The sums of a strip, by codes of the row; the first units of `next` are fetched in place of the last.
  ASSAY_DEVICE void multiply(std::int32_t (&sums)[Strips][4], const Shared<Words4>& codes, std::int32_t strip,
                             std::int32_t next, bool has_next) {
    constexpr bool kHasRoom = Ahead * Strips > 4;  // registers
    constexpr int kAtOnce = kHasRoom ? (Ahead % 3 == 0 ? 3 : 4) : 2 / Strips,
                  kChains = (kHasRoom ? 4 : 2) / Strips;
    const std::int32_t t = lane % 4;
    std::int32_t c[kChains][Strips][4] = {};
    std::int32_t unit = begin;
    ASSAY_NO_UNROLL
    while (unit < end) {
      const bool is_last = unit + Ahead >= end;
      const Source more = source(is_last ? next : strip, is_last ? begin : unit + Ahead);
      const std::int32_t fetched = is_last && !has_next ? 0 : end - more.unit;
      ASSAY_UNROLL
      for (int first = 0; first < Ahead; first += kAtOnce) {
        Words4 x[kAtOnce];
        ASSAY_UNROLL
        for (int j = 0; j < kAtOnce; ++j)
          if (unit + first + j < end) x[j] = codes[(unit + first + j) * 4 + t];
        ASSAY_UNROLL
        for (int j = 0; j < kAtOnce; ++j) {
          if (unit + first + j < end) ASSAY_UNROLL
          for (int half = 0; half < 2; ++half) ASSAY_UNROLL
          for (int s = 0; s < Strips; ++s) {
            const std::uint32_t b[2] = {x[j].word[2 * half], x[j].word[2 * half + 1]};
            mma_s8(c[(2 * j + half) % kChains][s], ahead[first + j][s][half].word, b);
          }
          if (first + j < fetched) fetch(first + j, more);
        }
      }
      if (is_last) break;
      unit = more.unit;
    }
    ASSAY_UNROLL
    for (int s = 0; s < Strips; ++s) ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      sums[s][i] = c[0][s][i];
      ASSAY_UNROLL
      for (int chain = 1; chain < kChains; ++chain) sums[s][i] += c[chain][s][i];
    }
  }
};

// What a warp ends a strip with: lane c + 16 s has column c of strip s, so that a gate's lanes have what the
// first 16 multiply.
template <int Strips>
struct RowEnd {
  std::int32_t strip = 0, output = 0;  // of the first strip it is the column of out, too
  bool exists = false, is_out = false;
  float scale = 0, bias = 0, before = 0;
  std::int32_t sum_of_weights = 0;

  // The lane's output of a strip, which need not exist.
  static ASSAY_DEVICE std::int64_t own_output(const LinearInt8Args& a, std::int32_t of_strip) {
    const std::int32_t lane = thread_index() % kWarp;
    return std::int64_t{of_strip} * kStrip + lane % kStrip + lane / kStrip * a.to.gated;
  }
  static ASSAY_DEVICE bool is_there(const LinearInt8Args& a, std::int64_t own) {
    return thread_index() % kWarp < Strips * kStrip && own < a.weight.outputs;
  }
  // What no kernel writes comes to the processor's cache, where registers have no room for it.
  static ASSAY_DEVICE void prefetch(const LinearInt8Args& a, std::int32_t of_strip) {
    const std::int64_t own = own_output(a, of_strip);
    if (!is_there(a, own)) return;
    Global<const float>(a.weight.scales).prefetch(own);
    if (a.to.bias) Global<const float>(a.to.bias).prefetch(own);
    if (a.zero_points) Global<const std::int32_t>(a.sums).prefetch(own);
  }
  ASSAY_DEVICE void fetch(const LinearInt8Args& a, std::int32_t of_strip) {
    const std::int64_t own = own_output(a, of_strip);
    strip = of_strip;
    output = static_cast<std::int32_t>(own);
    exists = is_there(a, own);
    is_out = exists && thread_index() % kWarp < kStrip;
    if (!exists) return;
    scale = Global<const float>(a.weight.scales)[own];
    if (a.to.bias) bias = Global<const float>(a.to.bias)[own];
    if (a.zero_points) sum_of_weights = Global<const std::int32_t>(a.sums)[own];
  }
  ASSAY_DEVICE void fetch_before(const LinearInt8Args& a) {
    if (a.to.adds && is_out) before = Global<float>(a.to.out).load_written<float>(output);
  }
  // In all lanes of a warp.
  ASSAY_DEVICE void finish(const LinearInt8Args& a, const RowScale& by, std::int32_t sum) const {
    const Epilogue& to = a.to;
    if (a.zero_points) sum -= by.zero_point * sum_of_weights;
    float value = value_of_codes(sum, by.absmax, scale);
    if (to.bias) value += bias;
    if constexpr (Strips == 2) {
      const float multiplied = shuffle_xor(value, static_cast<int>(kStrip));
      value = activate(to.activation, value) * multiplied;
    } else {
      value = activate(to.activation, value);
    }
    if (to.adds) value += before;
    if (is_out) {
      Global<float>(to.out)[output] = value;
      put_ordered(to.ordered, 0, output, value);
    }
    leave_moments(to.moments, thread_index() % kWarp < kStrip, 0, strip,
                  static_cast<std::int32_t>(Strips == 2 ? to.gated : a.weight.outputs), value);
  }
};

template <int Strips, bool AreNormed, bool HaveOwnStrips, bool IsWide>
ASSAY_KERNEL_OF(kLinearThreads, IsWide ? 3 : 2)
coded_row_int8(QuantizedLinearArgs args) {
  constexpr int kAhead = (IsWide                     ? 4
                          : AreNormed || Strips == 2 ? 6
                                                     : 8) /
                         Strips,
                kHeld = static_cast<int>(coded_row_held(IsWide)) / (4 * kWarp * kRanges);
  const LinearInt8Args& a = args.linear;
  if (a.to.lets_next_start) let_next_start();
  const std::int32_t warp = thread_index() / kWarp, lane = thread_index() % kWarp,
                     units = static_cast<std::int32_t>((a.weight.inputs + 63) / 64),
                     first = units * warp / kRanges, end = units * (warp + 1) / kRanges,
                     strips = static_cast<std::int32_t>(Strips == 2 ? a.to.gated / kStrip
                                                                    : strips_of(a.weight.outputs)),
                     step = grid_x() * (HaveOwnStrips ? kRanges : 1);
  std::int32_t strip = HaveOwnStrips ? block_x() * kRanges + warp : block_x();
  const bool ends = HaveOwnStrips || warp == 0;
  RowUnits<Strips, kAhead> weights(a.weight, a.to.gated, HaveOwnStrips ? 0 : first,
                                   HaveOwnStrips ? units : end);
  if (strip < strips) weights.fetch_first(strip);
  RowEnd<Strips> own;
  if (ends) IsWide ? own.prefetch(a, strip) : own.fetch(a, strip);
  CodesOfWarp<kHeld, AreNormed> made(args.quantize, 64 * first, 64 * end);
  const bool adds_early = !IsWide && a.to.is_added_to_early;
  if (ends && adds_early) own.fetch_before(a);
  wait_for_previous();
  if (!IsWide && ends && !adds_early) own.fetch_before(a);
  const std::int64_t codes_at = kCodedRowCodesAt, partial_at = codes_at + std::int64_t{units} * 64;
  const RowScale scale = made.make(shared<std::uint32_t>(codes_at), shared<Floats4>(0),
                                   partial_at + coded_row_partial_bytes(Strips));
  HaveOwnStrips ? barrier() : warp_barrier();
  if (ends && IsWide) {
    own.fetch(a, strip);
    own.fetch_before(a);
  }
  // Sums of one strip are added while others are made: two places for them.
  const Shared<std::int32_t> partial = shared<std::int32_t>(partial_at);
  constexpr std::int32_t kColumns = static_cast<std::int32_t>(kStrip);
  const auto place = [&](int slot, int s, std::int32_t of_warp) {
    return ((slot * Strips + s) * kRanges + of_warp) * kColumns;
  };
  int slot = 0;
  ASSAY_NO_UNROLL
  for (; strip < strips; strip += step, slot ^= 1) {
    std::int32_t sums[Strips][4];
    weights.multiply(sums, shared<Words4>(codes_at), strip, strip + step, strip + step < strips);
    if (lane % 4 == 0) ASSAY_UNROLL
    for (int s = 0; s < Strips; ++s) {
      partial[place(slot, s, warp) + lane / 4] = sums[s][0];
      partial[place(slot, s, warp) + lane / 4 + 8] = sums[s][2];
    }
    HaveOwnStrips ? warp_barrier() : barrier();
    if (!ends) continue;
    const std::int32_t half = lane / kColumns, column = lane % kColumns;
    std::int32_t sum = 0;
    if constexpr (HaveOwnStrips) {
      sum = partial[place(slot, half % Strips, warp) + column];
    } else {
      constexpr int kOfLane = kRanges / (3 - Strips);  // without a gate each half has half of the warps
      ASSAY_UNROLL
      for (int i = 0; i < kOfLane; ++i)
        sum += static_cast<std::int32_t>(
            partial[place(slot, Strips == 2 ? half : 0, (Strips == 2 ? 0 : half * kOfLane) + i) + column]);
      if constexpr (Strips == 1) sum += shuffle_xor(sum, kColumns);
    }
    own.finish(a, scale, sum);
    if (strip + step < strips) {
      own.fetch(a, strip + step);
      own.fetch_before(a);
    }
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
