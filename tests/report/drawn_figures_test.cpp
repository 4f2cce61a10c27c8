// Every plot of lines and bars: its marks and whiskers, read back from the SVG by its ticks, are what the
// rows hold.
#include <gtest/gtest.h>

#include <map>

#include "assay/base/format.h"
#include "assay/report/figures.h"
#include "support/drawn_marks.h"
#include "support/xml.h"

namespace assay::report {
namespace {

using test::marks_in;
using test::number_after;
using test::ticks_of;
using test::TickScale;

struct Expected {
  double x, y;
  double low = 0, high = 0;  // equal: no whisker
};

// The marks of a plot of numbers over numbers, in the order of its series and their points.
void expect_marks(const Plot& plot, const std::vector<Expected>& expected) {
  SCOPED_TRACE(plot.title);
  const std::string svg = to_svg(plot);
  EXPECT_EQ(test::why_not_xml(svg), "");
  const TickScale across = ticks_of(svg, true), up = ticks_of(svg, false);
  ASSERT_GE(across.ticks.size(), 2U);
  ASSERT_GE(up.ticks.size(), 2U);
  const std::vector<std::string> marks = marks_in(svg);
  ASSERT_EQ(marks.size(), expected.size()) << svg;
  // Coordinates have tenths of a pixel.
  const double x_step = std::abs(across.value_at(1) - across.value_at(0)),
               y_step = std::abs(up.value_at(1) - up.value_at(0));
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const auto [x, y] = test::middle_of(marks[i]);
    EXPECT_NEAR(across.value_at(x), expected[i].x, x_step) << marks[i];
    EXPECT_NEAR(up.value_at(y), expected[i].y, y_step) << marks[i];
    const bool has_whisker = marks[i].find("y1=\"") != std::string::npos;
    EXPECT_EQ(has_whisker, expected[i].low != expected[i].high) << marks[i];
    if (!has_whisker) continue;
    EXPECT_NEAR(up.value_at(number_after(marks[i], "y1=\"")), expected[i].low, y_step) << marks[i];
    EXPECT_NEAR(up.value_at(number_after(marks[i], "y2=\"")), expected[i].high, y_step) << marks[i];
  }
}

// Bars that lie: from 0 to the value, a whisker across its end.
void expect_bars(const Plot& plot, const std::vector<Expected>& expected) {
  SCOPED_TRACE(plot.title);
  const std::string svg = to_svg(plot);
  EXPECT_EQ(test::why_not_xml(svg), "");
  const TickScale across = ticks_of(svg, true);
  ASSERT_GE(across.ticks.size(), 2U);
  const std::vector<std::string> marks = marks_in(svg);
  ASSERT_EQ(marks.size(), expected.size()) << svg;
  const double step = std::abs(across.value_at(1) - across.value_at(0));
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const double begin = number_after(marks[i], "<rect x=\""), width = number_after(marks[i], " width=\"");
    EXPECT_NEAR(across.value_at(begin), 0, step) << marks[i];
    EXPECT_NEAR(across.value_at(begin + width), expected[i].y, step) << marks[i];
    const bool has_whisker = marks[i].find("x1=\"") != std::string::npos;
    EXPECT_EQ(has_whisker, expected[i].low != expected[i].high) << marks[i];
    if (!has_whisker) continue;
    EXPECT_NEAR(across.value_at(number_after(marks[i], "x1=\"")), expected[i].low, step) << marks[i];
    EXPECT_NEAR(across.value_at(number_after(marks[i], "x2=\"")), expected[i].high, step) << marks[i];
    EXPECT_NE(svg.find(">" + plot.categories[i] + "<"), std::string::npos) << "its name";
  }
}

Value between(double value, double low, double high) {
  return Value{value, statistics::Interval{low, high, 0.95}, {}};
}

Row drawn_row(Scenario scenario, const std::string& label) {
  Row row;
  row.scenario = scenario;
  row.label = label;
  return row;
}

const Plot& figure_of(const std::vector<std::pair<std::string, Plot>>& figures, const std::string& name) {
  for (const auto& [own, plot] : figures)
    if (own == name) return plot;
  ADD_FAILURE() << "no figure " << name;
  return figures.front().second;
}

TEST(DrawnFigures, OfLengths) {
  ResultSet results;
  const double tokens[] = {32, 128, 512};
  for (const double n : tokens) {
    Row row = drawn_row(Scenario::lengths, fmt::format("{} tokens", n));
    row.set("prompt_tokens", n);
    row.set("total_latency_s", between(n / 1000, n / 1100, n / 900));
    row.set("time_to_first_token_s", n / 4000);
    row.set("tokens_per_sec", 2000 - n);
    row.set("decode_tokens_per_sec", between(3000 - n, 2900 - n, 3100 - n));
    results.rows.push_back(row);
  }
  const auto figures = figures_of(results);
  std::vector<Expected> latency, speed;
  for (const double n : tokens) latency.push_back({n, n, n / 1.1, n / 0.9});
  for (const double n : tokens) latency.push_back({n, n / 4});
  for (const double n : tokens) speed.push_back({n, 3000 - n, 2900 - n, 3100 - n});
  for (const double n : tokens) speed.push_back({n, 2000 - n});
  expect_marks(figure_of(figures, "latency_by_length"), latency);
  expect_marks(figure_of(figures, "speed_by_length"), speed);
}

TEST(DrawnFigures, OfPositions) {
  ResultSet results;
  Row on = drawn_row(Scenario::step_times, "cache on"), off = drawn_row(Scenario::step_times, "cache off");
  on.set("position", Value{0, {}, {10, 20, 30}});
  on.set("step_latency_ms", Value{0, {}, {1, 1.1, 1.3}});
  off.set("position", Value{0, {}, {10, 30}});
  off.set("step_latency_ms", Value{0, {}, {4, 9}});
  results.rows = {on, off};
  const std::string svg = to_svg(figure_of(figures_of(results), "step_by_position"));
  const TickScale across = ticks_of(svg, true), up = ticks_of(svg, false);
  // Points of which there are thousands have no tooltip: circles first, then squares, each with its legend.
  std::vector<std::pair<double, double>> places;
  const std::regex mark(
      "<(circle|rect) c?x=\"([0-9.]+)\" c?y=\"([0-9.]+)\" (?:r=\"4.5\"|width=\"9\" height=\"9\")");
  for (std::sregex_iterator i(svg.begin(), svg.end(), mark), end; i != end; ++i) {
    const double corner = (*i)[1] == "rect" ? 4.5 : 0;
    places.emplace_back(std::stod((*i)[2]) + corner, std::stod((*i)[3]) + corner);
  }
  const double expected[][2] = {{10, 1}, {20, 1.1}, {30, 1.3}, {}, {10, 4}, {30, 9}, {}};
  ASSERT_EQ(places.size(), std::size(expected)) << svg;
  for (const std::size_t i : {0U, 1U, 2U, 4U, 5U}) {
    EXPECT_NEAR(across.value_at(places[i].first), expected[i][0], 0.1);
    EXPECT_NEAR(up.value_at(places[i].second), expected[i][1], 0.05);
  }
}

TEST(DrawnFigures, OfBatches) {
  ResultSet results;
  for (const double size : {1.0, 4.0, 8.0}) {
    Row row = drawn_row(Scenario::batches, fmt::format("batch {}", size));
    row.parameters = {{"batch_size", fmt::format("{}", size)}};
    row.set("tokens_per_sec", between(100 * size, 90 * size, 110 * size));
    row.set("tokens_per_sec_per_sequence", 100 - size);
    results.rows.push_back(row);
  }
  expect_marks(figure_of(figures_of(results), "throughput_by_batch"),
               {{1, 100, 90, 110}, {4, 400, 360, 440}, {8, 800, 720, 880}, {1, 99}, {4, 96}, {8, 92}});
}

TEST(DrawnFigures, OfPrecisions) {
  ResultSet results;
  const char* labels[] = {"float32", "int8", "nf4"};
  for (int i = 0; i < 3; ++i) {
    Row row = drawn_row(Scenario::tradeoff, labels[i]);
    row.set("resident_weights_bytes", (16 >> i) * 1024.0 * 1024);
    row.set("total_latency_s", between(0.01 * (i + 1), 0.009 * (i + 1), 0.012 * (i + 1)));
    results.rows.push_back(row);
    Row scored = drawn_row(Scenario::perplexity, labels[i]);
    scored.set("perplexity", between(20 + i, 18 + i, 23 + i));
    results.rows.push_back(scored);
  }
  const auto figures = figures_of(results);
  expect_bars(figure_of(figures, "memory_by_precision"), {{0, 16}, {0, 8}, {0, 4}});
  expect_bars(figure_of(figures, "latency_by_precision"), {{0, 10, 9, 12}, {0, 20, 18, 24}, {0, 30, 27, 36}});
  expect_bars(figure_of(figures, "perplexity_by_precision"),
              {{0, 20, 18, 23}, {0, 21, 19, 24}, {0, 22, 20, 25}});
  // Without a figure of quality the frontier is one of latency.
  expect_marks(figure_of(figures, "latency_by_memory"), {{16, 10, 9, 12}, {8, 20, 18, 24}, {4, 30, 27, 36}});
}

TEST(DrawnFigures, OfQualityAgainstDecoding) {
  ResultSet results;
  const char* labels[] = {"float32", "int8", "nf4"};
  for (int i = 0; i < 3; ++i) {
    Row row = drawn_row(Scenario::tradeoff, labels[i]);
    row.set("resident_weights_bytes", (16 >> i) * 1024.0 * 1024);
    row.set("time_per_output_token_ms", between(3 - i, 2.9 - i, 3.1 - i));
    if (i > 0) row.set("kl_mean", between(0.1 * i, 0.09 * i, 0.11 * i));
    results.rows.push_back(row);
  }
  const auto figures = figures_of(results);
  const std::string svg = to_svg(figure_of(figures, "quality_by_decode"));
  const TickScale across = ticks_of(svg, true), up = ticks_of(svg, false);
  const std::vector<std::string> marks = marks_in(svg);
  ASSERT_EQ(marks.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    const auto [x, y] = test::middle_of(marks[static_cast<std::size_t>(i)]);
    EXPECT_NEAR(across.value_at(x), 3 - i, 0.01);
    EXPECT_NEAR(up.value_at(y), 0.1 * i, 0.001);
  }
  EXPECT_EQ(figure_of(figures, "quality_by_decode").y_label, "KL divergence from the baseline (nats/token)");
}

}  // namespace
}  // namespace assay::report
