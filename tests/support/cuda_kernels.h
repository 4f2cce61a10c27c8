// What tests of the CUDA backend's kernels share: matrices of every format, and an emulated device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "assay/backend/cuda/kernels/kernels.h"
#include "assay/quant/four_bit.h"
#include "assay/tensor/half.h"
#include "cuda_emulation/device_memory.h"

namespace assay::cuda::testing_support {

using Floats = std::vector<float>;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline std::size_t at_of(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

class Random {
 public:
  float next(float low = -1, float high = 1) {
    return low + (high - low) * static_cast<float>(engine_() >> 8) / static_cast<float>(1 << 24);
  }
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  Floats floats(std::int64_t n, float low = -1, float high = 1) {
    Floats x(at_of(n));
    for (float& one : x) one = next(low, high);
    return x;
  }

 private:
  std::mt19937 engine_{1};
};

inline std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}
inline bool is_same(float a, float b) {
  return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b));
}
inline void expect_near(float got, double wanted, double scale, const char* what) {
  if (std::isnan(wanted))
    EXPECT_TRUE(std::isnan(got)) << what << ": " << got;
  else if (std::isinf(wanted))
    EXPECT_EQ(static_cast<double>(got), wanted) << what;
  else
    EXPECT_LE(std::fabs(static_cast<double>(got) - wanted), scale)
        << what << ": " << got << " for " << wanted;
}

// A matrix of a format but grouped, and what its elements stand for.
struct TestMatrix {
  MatrixFormat format = MatrixFormat::float32;
  std::int64_t outputs = 0, inputs = 0, group = 0;
  Floats values = {};
  std::vector<int> codes = {};  // that of int8 and four_bit
  Floats scales = {};
  std::array<float, 16> codebook{};
  std::vector<std::byte> data = {};

  float value(std::int64_t row, std::int64_t k) const { return values[at_of(row * inputs + k)]; }
  int code(std::int64_t row, std::int64_t k) const { return codes[at_of(row * inputs + k)]; }
};

inline TestMatrix make_matrix(MatrixFormat format, std::int64_t outputs, std::int64_t inputs, Random& random,
                              std::int64_t group = 64,
                              const std::array<float, 16>& codebook = codebook_of(FourBit::nf4)) {
  TestMatrix m{.format = format, .outputs = outputs, .inputs = inputs, .group = group, .codebook = codebook};
  m.data.assign(at_of(matrix_bytes(format, outputs, inputs)), std::byte{0});
  if (format == MatrixFormat::int8) m.scales = random.floats(outputs, 0.1F, 2);
  if (format == MatrixFormat::four_bit) {
    m.scales.assign(at_of(scale_count(outputs, inputs, group)), 0);
    for (std::int64_t row = 0; row < outputs; ++row)
      for (std::int64_t k = 0; k < inputs; k += group)
        m.scales[at_of(scale_of(inputs, group, row, k))] = random.next(0.1F, 2);
  }
  for (std::int64_t row = 0; row < outputs; ++row)
    for (std::int64_t k = 0; k < inputs; ++k) {
      std::byte* to = m.data.data() + byte_of(format, inputs, row, k);
      float value = random.next();
      const auto put = [&](auto element) { std::memcpy(to, &element, sizeof element); };
      switch (format) {
        case MatrixFormat::float32:
          put(value);
          break;
        case MatrixFormat::float16:
          put(float_to_f16(value));
          value = f16_to_float(float_to_f16(value));
          break;
        case MatrixFormat::bfloat16:
          put(float_to_bf16(value));
          value = bf16_to_float(float_to_bf16(value));
          break;
        case MatrixFormat::int8:
          m.codes.push_back(random.below(255) - 127);
          put(static_cast<std::int8_t>(m.codes.back()));
          value = static_cast<float>(m.codes.back()) * (m.scales[at_of(row)] * (1.0F / 127.0F));
          break;
        case MatrixFormat::four_bit:
          m.codes.push_back(random.below(16));
          *to |= static_cast<std::byte>(m.codes.back() << shift_of_code(k));
          value = codebook[at_of(m.codes.back())] * m.scales[at_of(scale_of(inputs, group, row, k))];
          break;
        default:
          break;
      }
      m.values.push_back(value);
    }
  return m;
}

inline Matrix put_matrix(DeviceMemory& memory, const TestMatrix& m) {
  Matrix matrix{.data = memory.put(m.data),
                .outputs = m.outputs,
                .inputs = m.inputs,
                .group = m.group,
                .format = m.format};
  if (!m.scales.empty()) matrix.scales = memory.put(m.scales);
  std::copy(m.codebook.begin(), m.codebook.end(), matrix.codebook);
  return matrix;
}

class CudaKernels : public testing::Test {
 protected:
  explicit CudaKernels(std::unique_ptr<Runtime> own = make_test_runtime()) : runtime_(std::move(own)) {}
  Matrix put(const TestMatrix& m) { return put_matrix(memory_, m); }
  template <typename T>
  DevicePointer<T> put(const std::vector<T>& values) {
    return memory_.put(values);
  }
  template <typename T>
  DevicePointer<T> room(std::int64_t count) {
    return memory_.of<T>(at_of(count));
  }
  // What a multiplication works in.
  Scratch scratch_for(std::int64_t rows, std::int64_t inputs, Arithmetic arithmetic) {
    const std::int64_t bytes = round_up(rows * rounded_inputs_stride(inputs, arithmetic), 256);
    return {room<std::byte>(bytes), bytes};
  }
  template <typename T>
  std::vector<T> get(DevicePointer<T> from, std::int64_t count) {
    return memory_.get(from, at_of(count));
  }

  std::unique_ptr<Runtime> runtime_;
  DeviceMemory memory_{*runtime_};
  Random random_;
};

inline constexpr MatrixFormat kMatrixFormats[] = {MatrixFormat::float32, MatrixFormat::float16,
                                                  MatrixFormat::bfloat16, MatrixFormat::int8,
                                                  MatrixFormat::four_bit};

struct Shape {
  std::int64_t outputs, inputs, rows;
};
inline constexpr Shape kShapes[] = {{1, 1, 1},    {16, 64, 1},  {33, 65, 3},   {40, 200, 9}, {17, 131, 17},
                                    {5, 520, 33}, {20, 96, 70}, {18, 2603, 2}, {3, 3100, 40}};

struct Way {
  MatrixFormat format;
  Arithmetic arithmetic = Arithmetic::float32;
  std::int64_t group = 64;
};
inline std::vector<Way> ways() {
  std::vector<Way> all{{MatrixFormat::float32},
                       {MatrixFormat::float32, Arithmetic::tf32},
                       {MatrixFormat::float16, Arithmetic::float16},
                       {MatrixFormat::bfloat16, Arithmetic::bfloat16}};
  for (const std::int64_t group : {1, 8, 16, 32, 64, 128, 4096})
    for (const Arithmetic arithmetic : {Arithmetic::float32, Arithmetic::float16, Arithmetic::bfloat16})
      all.push_back({MatrixFormat::four_bit, arithmetic, group});
  return all;
}
inline std::string text_of(const Way& way) {
  return "format " + std::to_string(static_cast<int>(way.format)) + ", arithmetic " +
         std::to_string(static_cast<int>(way.arithmetic)) + ", group " + std::to_string(way.group);
}
// What an arithmetic makes of an element.
inline float rounded(float x, const Way& way) {
  if (way.format == MatrixFormat::four_bit && way.group < 16) return x;
  if (way.arithmetic == Arithmetic::float16) return f16_to_float(float_to_f16(x));
  if (way.arithmetic == Arithmetic::bfloat16) return bf16_to_float(float_to_bf16(x));
  if (way.arithmetic == Arithmetic::tf32) return std::bit_cast<float>((bits_of(x) + 0x1000U) & ~0x1fffU);
  return x;
}
inline double weight_of(const TestMatrix& m, std::int64_t row, std::int64_t k, const Way& way) {
  if (m.format != MatrixFormat::four_bit) return static_cast<double>(rounded(m.value(row, k), way));
  return static_cast<double>(rounded(m.codebook[at_of(m.code(row, k))], way)) *
         static_cast<double>(m.scales[at_of(scale_of(m.inputs, m.group, row, k))]);
}

}  // namespace assay::cuda::testing_support
