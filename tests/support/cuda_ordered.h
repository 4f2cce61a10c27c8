// Rows that an operation leaves in order for the multiplication behind it (kernels/ordered.cuh).
#pragma once

#include "support/cuda_kernels.h"

namespace assay::cuda::testing_support {

class OrderedRows {
 public:
  OrderedRows(DeviceMemory& memory, std::int64_t rows, std::int64_t columns, bool is_float16)
      : memory_(memory),
        rows_(rows),
        columns_(columns),
        stride_(rounded_inputs_stride(columns, Arithmetic::bfloat16)),
        is_float16_(is_float16),
        data_(memory.of<std::byte>(at_of(rows * stride_))) {}

  OrderedRowsOut out() const { return {.out = data_, .out_stride = stride_, .is_float16 = is_float16_}; }
  // They are the rows of `values`, `stride` apart, rounded.
  void expect(const Floats& values, std::int64_t stride) const {
    const auto halves = memory_.get(data_.as<std::uint16_t>(), at_of(rows_ * stride_ / 2));
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t k = 0; k < columns_; ++k) {
        const float value = values[at_of(row * stride + k)];
        const std::uint16_t wanted = is_float16_ ? float_to_f16(value) : float_to_bf16(value),
                            got = halves[at_of(row * stride_ / 2 + half_of(k))];
        ASSERT_TRUE(got == wanted || std::isnan(value)) << "row " << row << ", column " << k;
      }
  }

 private:
  // Word 4 t + 2 s + h of 16 holds inputs 16 s + 8 h + 2 t and the one behind it.
  static std::int64_t half_of(std::int64_t k) {
    const std::int64_t s = k / 16 % 2, h = k / 8 % 2, t = k / 2 % 4;
    return k / 32 * 32 + (4 * t + 2 * s + h) * 2 + k % 2;
  }

  DeviceMemory& memory_;
  std::int64_t rows_, columns_, stride_;
  bool is_float16_;
  DevicePointer<std::byte> data_;
};

}  // namespace assay::cuda::testing_support
