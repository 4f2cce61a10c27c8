// Attention by tensor cores: a query has the same bits however many rows are attended at once.
#include <gtest/gtest.h>

#include "support/cuda_attention.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

class CudaAttentionTiles : public CudaAttention {
 protected:
  Floats some_of(const Floats& all, std::size_t first, std::size_t count) const {
    const auto width = static_cast<std::int64_t>(case_.heads) * case_.head_dim;
    const auto begin = all.begin() + static_cast<std::int64_t>(first) * width;
    return Floats(begin, begin + static_cast<std::int64_t>(count) * width);
  }
  Floats queries_of(std::size_t rows) {
    return random_.floats(static_cast<std::int64_t>(rows) * case_.heads * case_.head_dim, -2, 2);
  }
};

const std::vector<AttendCase>& tile_cases() {
  static const std::vector<AttendCase> cases{
      {.format = CacheFormat::bfloat16, .head_dim = 64, .heads = 4, .kv_heads = 2},
      {.format = CacheFormat::float16, .head_dim = 72, .heads = 3, .kv_heads = 3, .window = 70},
      {.format = CacheFormat::float16, .head_dim = 64, .heads = 71, .kv_heads = 1},
      {.format = CacheFormat::bfloat16,
       .head_dim = 128,
       .heads = 3,
       .kv_heads = 1,
       .window = 260,
       .soft_cap = 3},
      {.format = CacheFormat::float16, .head_dim = 100, .heads = 2, .kv_heads = 1, .has_slopes = true},
      {.format = CacheFormat::bfloat16, .head_dim = 256, .heads = 1, .kv_heads = 1},
      {.format = CacheFormat::float16, .head_dim = 168, .heads = 4, .kv_heads = 2, .window = 100},
      {.format = CacheFormat::int8, .head_dim = 64, .heads = 4, .kv_heads = 2},
      {.format = CacheFormat::int8, .head_dim = 72, .heads = 3, .kv_heads = 3, .window = 70, .soft_cap = 4},
      {.format = CacheFormat::int8, .head_dim = 100, .heads = 6, .kv_heads = 1, .has_slopes = true},
      {.format = CacheFormat::int8, .head_dim = 128, .heads = 2, .kv_heads = 1, .window = 260},
      {.format = CacheFormat::int8, .head_dim = 250, .heads = 2, .kv_heads = 2}};
  return cases;
}

TEST_F(CudaAttentionTiles, PrefillAndDecodeGiveTheSameBits) {
  for (const AttendCase& c : tile_cases()) {
    SCOPED_TRACE("dim " + std::to_string(c.head_dim) + ", heads " + std::to_string(c.heads));
    fill(c, {330, 70});
    store();
    // A part of a prompt that crosses pages and chunks, another sequence, and padding between them.
    std::vector<Row> rows;
    for (std::int32_t key = 245; key < 262; ++key) rows.push_back({0, key});
    rows.push_back({0, 329});
    for (const std::int32_t key : {-1, 0, 62, 63, 64, 69}) rows.push_back({1, key});
    const Floats q = queries_of(rows.size());
    sequences_hint_ = 1;
    const Floats together = attend(rows, q, false);
    expect_attended(rows, q, together);
    sequences_hint_ = static_cast<std::int64_t>(rows.size());
    EXPECT_EQ(attend(rows, q, false), together) << "rows apart";
    sequences_hint_ = 2;
    EXPECT_EQ(attend(rows, q, true), together) << "chunks side by side";
    sequences_hint_ = 1;
    for (const std::size_t row : {std::size_t{0}, std::size_t{11}, std::size_t{17}, std::size_t{21}})
      EXPECT_EQ(attend({rows[row]}, some_of(q, row, 1), row == 17), some_of(together, row, 1))
          << "row " << row;
  }
}

// Less shared memory: fewer rows at a time, a page at a time, the same bits.
TEST_F(CudaAttentionTiles, FitsSmallSharedMemory) {
  if (dynamic_cast<EmulatedRuntime*>(runtime_.get()) == nullptr)
    GTEST_SKIP() << "a GPU's shared memory is what it is: the emulation alone has some of every size";
  for (const CacheFormat format : {CacheFormat::bfloat16, CacheFormat::int8}) {
    const AttendCase c{.format = format, .head_dim = 256, .heads = 1, .kv_heads = 1};
    Floats wanted;
    for (const std::int64_t kilobytes : {227, 99}) {
      EmulatedDevice device;
      device.facts.shared_bytes_per_block = kilobytes << 10;
      std::unique_ptr<Runtime> runtime = make_emulated_runtime(device);
      random_ = Random();
      fill(c, {300});
      store();
      std::vector<Row> rows;
      for (std::int32_t key = 255; key < 300; key += 4) rows.push_back({0, key});
      const Floats q = queries_of(rows.size());
      runtime_.swap(runtime);
      const Floats got = attend(rows, q, false);
      runtime_.swap(runtime);
      if (wanted.empty()) wanted = got;
      EXPECT_EQ(got, wanted) << kilobytes;
    }
  }
}

// Keys and values of very different sizes: each has its own scale. Of values that are 2^40 times smaller come
// results that are, to the bit.
TEST_F(CudaAttentionTiles, ScalesOfCodesBelongToTheirKeys) {
  for (const int dim : {64, 100, 128, 200}) {
    SCOPED_TRACE("dim " + std::to_string(dim));
    fill({.format = CacheFormat::int8, .head_dim = dim, .heads = 4, .kv_heads = 2, .window = 150}, {300});
    Sequence& s = sequences_[0];
    const std::size_t width = at_of(2 * dim);
    for (std::size_t i = 0; i < s.keys.size(); ++i) {
      const std::size_t part = 2 * (i / width) + i % width / at_of(dim);  // that of a key and kv head
      s.keys[i] *= 0.02F * static_cast<float>(1 + part * 7 % 53);
      s.values[i] *= 0.03F * static_cast<float>(1 + part * 5 % 41);
    }
    store();
    std::vector<Row> rows;
    for (std::int32_t key = 50; key < 300; key += 11) rows.push_back({0, key});
    const Floats q = queries_of(rows.size());
    const Floats got = attend(rows, q, false);
    expect_attended(rows, q, got);
    for (float& value : s.values) value = std::ldexp(value, -40);
    store();
    const Floats small = attend(rows, q, false);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::ldexp(small[i], 40), got[i]) << i;
  }
}

// Values that are not finite reach the rows that see them and no others, in a tile as alone.
TEST_F(CudaAttentionTiles, WhatIsNotFiniteStaysWithTheRowsThatSeeIt) {
  for (const CacheFormat format : {CacheFormat::float16, CacheFormat::bfloat16, CacheFormat::int8}) {
    const AttendCase c{.format = format, .head_dim = 64, .heads = 1, .kv_heads = 1, .window = 20};
    fill(c, {80});
    sequences_[0].values[at_of(30 * 64 + 3)] = kInfinity;
    sequences_[0].keys[at_of(70 * 64)] = kNaN;
    store();
    std::vector<Row> rows;
    for (std::int32_t key = 24; key < 80; ++key) rows.push_back({0, key});
    const Floats q(rows.size() * 64, 0.1F), got = attend(rows, q, false);
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (std::size_t i = 0; i < 64; ++i) {
        const int key = rows[row].key;
        const bool is_of_value = i == 3 || format == CacheFormat::int8;  // one scale for all of it
        const bool is_bad = key >= 70 || (is_of_value && key >= 30 && key < 50);
        ASSERT_EQ(std::isfinite(got[row * 64 + i]), !is_bad) << "key " << key << ", element " << i;
      }
    sequences_hint_ = 1;
    for (const std::size_t row : {std::size_t{0}, std::size_t{5}, std::size_t{20}}) {
      const Floats alone = attend({rows[row]}, some_of(q, row, 1), false);
      for (std::size_t i = 0; i < 64; ++i)
        EXPECT_TRUE(is_same(alone[i], got[row * 64 + i])) << row << ", " << i;
    }
  }
}

}  // namespace
}  // namespace assay::cuda
