// Projections whose rows the file has in another order: packed, they are those of a file in order.
#include <gtest/gtest.h>

#include "assay/backend/backend.h"
#include "assay/backend/cpu/pack.h"
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
  for (const WeightFormat format :
       {WeightFormat::float32, WeightFormat::bfloat16, WeightFormat::int8, WeightFormat::llm_int8,
        WeightFormat::nf4, WeightFormat::fp4, WeightFormat::int4_g128}) {
    SCOPED_TRACE(info(format).name);
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

}  // namespace
}  // namespace assay::cpu
