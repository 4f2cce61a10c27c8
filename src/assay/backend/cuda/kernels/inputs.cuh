// The inputs of a matrix multiplication of few rows: as they lie in memory, or as an operation in front would
// make them.
#pragma once

#include "assay/backend/cuda/kernels/common.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kLinearThreads = 256, kRanges = kLinearThreads / kWarp;

struct NothingToPrepare {
  template <int Count>
  ASSAY_DEVICE void prepare(std::int64_t /*first*/) const {}
};

// Two neighbouring inputs of a row, zero where there is none.
struct InputRows : NothingToPrepare {
  Global<const float> x;
  std::int64_t stride, rows, inputs;
  bool has_pairs;

  ASSAY_DEVICE InputRows(const Global<const float>& from, std::int64_t x_stride, std::int64_t row_count,
                         std::int64_t input_count)
      : x(from),
        stride(x_stride),
        rows(row_count),
        inputs(input_count),
        has_pairs(x.is_aligned(8) && x_stride % 2 == 0) {}
  ASSAY_DEVICE InputRows(const LinearArgs& a, std::int64_t /*end*/, std::int64_t /*byte*/)
      : InputRows(Global<const float>(a.x), a.x_stride, a.rows, a.weight.inputs) {}

  ASSAY_DEVICE Floats2 pair(std::int64_t row, std::int64_t k) const {
    if (row >= rows || k >= inputs) return {0, 0};
    const std::int64_t at = row * stride + k;
    if (k + 1 >= inputs) return {x[at], 0};
    return has_pairs ? x.load<Floats2>(at / 2) : Floats2{x[at], x[at + 1]};
  }
};

// The same as an operation in front makes them, where there is one. A warp makes them in shared memory, a
// part of its range at a time: all lanes take part, and an input is made once, where a product reads it in
// some lanes, or in several. In all threads, behind the wait.
class MadeRows {
 public:
  // end: of the warp's inputs; byte: of kMadeBytes of shared memory, where there is something to make.
  ASSAY_DEVICE MadeRows(const LinearArgs& a, std::int64_t end, std::int64_t byte)
      : made_(a.made),
        in_(Global<const float>(a.x), a.x_stride, a.rows, a.weight.inputs),
        up_(in_.x + in_.inputs, a.x_stride, a.rows, a.weight.inputs),
        gain_(a.made.gain),
        bias_(a.made.bias),
        moments_(byte + 4 * kPartsApart),
        values_(byte + kMomentBytes + thread_index() / kWarp * kMadeBytesOfWarp),
        at_once_(static_cast<std::int32_t>(kMadeAtOnce) *
                 (static_cast<std::int32_t>(kMaxPrologueRows) / static_cast<std::int32_t>(in_.rows))),
        end_(least(end, in_.inputs)) {
    if (made_.kind != FusedPrologue::Kind::norm) return;
    for (std::int64_t row = 0; row < in_.rows; ++row) {
      const Moments of_row = moments_of(in_.x + row * in_.stride, in_.inputs, made_.subtracts_mean,
                                        made_.epsilon, shared<float>(byte));
      if (thread_index() == 0) {
        moments_[2 * row] = of_row.mean;
        moments_[2 * row + 1] = of_row.scale;
      }
    }
    barrier();
  }

  // What pair() is asked for next is among the warp's inputs [first, first + Count). In all lanes.
  template <int Count>
  ASSAY_DEVICE void prepare(std::int64_t first) {
    static_assert(kMadeAtOnce % Count == 0);
    if (made_.kind == FusedPrologue::Kind::none || first < made_end_) return;
    first_ = first;
    made_end_ = first + at_once_;
    const std::int64_t end = least(made_end_, end_);
    warp_barrier();  // what was there has been read
    ASSAY_NO_UNROLL
    for (std::int64_t row = 0; row < in_.rows; ++row) {
      ASSAY_NO_UNROLL
      for (std::int64_t k = first + thread_index() % kWarp * 2; k < end; k += kPairs * kPairStep)
        make(row, k, end);
    }
    warp_barrier();
  }

  ASSAY_DEVICE Floats2 pair(std::int64_t row, std::int64_t k) const {
    if (made_.kind == FusedPrologue::Kind::none) return in_.pair(row, k);
    if (row >= in_.rows || k >= in_.inputs) return {0, 0};
    return values_[place_of(row, k)];
  }

 private:
  // Pairs that a lane fetches before it needs the first of them, and the inputs from one to the next.
  static constexpr int kPairs = 2, kPairStep = 2 * kWarp;

  ASSAY_DEVICE std::int32_t place_of(std::int64_t row, std::int64_t k) const {
    return (static_cast<std::int32_t>(row) * (at_once_ + static_cast<std::int32_t>(kMadePadding)) +
            static_cast<std::int32_t>(k - first_)) /
           2;
  }
  ASSAY_DEVICE void make(std::int64_t row, std::int64_t k, std::int64_t end) const {
    const bool is_norm = made_.kind == FusedPrologue::Kind::norm;
    Floats2 x[kPairs], up[kPairs];
    ASSAY_UNROLL
    for (int j = 0; j < kPairs; ++j) {
      x[j] = in_.pair(row, k + j * kPairStep);
      up[j] = is_norm ? Floats2{0, 0} : up_.pair(row, k + j * kPairStep);
    }
    Moments of_row{0, 1};
    if (is_norm) of_row = {moments_[2 * row], moments_[2 * row + 1]};
    const auto made = [&](float value, float by, std::int64_t i) {
      if (i >= in_.inputs) return 0.0F;
      return is_norm ? normed(value, of_row, gain_, bias_, i) : activate(made_.activation, value) * by;
    };
    ASSAY_UNROLL
    for (int j = 0; j < kPairs; ++j)
      if (const std::int64_t i = k + j * kPairStep; i < end)
        values_[place_of(row, i)] = Floats2{made(x[j].x, up[j].x, i), made(x[j].y, up[j].y, i + 1)};
  }

  const FusedPrologue& made_;
  InputRows in_, up_;
  Global<const float> gain_, bias_;
  Shared<float> moments_;  // [rows][2]: mean and scale
  Shared<Floats2> values_;
  std::int32_t at_once_;
  std::int64_t end_, first_ = 0, made_end_ = -1;  // the ends of the warp's inputs, and of those that are made
};

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
