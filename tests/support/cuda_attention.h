// Caches of an emulated GPU, and what attention over them gives, in double.
#pragma once

#include "support/cuda_ordered.h"

namespace assay::cuda::testing_support {

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
    const OrderedRows ordered(memory_, count, width, layout_.format == CacheFormat::float16);
    run(*runtime_,
        AttendArgs{.q = put(q),
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
                   .ordered = case_.head_dim <= kMaxOrderedHeadDim ? ordered.out() : OrderedRowsOut(),
                   .scratch = has_scratch ? room<float>(scratch) : DevicePointer<float>(),
                   .scratch_floats = has_scratch ? scratch : 0});
    Floats packed;
    const Floats got = get(out, count * (width + 1));
    if (case_.head_dim <= kMaxOrderedHeadDim) ordered.expect(got, width + 1);
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
