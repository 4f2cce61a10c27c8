// Plots: what they show, and what they do with hard data.
#include "assay/report/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "assay/report/figures.h"
#include "assay/report/table.h"

namespace assay::report {
namespace {

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(AxisTicks, AreRoundAndCoverTheRange) {
  EXPECT_EQ(axis_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(axis_ticks(0, 0.9, 6).size(), 6u);  // steps of 0.2
  for (const auto& [low, high] :
       {std::pair{3.0, 4.7}, {0.0, 1e-9}, {-5.0, 5.0}, {1e6, 1.00001e6}, {2.0, 2.0}}) {
    const std::vector<double> ticks = axis_ticks(low, high, 6);
    EXPECT_LE(ticks.front(), low);
    EXPECT_GE(ticks.back(), high);
    EXPECT_LE(ticks.size(), 14u);
  }
  EXPECT_EQ(tick_text(0.30000000000000004), "0.3");
  EXPECT_EQ(tick_text(1200), "1200");
}

Plot lines() {
  Plot plot;
  plot.title = "A <title> & more";
  plot.x_label = "x (tokens)";
  plot.y_label = "y (ms)";
  plot.series = {{"first", {{1, 2, 1.5, 2.5}, {2, 3, 0, 0}}}, {"second", {{1, 1, 0, 0}, {2, 4, 3, 5}}}};
  return plot;
}

TEST(Plot, LinesHaveMarkersErrorBarsAndALegend) {
  const std::string svg = to_svg(lines());
  EXPECT_EQ(count(svg, "<polyline"), 4u);  // two lines, and the legend
  EXPECT_EQ(count(svg, "<circle"), 3u);    // two points and the legend
  EXPECT_NE(svg.find("A &lt;title&gt; &amp; more"), std::string::npos);
  for (const char* text : {"x (tokens)", "y (ms)", ">first<", ">second<"})
    EXPECT_NE(svg.find(text), std::string::npos);
  EXPECT_EQ(to_svg(lines()), svg);
  Plot without = lines();
  for (PlotSeries& series : without.series)
    for (PlotPoint& point : series.points) point.low = point.high = 0;
  EXPECT_EQ(count(svg, "stroke-width=\"1.5\""), 6u);  // two error bars with two ends each
  EXPECT_EQ(count(to_svg(without), "stroke-width=\"1.5\""), 0u);
}

TEST(Plot, BarsAreNamedAndNothingIsSaidToBeNothing) {
  Plot plot;
  plot.title = "t";
  plot.x_label = "ms";
  plot.categories = {"float32", "nf4"};
  plot.series = {{"", {{0, 10, 9, 11}, {0, 5, 0, 0}}}};
  const std::string svg = to_svg(plot);
  EXPECT_NE(svg.find(">float32<"), std::string::npos);
  EXPECT_EQ(count(svg, "<rect"), 3u);  // the page and two bars
  plot.series = {{"", {}}};
  EXPECT_NE(to_svg(plot).find("nothing was measured"), std::string::npos);
}

TEST(Plot, HardDataStayOnThePage) {
  for (const double y : {0.0, 1e-300, 1e300, -5.0}) {
    Plot plot = lines();
    plot.series[0].points[0].y = y;
    const std::string svg = to_svg(plot);
    EXPECT_EQ(svg.find("nan"), std::string::npos) << y;
    EXPECT_EQ(svg.find("inf"), std::string::npos) << y;
  }
}

TEST(Figures, AreThoseWhoseRowsAreThere) {
  ResultSet results;
  EXPECT_TRUE(figures_of(results).empty());
  for (const double tokens : {32.0, 128.0}) {
    Row row;
    row.scenario = Scenario::lengths;
    row.set("prompt_tokens", tokens);
    row.set("total_latency_s", value_of_repeats({0.1, 0.11, 0.12, 0.1, 0.1, 0.1}));
    row.set("time_to_first_token_s", value_of_repeats({0.01}));
    results.rows.push_back(row);
  }
  const auto figures = figures_of(results);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].first, "latency_by_length");
  EXPECT_EQ(figures[0].second.series[0].points.size(), 2u);
  EXPECT_GT(figures[0].second.series[0].points[0].high, figures[0].second.series[0].points[0].low);
}

TEST(TableSvg, HoldsEveryCell) {
  const std::string svg = table_svg({{"Case", "ms"}, {false, true}, {{"a & b", "1.5"}, {"c", "2"}}});
  for (const char* text : {">Case<", ">a &amp; b<", ">1.5<", ">2<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
}

TEST(Svg, NumbersThatNoPageHoldsEndInADocument) {
  for (const double huge : std::vector<double>{1e308, 1e100, 1e20, INFINITY, -INFINITY, std::nan("")}) {
    for (const double other : {0.0, 1.0, 1e20, std::nextafter(1e20, 2e20), 1e308}) {
      Plot plot;
      plot.series = {{"a", {{1, huge, 0, 0}, {huge, other, other, huge}}}};
      EXPECT_TRUE(to_svg(plot).ends_with("</svg>\n")) << huge << " " << other;
      plot.categories = {"one", "two"};
      EXPECT_TRUE(to_svg(plot).ends_with("</svg>\n")) << huge << " " << other;
    }
  }
}

}  // namespace
}  // namespace assay::report
