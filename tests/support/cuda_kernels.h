// What tests of CUDA kernels share: matrices, an emulated device, caches and attention over them in double.
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

// A matrix of a format (tests of whole plans have grouped ones), and what its elements stand for.
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
        case MatrixFormat::grouped:
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
  Matrix put(const TestMatrix& m) { return put_matrix(memory_, m); }
  template <typename T>
  DevicePointer<T> put(const std::vector<T>& values) {
    return memory_.put(values);
  }
  template <typename T>
  DevicePointer<T> room(std::int64_t count) {
    return memory_.of<T>(at_of(count));
  }
  template <typename T>
  std::vector<T> get(DevicePointer<T> from, std::int64_t count) {
    return memory_.get(from, at_of(count));
  }

  std::unique_ptr<Runtime> runtime_ = make_test_runtime();
  DeviceMemory memory_{*runtime_};
  Random random_;
};

inline constexpr MatrixFormat kMatrixFormats[] = {MatrixFormat::float32, MatrixFormat::float16,
                                                  MatrixFormat::bfloat16, MatrixFormat::int8,
                                                  MatrixFormat::four_bit};

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
  for (const std::int64_t group : {1, 8, 16, 32, 64, 128})
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

struct AttendCase {
  CacheFormat format = CacheFormat::float32;
  int head_dim = 64, heads = 4, kv_heads = 2;
  std::int64_t window = 0;
  float soft_cap = 0;
  bool has_slopes = false;
};

// Two sequences, the second of which began with padding: rows of both at the end of what is cached.
class CudaAttention : public CudaKernels {
 protected:
  static constexpr std::int64_t kLayers = 2, kLayer = 1;

  struct Sequence {
    std::int64_t length;
    std::int32_t first_page;
    Floats keys, values;  // [length][kv_heads * head_dim]
  };

  void fill(const AttendCase& c, const std::vector<std::int64_t>& lengths) {
    case_ = c;
    layout_ = {.format = c.format, .layers = kLayers, .kv_heads = c.kv_heads, .head_dim = c.head_dim};
    const std::int64_t width = c.kv_heads * c.head_dim;
    std::vector<DevicePointer<std::byte>> pages;
    sequences_.clear();
    for (const std::int64_t length : lengths) {
      sequences_.push_back({length, static_cast<std::int32_t>(pages.size()),
                            random_.floats(length * width, -2, 2), random_.floats(length * width, -2, 2)});
      for (std::int64_t i = 0; i < length; i += kPagePositions)
        pages.push_back(room<std::byte>(layout_.page_bytes()));
    }
    pages_ = put(pages);
  }
  void store() {
    const std::int64_t width = layout_.kv_heads * layout_.head_dim;
    for (Sequence& s : sequences_) {
      std::vector<std::int32_t> key{-1}, first_page(at_of(s.length + 1), s.first_page);
      for (std::int32_t i = 0; i < s.length; ++i) key.push_back(i);
      Floats both;  // a row of padding, then keys and values side by side
      both.assign(at_of(2 * width), kNaN);
      for (std::int64_t i = 0; i < s.length; ++i) {
        both.insert(both.end(), s.keys.begin() + i * width, s.keys.begin() + (i + 1) * width);
        both.insert(both.end(), s.values.begin() + i * width, s.values.begin() + (i + 1) * width);
      }
      const auto x = put(both);
      run(*runtime_, StoreArgs{.keys = x,
                               .values = x + width,
                               .x_stride = 2 * width,
                               .rows = s.length + 1,
                               .cache = layout_,
                               .layer = kLayer,
                               .places = {.key = put(key), .first_page = put(first_page), .pages = pages_}});
    }
  }
  // What the cache's format makes of a head's row.
  Floats held(const Floats& rows, std::int64_t position, std::int64_t kv_head) const {
    const float* x = rows.data() + (position * layout_.kv_heads + kv_head) * layout_.head_dim;
    Floats y(x, x + layout_.head_dim);
    float largest = 0;
    for (const float one : y) largest = std::max(largest, std::fabs(one));
    for (float& one : y) {
      if (layout_.format == CacheFormat::float16) one = f16_to_float(float_to_f16(one));
      if (layout_.format == CacheFormat::bfloat16) one = bf16_to_float(float_to_bf16(one));
      if (layout_.format == CacheFormat::int8)
        one = std::nearbyint(one * (127.0F / largest)) * (largest / 127.0F);
    }
    return y;
  }
  // Tensor cores take queries and weights in the cache's format, of int8 in bfloat16: a weight is off by half
  // a unit of it.
  bool is_tiled() const {
    return layout_.format != CacheFormat::float32 && layout_.head_dim >= 64 && layout_.head_dim <= 256;
  }
  float held_query(float x) const {
    if (!is_tiled()) return x;
    return layout_.format == CacheFormat::float16 ? f16_to_float(float_to_f16(x))
                                                  : bf16_to_float(float_to_bf16(x));
  }
  double tolerance() const {
    return !is_tiled() ? 6e-6 : layout_.format == CacheFormat::float16 ? 1e-3 : 8e-3;
  }
  struct Row {
    std::size_t sequence;
    std::int32_t key;
  };
  Floats attend(const std::vector<Row>& rows, const Floats& q, bool has_scratch) {
    std::vector<std::int32_t> key, first_page;
    std::int64_t longest = 0;
    for (const Row& row : rows) {
      key.push_back(row.key);
      first_page.push_back(sequences_[row.sequence].first_page);
      longest = std::max<std::int64_t>(longest, row.key + 1);
    }
    const std::int64_t width = case_.heads * case_.head_dim, count = static_cast<std::int64_t>(rows.size());
    const std::int64_t scratch = attend_scratch_floats(count, case_.heads, case_.head_dim, longest);
    slopes_.clear();
    for (int i = 0; i < case_.heads; ++i) slopes_.push_back(0.01F * static_cast<float>(i + 1));
    const auto out = room<float>(count * (width + 1));
    run(*runtime_, AttendArgs{.q = put(q),
                              .q_stride = width,
                              .rows = count,
                              .heads = case_.heads,
                              .layer = kLayer,
                              .cache = layout_,
                              .scale = 0.3F,
                              .window = case_.window,
                              .soft_cap = case_.soft_cap,
                              .slopes = case_.has_slopes ? put(slopes_) : DevicePointer<float>(),
                              .places = {.key = put(key), .first_page = put(first_page), .pages = pages_},
                              .sequences = sequences_hint_,
                              .longest = longest,
                              .out = out,
                              .out_stride = width + 1,
                              .scratch = has_scratch ? room<float>(scratch) : DevicePointer<float>(),
                              .scratch_floats = has_scratch ? scratch : 0});
    Floats packed;
    const Floats got = get(out, count * (width + 1));
    for (std::int64_t row = 0; row < count; ++row)
      packed.insert(packed.end(), got.begin() + row * (width + 1), got.begin() + row * (width + 1) + width);
    return packed;
  }
  void expect_attended(const std::vector<Row>& rows, const Floats& q, const Floats& got) {
    const std::int64_t dim = case_.head_dim, width = case_.heads * dim;
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (std::int64_t head = 0; head < case_.heads; ++head) {
        const Sequence& s = sequences_[rows[row].sequence];
        const std::int64_t last = rows[row].key, kv_head = head / (case_.heads / case_.kv_heads);
        const std::int64_t first = case_.window > 0 ? std::max<std::int64_t>(0, last - case_.window + 1) : 0;
        const float* query = q.data() + static_cast<std::int64_t>(row) * width + head * dim;
        std::vector<double> scores;
        for (std::int64_t key = first; key <= last; ++key) {
          const Floats k = held(s.keys, key, kv_head);
          double score = 0;
          for (std::int64_t i = 0; i < dim; ++i)
            score += static_cast<double>(held_query(query[i])) * static_cast<double>(k[at_of(i)]);
          score *= static_cast<double>(0.3F);
          const auto cap = static_cast<double>(case_.soft_cap);
          if (cap != 0) score = cap * std::tanh(score / cap);
          if (case_.has_slopes)
            score += static_cast<double>(slopes_[at_of(head)]) * static_cast<double>(key - last);
          scores.push_back(score);
        }
        const double highest = scores.empty() ? 0 : *std::max_element(scores.begin(), scores.end());
        double total = 0;
        std::vector<double> sums(at_of(dim));
        for (std::int64_t key = first; key <= last; ++key) {
          const double weight = std::exp(scores[at_of(key - first)] - highest);
          total += weight;
          const Floats v = held(s.values, key, kv_head);
          for (std::int64_t i = 0; i < dim; ++i) sums[at_of(i)] += weight * static_cast<double>(v[at_of(i)]);
        }
        for (std::int64_t i = 0; i < dim; ++i)
          expect_near(got[row * at_of(width) + at_of(head * dim + i)],
                      total == 0 ? 0 : sums[at_of(i)] / total, tolerance(), "attention");
      }
  }

  std::int64_t sequences_hint_ = 1;
  AttendCase case_;
  CacheLayout layout_;
  std::vector<Sequence> sequences_;
  DevicePointer<DevicePointer<std::byte>> pages_;
  Floats slopes_;
};

}  // namespace assay::cuda::testing_support
