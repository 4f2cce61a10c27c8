// The order in which a GPU holds matrices, keys and values, against the fragment tables of the PTX manual.
#include "assay/backend/cuda/lower/layout.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <utility>

namespace assay::cuda {
namespace {

constexpr MatrixFormat kFormats[] = {MatrixFormat::float32, MatrixFormat::float16, MatrixFormat::bfloat16,
                                     MatrixFormat::int8, MatrixFormat::four_bit};

std::int64_t element_bytes(MatrixFormat format) {
  return format == MatrixFormat::float32                                    ? 4
         : format == MatrixFormat::int8 || format == MatrixFormat::four_bit ? 1
                                                                            : 2;
}

TEST(CudaLayout, EachElementHasAPlaceOfItsOwn) {
  for (const MatrixFormat format : kFormats)
    for (const auto& [rows, inputs] : {std::pair{1, 1}, {17, 65}, {48, 128}, {33, 200}}) {
      std::set<std::pair<std::int64_t, int>> places;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t k = 0; k < inputs; ++k) {
          const std::int64_t at = byte_of(format, inputs, row, k);
          EXPECT_GE(at, 0);
          EXPECT_EQ(at % element_bytes(format), 0);
          EXPECT_LE(at + element_bytes(format), matrix_bytes(format, rows, inputs));
          const int shift = format == MatrixFormat::four_bit ? shift_of_code(k) : 0;
          EXPECT_TRUE(places.emplace(at, shift).second) << "row " << row << ", input " << k;
        }
    }
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16": element i of operand A in lane 4 g + t is row g + 8 (i / 2 %
// 2), input 2 t + i % 2 + 8 (i / 4).
TEST(CudaLayout, SixteenBitTilesAreFragments) {
  for (const MatrixFormat format : {MatrixFormat::float16, MatrixFormat::bfloat16})
    for (int lane = 0; lane < kLanes; ++lane)
      for (int i = 0; i < 8; ++i) {
        const int g = lane / 4, t = lane % 4;
        EXPECT_EQ(byte_in_tile(format, g + 8 * (i / 2 % 2), 2 * t + i % 2 + 8 * (i / 4)), 16 * lane + 2 * i);
      }
}

// "Matrix Fragments for mma.m16n8k32", of 8 bits: row g + 8 (i / 4 % 2), input 4 t + i % 4 + 16 (i / 8).
TEST(CudaLayout, Int8TilesAreFragments) {
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 16; ++i) {
      const int g = lane / 4, t = lane % 4;
      EXPECT_EQ(byte_in_tile(MatrixFormat::int8, g + 8 * (i / 4 % 2), 4 * t + i % 4 + 16 * (i / 8)),
                16 * lane + i);
    }
}

// Word w of a lane is step w of 16 inputs, its byte j both elements of register j of m16n8k16's operand A.
TEST(CudaLayout, FourBitTilesAreFragmentsOfFourSteps) {
  for (int lane = 0; lane < kLanes; ++lane)
    for (int step = 0; step < 4; ++step)
      for (int i = 0; i < 8; ++i) {
        const int g = lane / 4, t = lane % 4, row = g + 8 * (i / 2 % 2);
        const int k = 16 * step + 2 * t + i % 2 + 8 * (i / 4);
        EXPECT_EQ(byte_in_tile(MatrixFormat::four_bit, row, k), 16 * lane + 4 * step + i / 2);
        EXPECT_EQ(shift_of_code(k), 4 * (i % 2));
      }
}

// "Matrix Fragments for mma.m16n8k8", tf32: row g + 8 (i % 2), slot t + 4 (i / 2); slots t and t + 4 stand
// for inputs 2 t and 2 t + 1.
TEST(CudaLayout, FloatTilesAreFragments) {
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int g = lane / 4, t = lane % 4;
      EXPECT_EQ(byte_in_tile(MatrixFormat::float32, g + 8 * (i % 2), 2 * t + i / 2), 16 * lane + 4 * i);
    }
}

TEST(CudaLayout, ScalesOfAGroupAreShared) {
  constexpr std::int64_t kRows = 40, kInputs = 200, kGroup = 64;
  std::set<std::tuple<std::int64_t, std::int64_t>> groups;
  std::set<std::int64_t> places;
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t k = 0; k < kInputs; ++k) {
      const std::int64_t at = scale_of(kInputs, kGroup, row, k);
      EXPECT_GE(at, 0);
      EXPECT_LT(at, scale_count(kRows, kInputs, kGroup));
      groups.emplace(row, k / kGroup);
      places.insert(at);
    }
  EXPECT_EQ(places.size(), groups.size());
}

TEST(CudaLayout, KeysAndValuesOfAPageDoNotOverlap) {
  for (const CacheFormat format :
       {CacheFormat::float32, CacheFormat::float16, CacheFormat::bfloat16, CacheFormat::int8}) {
    const CacheLayout layout{.format = format, .layers = 3, .kv_heads = 2, .head_dim = 20};
    EXPECT_EQ(layout.row_bytes() % 16, 0);
    EXPECT_GE(layout.row_bytes(), layout.head_dim * layout.element_bytes());
    std::set<std::int64_t> begins;
    for (int layer = 0; layer < layout.layers; ++layer)
      for (int head = 0; head < layout.kv_heads; ++head)
        begins.insert({layout.keys_at(layer, head), layout.values_at(layer, head)});
    EXPECT_EQ(begins.size(), 12U);
    std::int64_t end = 0;
    for (const std::int64_t begin : begins) {
      EXPECT_EQ(begin % 16, 0);
      EXPECT_GE(begin, end);
      end = begin + layout.keys_bytes();
    }
    EXPECT_EQ(end, layout.page_bytes());
  }
}

}  // namespace
}  // namespace assay::cuda
