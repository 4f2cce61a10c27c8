// The figures of a test of speed, exact for samples, costs and readings that the test makes up.
#include "assay/studies/bench_figures.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

Cost cost_of_bytes(std::int64_t weights, std::int64_t kv, double flops) {
  Cost cost;
  cost.weight_bytes = {weights};
  cost.kv_bytes = {kv};
  cost.flops = {flops};
  return cost;
}

BenchRow row_of_samples(std::vector<double> samples) {
  BenchRow row;
  row.spec = {.prompt_tokens = 4, .new_tokens = 0, .depth = 0, .batch = 2};
  row.samples_s = std::move(samples);
  return row;
}

TEST(BenchFigures, SpeedIsThatOfTheMedianSample) {
  BenchRow row = row_of_samples({1, 2, 4, 8, 16});
  set_speed(row, cost_of_bytes(6'000'000'000, 2'000'000'000, 16e9));
  EXPECT_EQ(row.median_s, 4);
  EXPECT_DOUBLE_EQ(*row.spread, (8.0 - 2) / 4);
  EXPECT_DOUBLE_EQ(row.tokens_per_sec, 2);
  EXPECT_DOUBLE_EQ(row.bytes_per_token, 1e9);
  EXPECT_DOUBLE_EQ(row.flops_per_token, 2e9);
  EXPECT_DOUBLE_EQ(row.achieved_gb_s, 2);
  EXPECT_DOUBLE_EQ(row.achieved_gflops, 4);
  row = row_of_samples({1, 3});
  set_speed(row, cost_of_bytes(1, 1, 1));
  EXPECT_DOUBLE_EQ(*row.spread, 0.5);  // 1.5 to 2.5, of 2
  row = row_of_samples({2});
  set_speed(row, cost_of_bytes(1, 1, 1));
  EXPECT_EQ(row.median_s, 2);
  EXPECT_FALSE(row.spread);
}

class BenchRoofline : public testing::Test {
 protected:
  // For 8 GB and so many operations in samples of these times.
  BenchRow row(double flops, std::vector<double> reading, std::vector<double> computing,
               std::vector<double> samples = {4}) {
    BenchRow made = row_of_samples(std::move(samples));
    const Cost cost = cost_of_bytes(6'000'000'000, 2'000'000'000, flops);
    set_speed(made, cost);
    set_roofline(made, cost, reading, computing);
    return made;
  }
};

TEST_F(BenchRoofline, IsTheLongerOfTheTwoTimes) {
  BenchRow made = row(10e9, {2e9, 4e9, 9e9}, {10e9, 10e9, 90e9});
  EXPECT_DOUBLE_EQ(made.roofline_gb_s, 4) << "a median";
  EXPECT_DOUBLE_EQ(made.roofline_gflops, 10);
  EXPECT_EQ(made.bound, "memory");
  EXPECT_DOUBLE_EQ(made.percent_of_roofline, 50);  // 2 s of 4 s: computing would take 1 s
  made = row(30e9, {4e9}, {10e9});
  EXPECT_EQ(made.bound, "compute");
  EXPECT_DOUBLE_EQ(made.percent_of_roofline, 75);
  EXPECT_EQ(row(20e9, {4e9}, {10e9}).bound, "memory") << "where both take as long";
  made = row(30e9, {4e9}, {0});
  EXPECT_EQ(made.bound, "memory");
  EXPECT_EQ(made.roofline_gflops, 0);
  EXPECT_DOUBLE_EQ(made.percent_of_roofline, 50);
}

TEST_F(BenchRoofline, IsNotThereWhereReadingIsNotKnown) {
  const BenchRow made = row(30e9, {0}, {10e9});
  EXPECT_EQ(made.bound, "");
  EXPECT_EQ(made.roofline_gb_s, 0);
  EXPECT_EQ(made.roofline_gflops, 0);
  EXPECT_EQ(made.percent_of_roofline, 0);
  EXPECT_TRUE(made.warnings.empty());
  EXPECT_EQ(row(0, {1}, {0}).bound, "memory") << "a byte a second is a rate";
}

TEST_F(BenchRoofline, ThatTheSamplesSurelyExceedIsDoubted) {
  // Ten samples of which the interval leaves out the first and the last: 2 s are allowed.
  const auto warned = [&](double slow, double slowest) {
    std::vector<double> samples(8, 1.5);
    samples.push_back(slow);
    samples.push_back(slowest);
    const BenchRow made = row(0, {4e9}, {0}, samples);
    return made.warnings.empty() ? std::string() : made.warnings[0].text;
  };
  EXPECT_EQ(warned(1.9, 9), "the measurement reached at least 105 % of the roofline");
  EXPECT_EQ(warned(1.95, 9), "") << "102.6 % may be noise";
  EXPECT_EQ(row(0, {4e9}, {0}, {1, 1.9}).warnings.size(), 1U);
  EXPECT_EQ(row(0, {4e9}, {0}, {1, 3}).warnings.size(), 0U);
}

Row bench_row(std::vector<double> seconds) {
  Row row;
  row.scenario = Scenario::bench;
  row.parameters = {{"precision", "nf4"}, {"device", "cpu"},      {"kernels", "k"},    {"threads", "3"},
                    {"tuning", "t"},      {"prompt_tokens", "4"}, {"new_tokens", "0"}, {"depth", "9"},
                    {"batch", "2"},       {"weight_bytes", "77"}};
  for (std::size_t i = 0; i < seconds.size(); ++i) row.places.push_back({0, static_cast<int>(i)});
  row.set("total_latency_s", value_of_processes(std::move(seconds), row.places));
  row.set("bytes_per_token", 1e9);
  row.set("flops_per_token", 2e9);
  return row;
}

TEST(BenchFigures, AreThoseOfTheRowThatHasTheSamples) {
  Row row = bench_row({4, 1, 7});
  const BenchRow figures = figures_of(row);
  EXPECT_EQ(figures.test, "pp4 @ d9 b2");
  EXPECT_EQ(figures.precision + figures.device + figures.kernels + figures.isa + figures.tuning, "nf4cpukkt");
  EXPECT_EQ(figures.threads, 3);
  EXPECT_EQ(figures.weight_bytes, 77);
  EXPECT_EQ(figures.samples_s, (std::vector<double>{4, 1, 7}));
  EXPECT_EQ(figures.median_s, 4);
  EXPECT_DOUBLE_EQ(figures.tokens_per_sec, 2);
  EXPECT_DOUBLE_EQ(figures.achieved_gb_s, 2);
  EXPECT_DOUBLE_EQ(figures.achieved_gflops, 4);
  EXPECT_EQ(figures.bound, "") << "no roofline";
  row.status = RowStatus::error;
  row.reason = "why";
  EXPECT_TRUE(figures_of(row).samples_s.empty());
  EXPECT_EQ(figures_of(row).reason, "why");
  EXPECT_EQ(figures_of(row).test, "pp4 @ d9 b2");
}

// Their rooflines are medians, and a row says the same as the line of llama-bench.
TEST(BenchFigures, AreWrittenIntoTheRow) {
  Row row = bench_row({4, 1, 7});
  row.set("roofline_gb_s", value_of_processes({9, 4, 2}, row.places));
  row.set("roofline_gflops", value_of_processes({10, 90, 10}, row.places));
  row.set("percent_of_roofline", 1);
  row.set("time_to_first_token_s", 3);
  row.set("prompt_tokens", 8);
  row.set("load_s", 5);
  row.parameters.emplace_back("bound", "memory");
  row.warnings = {{WarningKind::too_few_runs, "few"}, roofline_warning(200), {WarningKind::other, "kept"}};
  const BenchRow figures = figures_of(row);
  EXPECT_DOUBLE_EQ(figures.roofline_gb_s, 4);
  EXPECT_DOUBLE_EQ(figures.roofline_gflops, 10);
  EXPECT_EQ(figures.bound, "memory");  // 2 s of reading, 1.6 s of computing
  EXPECT_DOUBLE_EQ(figures.percent_of_roofline, 50);
  set_figures(row, figures);
  EXPECT_DOUBLE_EQ(row.find("tokens_per_sec")->value, 2);
  EXPECT_EQ(row.find("tokens_per_sec")->samples, (std::vector<double>{2, 8, 8.0 / 7}));
  EXPECT_DOUBLE_EQ(row.find("percent_of_roofline")->value, 50);
  EXPECT_DOUBLE_EQ(row.find("roofline_latency_s")->value, 2);
  EXPECT_DOUBLE_EQ(row.find("achieved_gb_s")->value, 2);
  EXPECT_DOUBLE_EQ(row.find("load_s")->value, 5);
  EXPECT_EQ(row.find("time_to_first_token_s"), nullptr) << "a test has no first token";
  EXPECT_EQ(row.find("prompt_tokens"), nullptr);
  EXPECT_EQ(row.parameter("bound"), "memory");
  ASSERT_EQ(row.warnings.size(), 1U) << "a test is compared with nothing, and below its roofline";
  EXPECT_EQ(row.warnings[0].text, "kept");
}

TEST(BenchFigures, OfRowsOfOtherStudiesAreNone) {
  Row other = bench_row({1});
  other.scenario = Scenario::baseline;
  Row row = bench_row({2});
  row.warnings = {{WarningKind::other, "of the load"}};
  ModelFacts model;
  model.id = "m";
  model.parameters = 5;
  const std::vector<BenchRow> rows = bench_rows(std::vector<Row>{other, row}, model);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].model, "m");
  EXPECT_EQ(rows[0].parameters, 5);
  EXPECT_EQ(rows[0].median_s, 2);
  EXPECT_EQ(rows[0].warnings, row.warnings);
}

}  // namespace
}  // namespace assay
