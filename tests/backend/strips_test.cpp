// Matrices as the kernels read them: each number in its place, however the file has it; quantized ones that
// it has transposed are read in strips, and packed as if they were not.
#include <gtest/gtest.h>

#include <atomic>

#include "assay/backend/cpu/lower/pack.h"
#include "assay/tensor/half.h"
#include "support/random_floats.h"

namespace assay {
namespace {

constexpr std::int64_t kRows = 1040, kColumns = 4096, kOthers = 48;  // more than a strip holds

// A tensor with kOthers outputs before and behind those that the weight is.
class Source : public WeightSource {
 public:
  mutable std::atomic<std::int64_t> most{0};  // numbers read at once

  void read_rows(const WeightSpec& weight, std::int64_t first_row, std::int64_t row_count,
                 float* out) const override {
    const std::int64_t width = weight.stored_transposed ? weight.rows : weight.columns;
    most = std::max<std::int64_t>(most, row_count * width);
    for (std::int64_t i = 0; i < row_count; ++i)
      for (std::int64_t j = 0; j < width; ++j)
        *out++ = weight.stored_transposed ? at(weight.tensor_first + j, first_row + i)
                                          : at(weight.tensor_first + first_row + i, j);
  }

  float at(std::int64_t output, std::int64_t input) const {
    return values_[static_cast<std::size_t>((output * 7919 + input * 31 + output * input) % 65521)];
  }

 private:
  std::vector<float> values_ = test::random_floats(65521, 5, 1);
};

TEST(Strips, ArePackedAsRowsAre) {
  ThreadPool pool(3);
  for (const WeightFormat format :
       {formats::kInt8, formats::kLlmInt8, formats::kNf4, formats::kFp4Dq, formats::kInt4G128}) {
    SCOPED_TRACE(name_of(format));
    WeightSpec spec{.name = "w",
                    .rows = kRows,
                    .columns = kColumns,
                    .kind = WeightSpec::Kind::matrix,
                    .format = format,
                    .tensor_first = kOthers,
                    .tensor_count = kRows + 2 * kOthers};
    for (std::int64_t k = 0; k < kColumns; ++k)
      spec.column_factors.push_back(0.5F + static_cast<float>(k % 3));
    Source source;
    const auto rows = cpu::pack_weights({spec}, source, pool);
    spec.stored_transposed = true;
    source.most = 0;
    const auto strips = cpu::pack_weights({spec}, source, pool);
    EXPECT_LT(source.most, kRows * kColumns) << "one strip is no test";
    ASSERT_EQ(rows[0].bytes, strips[0].bytes);
    EXPECT_EQ(std::memcmp(rows[0].data.data(), strips[0].data.data(), rows[0].data.size()), 0);
  }
}

TEST(Panels, HoldEachWeightInItsPlaceAndZerosAround) {
  constexpr std::int64_t kPanel = 16;
  ThreadPool pool(2);
  const Source source;
  for (const WeightFormat format : {formats::kFloat32, formats::kBfloat16})
    for (const bool is_transposed : {false, true})
      for (const std::int64_t rows : {1, 16, 40, 83, 500})
        for (const std::int64_t columns : {1, 2, 33, 128, 131, 300}) {
          const WeightSpec spec{.name = "w",
                                .rows = rows,
                                .columns = columns,
                                .kind = WeightSpec::Kind::matrix,
                                .stored_transposed = is_transposed,
                                .format = format};
          const auto packed = cpu::pack_weights({spec}, source, pool);
          const bool is_float32 = format == formats::kFloat32;
          const std::int64_t held = is_float32 ? columns : (columns + 31) / 32 * 32;
          ASSERT_EQ(packed[0].panels, (rows + kPanel - 1) / kPanel);
          const std::byte* bytes = packed[0].data.data();
          for (std::int64_t row = 0; row < packed[0].panels * kPanel; ++row)
            for (std::int64_t k = 0; k < held; ++k) {
              const float value = row < rows && k < columns ? source.at(row, k) : 0.0F;
              const std::int64_t panel = row / kPanel * held * kPanel;
              float found = 0;
              if (is_float32)
                found = reinterpret_cast<const float*>(bytes)[panel + k * kPanel + row % kPanel];
              else
                found = bf16_to_float(reinterpret_cast<const std::uint16_t*>(
                    bytes)[panel + k / 2 * 2 * kPanel + row % kPanel * 2 + k % 2]);
              ASSERT_EQ(found, is_float32 ? value : bf16_to_float(float_to_bf16(value)))
                  << rows << "x" << columns << " " << is_transposed << " " << row << " " << k;
            }
        }
}

}  // namespace
}  // namespace assay
