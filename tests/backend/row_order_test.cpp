// Projections whose rows the file has in another order: packed, they are those of a file in order.
#include <gtest/gtest.h>

#include "assay/backend/backend.h"
#include "assay/backend/cpu/lower/pack.h"
#include "assay/base/thread_pool.h"
#include "support/random_floats.h"

namespace assay::cpu {
namespace {

constexpr std::int64_t kRun = 3, kRuns = 50, kOrderRows = kRun * kRuns, kOrderColumns = 256;

// Runs of rows in the order of their outputs, or in the file's.
class RunsSource : public WeightSource {
 public:
  explicit RunsSource(bool is_in_order) : is_in_order_(is_in_order) {}
  static std::int64_t output_of_run(std::int64_t run) { return run * 7 % kRuns * kRun; }
  void read_rows(const WeightSpec& weight, std::int64_t first, std::int64_t count,
                 float* out) const override {
    const bool is_vector = weight.kind == WeightSpec::Kind::vector;
    const std::int64_t width = is_vector ? 1 : weight.columns, rows = is_vector ? weight.columns : count;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t row = first + i;
      const std::int64_t output = is_in_order_ ? row : output_of_run(row / kRun) + row % kRun;
      std::copy_n(values_.data() + output * width, width, out + i * width);
    }
  }

 private:
  bool is_in_order_;
  std::vector<float> values_ = test::random_floats(kOrderRows * kOrderColumns, 5, 1.0);
};

TEST(RowOrder, IsThatOfTheOutputsInEveryFormat) {
  ThreadPool pool(3);
  for (const WeightFormat format : {formats::kFloat32, formats::kBfloat16, formats::kInt8, formats::kLlmInt8,
                                    formats::kNf4, formats::kFp4, formats::kInt4G128}) {
    SCOPED_TRACE(name_of(format));
    WeightSpec matrix{.name = "w",
                      .rows = kOrderRows,
                      .columns = kOrderColumns,
                      .kind = WeightSpec::Kind::matrix,
                      .format = format};
    WeightSpec bias{.name = "b", .rows = 1, .columns = kOrderRows, .kind = WeightSpec::Kind::vector};
    const auto in_order = pack_weights({matrix, bias}, RunsSource(true), pool);
    for (WeightSpec* each : {&matrix, &bias}) {
      each->run_rows = kRun;
      for (std::int64_t run = 0; run < kRuns; ++run)
        each->run_outputs.push_back(RunsSource::output_of_run(run));
    }
    const auto reordered = pack_weights({matrix, bias}, RunsSource(false), pool);
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const std::int64_t rows = in_order[i].spec.rows, columns = in_order[i].spec.columns;
      std::vector<float> a(static_cast<std::size_t>(columns)), b = a;
      for (std::int64_t row = 0; row < rows; ++row) {
        in_order[i].copy_row(row, a.data());
        reordered[i].copy_row(row, b.data());
        ASSERT_EQ(a, b) << "row " << row;
      }
    }
  }
}

// Codes of 1, and scales that tell rows apart.
class StoredSource : public WeightSource {
 public:
  void read_rows(const WeightSpec&, std::int64_t, std::int64_t, float*) const override { FAIL(); }
  void read_codes(const WeightSpec& weight, std::int64_t, std::int64_t row_count,
                  std::uint8_t* out) const override {
    std::fill_n(out, row_count * weight.columns, std::uint8_t{1});
  }
  std::vector<float> read_scales(const WeightSpec& weight) const override {
    std::vector<float> scales(static_cast<std::size_t>(weight.rows));
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 127.0F * static_cast<float>(i + 1);
    return scales;
  }
};

// So many rows that they are read in several parts.
TEST(StoredRows, HaveTheirOwnScales) {
  ThreadPool pool(3);
  const WeightSpec matrix{.name = "w",
                          .rows = 1500,
                          .columns = 400,
                          .kind = WeightSpec::Kind::matrix,
                          .format = formats::kInt8,
                          .is_stored_quantized = true};
  const auto packed = pack_weights({matrix}, StoredSource(), pool);
  std::vector<float> values(400);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    packed[0].copy_row(row, values.data());
    const auto wanted = static_cast<float>(row + 1);
    ASSERT_NEAR(values[399], wanted, 1e-3F * wanted);
  }
}

}  // namespace
}  // namespace assay::cpu
