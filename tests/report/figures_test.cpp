// Which rows a plot takes, what it is called, and what its axes say.
#include "assay/report/figures.h"

#include <gtest/gtest.h>

namespace assay::report {
namespace {

Row row_for_figure(Scenario scenario, const std::string& label) {
  Row row;
  row.scenario = scenario;
  row.label = label;
  return row;
}

ResultSet with_rows(std::vector<Row> rows) {
  ResultSet results;
  results.model.id = "m";
  results.rows = std::move(rows);
  return results;
}

void expect_words(const Plot& plot, const char* title, const std::string& subtitle, const char* x,
                  const char* y) {
  EXPECT_EQ(plot.title, title);
  EXPECT_EQ(plot.subtitle, subtitle);
  EXPECT_EQ(plot.x_label, x);
  EXPECT_EQ(plot.y_label, y);
}

TEST(FiguresWords, OfLengths) {
  // Neither a row that failed nor one without a latency describes the runs.
  Row failed = row_for_figure(Scenario::lengths, "0");
  failed.status = RowStatus::error;
  failed.parameters = {{"precision", "failed"}, {"kernels", "none"}, {"threads", "9"}};
  failed.set("total_latency_s", 9);
  failed.set("prompt_tokens", 9);
  Row untimed = row_for_figure(Scenario::lengths, "1");
  untimed.parameters = {{"precision", "untimed"}, {"kernels", "none"}, {"threads", "9"}};
  Row first = row_for_figure(Scenario::lengths, "2");
  first.parameters = {{"precision", "float32"}, {"kernels", "avx512"}, {"threads", "1"}};
  first.set("total_latency_s", 0.25);
  first.set("prompt_tokens", 16);
  first.set("decode_tokens_per_sec", 5);
  Row second = first;
  second.parameters = {{"precision", "nf4"}, {"kernels", "avx2"}, {"threads", "2"}};
  second.set("prompt_tokens", 64);
  second.set("time_to_first_token_s", 0.125);
  Row third = row_for_figure(Scenario::lengths, "no length");
  third.set("total_latency_s", 1);
  const auto figures = figures_of(with_rows({failed, untimed, first, second, third}));
  ASSERT_EQ(figures.size(), 2U);
  const std::string subtitle = "m, float32, avx512 kernels, 1 thread; whiskers: 95 % intervals";
  const Plot &latency = figures[0].second, &speed = figures[1].second;
  expect_words(latency, "Latency against prompt length", subtitle, "Prompt length (tokens)", "Latency (ms)");
  ASSERT_EQ(latency.series.size(), 2U);
  EXPECT_EQ(latency.series[0].name, "Latency");
  ASSERT_EQ(latency.series[0].points.size(), 2U);
  EXPECT_EQ(latency.series[0].points[0].x, 16);
  EXPECT_EQ(latency.series[0].points[0].y, 250);
  EXPECT_EQ(latency.series[0].points[0].low, 0);
  EXPECT_EQ(latency.series[0].points[0].high, 0);
  EXPECT_TRUE(latency.series[0].has_line);
  EXPECT_EQ(latency.series[1].name, "TTFT");
  ASSERT_EQ(latency.series[1].points.size(), 1U) << "of the row that has it";
  EXPECT_EQ(latency.series[1].points[0].x, 64);
  EXPECT_EQ(latency.series[1].points[0].y, 125);
  expect_words(speed, "Throughput against prompt length", subtitle, "Prompt length (tokens)",
               "Throughput (tokens/s)");
  EXPECT_EQ(speed.series[0].name, "decode only");
  EXPECT_EQ(speed.series[1].name, "prefill and decode");
  EXPECT_EQ(speed.series[0].points.size(), 2U);
  EXPECT_TRUE(speed.series[1].points.empty());
  EXPECT_TRUE(speed.categories.empty());
}

TEST(FiguresWords, ALongNameOfAModelIsCut) {
  Row row = row_for_figure(Scenario::lengths, "a");
  row.parameters = {{"precision", "p"}, {"kernels", "k"}, {"threads", "2"}};
  row.set("total_latency_s", 1);
  ResultSet results = with_rows({row});
  results.model.id = std::string(40, 'x');
  const std::string rest = ", p, k kernels, 2 threads; whiskers: 95 % intervals";
  EXPECT_EQ(figures_of(results)[0].second.subtitle, std::string(40, 'x') + rest);
  results.model.id = std::string(41, 'x');
  EXPECT_EQ(figures_of(results)[0].second.subtitle, std::string(37, 'x') + "..." + rest);
  results.model.id = "a\nb";
  EXPECT_EQ(figures_of(results)[0].second.subtitle, "a\\nb" + rest);
}

TEST(FiguresWords, OfPositions) {
  Row on = row_for_figure(Scenario::step_times, "cache on"),
      off = row_for_figure(Scenario::step_times, "cache off");
  on.set("position", Value{0, {}, {1, 2, 3}});
  on.set("step_latency_ms", Value{0, {}, {4, 5}});
  off.set("position", Value{0, {}, {7}});
  off.set("step_latency_ms", Value{0, {}, {8, 9}});
  const auto figures = figures_of(with_rows({on, off}));
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(figures[0].first, "step_by_position");
  const Plot& plot = figures[0].second;
  expect_words(plot, "Decode step time against position, KV cache on and off",
               "m; each point is the median over the runs of one step", "Position (tokens in the sequence)",
               "Decode step (ms)");
  ASSERT_EQ(plot.series.size(), 2U);
  ASSERT_EQ(plot.series[0].points.size(), 2U) << "as many as both lists have";
  EXPECT_EQ(plot.series[0].points[1].x, 2);
  EXPECT_EQ(plot.series[0].points[1].y, 5);
  ASSERT_EQ(plot.series[1].points.size(), 1U);
  EXPECT_EQ(plot.series[1].name, "cache off");
  EXPECT_FALSE(plot.series[1].has_line);
}

// Files that other programs wrote or that were edited may lack a value that this program always writes.
TEST(FiguresWords, RowsWithoutAPositionAreLeftOut) {
  Row without = row_for_figure(Scenario::step_times, "cache on"),
      with = row_for_figure(Scenario::step_times, "cache off");
  without.set("step_latency_ms", Value{0, {}, {4, 5}});
  EXPECT_TRUE(figures_of(with_rows({without})).empty());
  with.set("position", Value{0, {}, {7}});
  with.set("step_latency_ms", Value{0, {}, {8}});
  const auto figures = figures_of(with_rows({without, with}));
  ASSERT_EQ(figures.size(), 1U);
  ASSERT_EQ(figures[0].second.series.size(), 1U);
  EXPECT_EQ(figures[0].second.series[0].name, "cache off");
}

TEST(FiguresWords, OfBars) {
  std::vector<Row> rows;
  for (const char* label : {"float32", "nf4"}) {
    Row row = row_for_figure(Scenario::tradeoff, label);
    row.set("resident_weights_bytes", 2.0 * 1024 * 1024);
    row.set("total_latency_s", Value{0.5, {}, {}});
    row.set("perplexity", 7);  // shown where it was scored
    rows.push_back(row);
    Row scored = row_for_figure(Scenario::perplexity, label);
    scored.set("perplexity", 8);
    rows.push_back(scored);
  }
  rows[2].set("total_latency_s", Value{0.25, statistics::Interval{0.2, 0.5, 0.95}, {}});
  auto figures = figures_of(with_rows(rows));
  ASSERT_EQ(figures.size(), 5U);
  EXPECT_EQ(figures[0].first, "memory_by_precision");
  const std::string subtitle = "m; the first bar is the baseline";
  expect_words(figures[0].second, "Memory of the weights by precision", subtitle,
               "Weights (MiB), lower is better", "");
  EXPECT_EQ(figures[1].first, "latency_by_precision");
  expect_words(figures[1].second, "Latency by precision", subtitle + "; whiskers: 95 % intervals",
               "Latency (ms), lower is better", "");
  ASSERT_EQ(figures[1].second.series.size(), 1U);
  EXPECT_EQ(figures[1].second.series[0].points[0].low, figures[1].second.series[0].points[0].high);
  EXPECT_EQ(figures[1].second.series[0].points[1].low, 200);
  EXPECT_EQ(figures[1].second.series[0].points[1].high, 500);
  EXPECT_EQ(figures[1].second.series[0].points[1].x, 0);
  EXPECT_EQ(figures[2].first, "perplexity_by_precision");
  expect_words(figures[2].second, "Perplexity by precision", subtitle, "Perplexity, lower is better", "");
  EXPECT_EQ(figures[2].second.series[0].points[0].y, 8);
  rows.resize(3);  // one that was scored
  EXPECT_EQ(figures_of(with_rows(rows)).size(), 4U);
}

TEST(FiguresWords, OfBatches) {
  std::vector<Row> rows;
  for (const char* size : {"1", "16"}) {
    Row row = row_for_figure(Scenario::batches, size);
    row.parameters = {{"batch_size", size}};
    row.set("tokens_per_sec", Value{20, statistics::Interval{18, 24, 0.95}, {}});
    row.set("tokens_per_sec_per_sequence", Value{5, statistics::Interval{4, 7, 0.95}, {}});
    rows.push_back(row);
  }
  const auto figures = figures_of(with_rows(rows));
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(figures[0].first, "throughput_by_batch");
  const Plot& plot = figures[0].second;
  expect_words(plot, "Throughput against batch size", "", "Batch size (sequences)", "Throughput (tokens/s)");
  ASSERT_EQ(plot.series.size(), 2U);
  EXPECT_EQ(plot.series[0].name, "whole batch");
  EXPECT_EQ(plot.series[1].name, "one sequence");
  EXPECT_EQ(plot.series[0].points[1].x, 16);
  EXPECT_EQ(plot.series[0].points[1].y, 20);
  EXPECT_EQ(plot.series[0].points[0].low, 18);
  EXPECT_EQ(plot.series[0].points[0].high, 24);
  EXPECT_EQ(plot.series[1].points[0].x, 1);
  EXPECT_EQ(plot.series[1].points[1].y, 5);
  EXPECT_EQ(plot.series[1].points[1].high, 7);
  rows.pop_back();
  EXPECT_TRUE(figures_of(with_rows(rows)).empty()) << "one size shows no growth";
}

}  // namespace
}  // namespace assay::report
