// Plots that compare configurations: what stands in their SVG, read back by its own ticks, is what the rows
// hold.
#include "assay/report/configuration_figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>

#include "assay/base/format.h"
#include "support/drawn_marks.h"
#include "support/xml.h"

namespace assay::report {
namespace {

using test::marks_in;
using test::middle_of;
using test::number_after;
using test::ticks_of;
using test::TickScale;

Row configuration_row(const std::string& label, double scale) {
  Row row;
  row.scenario = Scenario::tradeoff;
  row.label = label;
  row.set("resident_weights_bytes", 40.0 * 1024 * 1024 * scale);
  row.set("kv_cache_bytes", 2.0 * 1024 * 1024);
  row.set("workspace_bytes", 3.0 * 1024 * 1024);
  row.set("peak_rss_bytes", 60.0 * 1024 * 1024);
  row.set("time_per_output_token_ms",
          Value{2 * scale, statistics::Interval{1.9 * scale, 2.1 * scale, 0.95}, {2, 2}});
  row.set("bytes_per_token", 4e6 * scale);
  row.set("flops_per_token", 8e6);
  row.set("achieved_gflops", 20 / scale);
  row.set("roofline_gb_s", 15);
  row.set("roofline_gflops", 100 / scale);
  row.set("prefill_latency_s", 0.004);
  row.set("prompt_tokens", 5);
  row.step_s = {{0.001 * scale, 0.002 * scale, 0.003 * scale}, {0.001 * scale, 0.002 * scale, 0.003 * scale}};
  return row;
}

ResultSet configurations() {
  ResultSet results;
  results.model.id = "m";
  results.rows = {configuration_row("float32", 1), configuration_row("int8", 0.25),
                  configuration_row("nf4", 0.125)};
  results.rows[1].set("perplexity_ratio", Value{1.01, statistics::Interval{1.005, 1.015, 0.95}, {}});
  results.rows[2].set("perplexity_ratio", Value{1.1, statistics::Interval{1.09, 1.11, 0.95}, {}});
  return results;
}

std::map<std::string, Plot> figures_by_name(const ResultSet& results) {
  std::map<std::string, Plot> all;
  for (auto* make : {&frontier_figures, &configuration_figures})
    for (auto& [name, plot] : (*make)(results)) all[name] = plot;
  return all;
}

TEST(ConfigurationFigures, TheFrontierHasItsRowsWhereTheyAre) {
  const ResultSet results = configurations();
  const Plot plot = figures_by_name(results).at("quality_by_memory");
  EXPECT_EQ(plot.x_label, "Weights (MiB)");
  EXPECT_EQ(plot.y_label, "Perplexity ratio to the baseline");
  const std::string svg = to_svg(plot);
  EXPECT_EQ(test::why_not_xml(svg), "");
  const TickScale across = ticks_of(svg, true), up = ticks_of(svg, false);
  const std::vector<std::string> marks = marks_in(svg);
  ASSERT_EQ(marks.size(), 3U);
  const double expected[][2] = {{40, 1}, {10, 1.01}, {5, 1.1}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NE(marks[i].find(fmt::format("data-row=\"{}\"", i)), std::string::npos);
    const auto [x, y] = middle_of(marks[i]);
    EXPECT_NEAR(across.value_at(x), expected[i][0], 0.05) << marks[i];
    EXPECT_NEAR(up.value_at(y), expected[i][1], 0.0005) << marks[i];
  }
  // The error bar from 1.09 to 1.11.
  EXPECT_NEAR(up.value_at(number_after(marks[2], "y1=\"")), 1.09, 0.0005);
  EXPECT_NEAR(up.value_at(number_after(marks[2], "y2=\"")), 1.11, 0.0005);
  EXPECT_NE(marks[1].find("int8: 10 MiB; 1.010 [1.005, 1.015]; on the frontier"), std::string::npos)
      << marks[1];
  EXPECT_EQ(plot.caption.find("On the Pareto frontier"), 0U);
}

TEST(ConfigurationFigures, WhatIsBeatenIsHollowAndNamed) {
  ResultSet results = configurations();
  results.rows[0].set("resident_weights_bytes", 1.0 * 1024 * 1024);  // the smallest, and without loss
  const Plot plot = figures_by_name(results).at("quality_by_memory");
  EXPECT_EQ(plot.series[0].style, MarkStyle::filled);
  EXPECT_EQ(plot.series[1].style, MarkStyle::hollow);
  EXPECT_EQ(plot.series[2].style, MarkStyle::hollow);
  EXPECT_NE(plot.caption.find("Hollow marks are beaten"), std::string::npos) << plot.caption;
  const std::string svg = to_svg(plot);
  EXPECT_EQ(middle_of(marks_in(svg)[1]).first > 0, true);
  EXPECT_NE(marks_in(svg)[1].find("fill=\"#ffffff\" stroke="), std::string::npos);
}

TEST(ConfigurationFigures, WithoutQualityTheFrontierIsOfLatency) {
  ResultSet results;
  results.rows = {configuration_row("a", 1), configuration_row("b", 0.5)};
  EXPECT_FALSE(figures_by_name(results).contains("latency_by_memory")) << "no latency";
  for (Row& row : results.rows) row.set("total_latency_s", 0.1);
  const auto figures = figures_by_name(results);
  EXPECT_TRUE(figures.contains("latency_by_memory"));
  EXPECT_FALSE(figures.contains("quality_by_memory"));
  EXPECT_TRUE(frontier_figures(ResultSet{}).empty());
  EXPECT_TRUE(configuration_figures(ResultSet{}).empty());
}

TEST(ConfigurationFigures, TheRooflineHasLogarithmicAxes) {
  const std::string svg = to_svg(figures_by_name(configurations()).at("roofline"));
  EXPECT_EQ(test::why_not_xml(svg), "");
  const TickScale across = ticks_of(svg, true, true), up = ticks_of(svg, false, true);
  const std::vector<std::string> marks = marks_in(svg);
  ASSERT_EQ(marks.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const double scale = i == 0 ? 1 : i == 1 ? 0.25 : 0.125;
    const auto [x, y] = middle_of(marks[i]);
    EXPECT_NEAR(across.value_at(x) / (2 / scale), 1, 0.01);
    EXPECT_NEAR(up.value_at(y) / (20 / scale), 1, 0.01);
  }
  // The baseline's roofline bends at 100 / 15 FLOPs a byte.
  const std::regex line("<polyline points=\"[0-9.]+,[0-9.]+ ([0-9.]+),([0-9.]+) ");
  std::smatch bend;
  ASSERT_TRUE(std::regex_search(svg, bend, line)) << svg;
  EXPECT_NEAR(across.value_at(std::stod(bend[1])), 100.0 / 15, 0.1);
  EXPECT_NEAR(up.value_at(std::stod(bend[2])), 100, 1);
  EXPECT_NE(svg.find("roofline of float32"), std::string::npos);
  EXPECT_NE(svg.find("roofline of nf4"), std::string::npos) << "its FLOP rate is higher";
}

TEST(ConfigurationFigures, MemoryIsStackedUpToThePeak) {
  const std::string svg = to_svg(figures_by_name(configurations()).at("memory_by_cause"));
  EXPECT_EQ(test::why_not_xml(svg), "");
  const TickScale across = ticks_of(svg, true);
  const std::vector<std::string> marks = marks_in(svg);
  ASSERT_EQ(marks.size(), 12U);
  const double weights[] = {40, 10, 5};
  for (std::size_t i = 0; i < 3; ++i) {
    double from = 0;
    for (const auto& [part, size] :
         {std::pair<std::size_t, double>{0, weights[i]}, {1, 2}, {2, 3}, {3, 55 - weights[i]}}) {
      const std::string& mark = marks[4 * i + part];
      const double x = number_after(mark, "<rect x=\""), width = number_after(mark, " width=\"");
      EXPECT_NEAR(across.value_at(x), from, 0.1) << mark;
      EXPECT_NEAR(across.value_at(x + width), from + size, 0.1) << mark;
      from += size;
    }
  }
  EXPECT_NE(svg.find(">KV cache<"), std::string::npos);
}

TEST(ConfigurationFigures, StepsAreBoxes) {
  const std::string svg = to_svg(figures_by_name(configurations()).at("step_distribution"));
  EXPECT_EQ(test::why_not_xml(svg), "");
  const TickScale across = ticks_of(svg, true);
  const std::vector<std::string> marks = marks_in(svg);
  ASSERT_EQ(marks.size(), 3U);
  // The quartiles of 1, 1, 2, 2, 3, 3 lie at 1.25 and 2.75 of the sorted values.
  EXPECT_NEAR(across.value_at(number_after(marks[0], "<rect x=\"")), 1.25, 0.01);
  const double right = number_after(marks[0], "<rect x=\"") + number_after(marks[0], " width=\"");
  EXPECT_NEAR(across.value_at(right), 2.75, 0.01);
  const std::size_t median = marks[0].rfind("<line");
  EXPECT_NEAR(across.value_at(number_after(marks[0], "x1=\"", median)), 2, 0.01);
  EXPECT_NE(marks[0].find("float32: median 2 ms, quartiles 1.25 and 2.75"), std::string::npos) << marks[0];
  EXPECT_NE(marks[0].find("n = 6"), std::string::npos);
}

TEST(ConfigurationFigures, PhasesFollowEachOther) {
  const Plot plot = figures_by_name(configurations()).at("phases");
  const std::string svg = to_svg(plot);
  EXPECT_EQ(test::why_not_xml(svg), "");
  const TickScale across = ticks_of(svg, true);
  const std::vector<std::string> marks = marks_in(svg);
  ASSERT_EQ(marks.size(), 4U);
  const double begins[] = {0, 4, 5, 7};
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(across.value_at(number_after(marks[i], "<rect x=\"")), begins[i], 0.02);
  EXPECT_NE(plot.caption.find("Prefill computes all 5 prompt tokens in one step of 4 ms"), std::string::npos);
  EXPECT_NE(plot.caption.find("3 decode steps"), std::string::npos);
  EXPECT_NE(plot.caption.find("in 2 ms at the median"), std::string::npos) << plot.caption;
  EXPECT_NE(plot.caption.find("60 % of the time"), std::string::npos) << plot.caption;
  EXPECT_TRUE(plot.caption.ends_with("TPOT is the mean over all steps, slow ones included: 2.00 ms."))
      << plot.caption;
}

TEST(ConfigurationFigures, HardDataEndInADocument) {
  for (const double x : std::vector<double>{0, -1, 1e-300, 1e300, INFINITY, NAN}) {
    Plot plot{.title = "t", .series = {{"a", {{x, x, x, 2, x, 3}, {1, 1}}}}};
    plot.is_log_x = plot.is_log_y = true;
    EXPECT_EQ(test::why_not_xml(to_svg(plot)), "") << x;
    EXPECT_EQ(to_svg(plot).find("nan"), std::string::npos) << x;
    EXPECT_EQ(to_svg(plot).find("inf"), std::string::npos) << x;
    plot.categories = {"c", "d"};
    plot.boxes = {{x, x, x, x, x}};
    plot.spans = {{0, x, x}, {7, 0, 1}};
    for (const PlotForm form : {PlotForm::stacked, PlotForm::boxes, PlotForm::spans}) {
      plot.form = form;
      EXPECT_EQ(test::why_not_xml(to_svg(plot)), "") << x;
      EXPECT_EQ(to_svg(plot).find("nan"), std::string::npos) << x << static_cast<int>(form);
    }
  }
}

}  // namespace
}  // namespace assay::report
