// Plots at their limits: axes that do not end at a mark, one point, no number, fewer points than names.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/report/plot.h"

namespace assay::report {
namespace {

std::string svg_of_points(std::vector<PlotPoint> points) {
  Plot plot;
  plot.series = {{"s", std::move(points)}};
  return to_svg(plot);
}
bool has(const std::string& svg, const std::string& part) {
  return svg.find(part) != std::string::npos;
}

// 1.5 to 6.4 has marks from 1 to 7, 746 / 6 apart from 84 on; 0 to 6.4 those from 0 to 8, 42.75 a unit.
TEST(PlotLimits, AnAxisBeginsAndEndsWithAMark) {
  const std::string svg = svg_of_points({{1.5, 1, 0, 0}, {6.4, 6.4, 0, 0}});
  EXPECT_TRUE(has(svg, "<polyline points=\"146.2,373.2 755.4,142.4\"")) << svg;
  for (const char* mark :
       {"x=\"84.0\" y=\"436.0\" font-size=\"12\" text-anchor=\"middle\" fill=\"#222222\">1<",
        "x=\"830.0\" y=\"436.0\" font-size=\"12\" text-anchor=\"middle\" fill=\"#222222\">7<",
        "x=\"76.0\" y=\"420.0\" font-size=\"12\" text-anchor=\"end\" fill=\"#222222\">0<",
        "x=\"76.0\" y=\"78.0\" font-size=\"12\" text-anchor=\"end\" fill=\"#222222\">8<"})
    EXPECT_TRUE(has(svg, mark)) << mark << svg;
  // Marks of 1 from 0 to 7: none lies beyond the end, where steps of 2 would put one.
  const std::string even = svg_of_points({{0.5, 1, 0, 0}, {6.4, 1, 0, 0}});
  EXPECT_TRUE(has(even, "<polyline points=\"137.3,74.0 766.1,74.0\"")) << even;
  EXPECT_FALSE(has(even, ">8<"));
}

// A range of one number is as long as a tenth of it; at 0 it is 1.
TEST(PlotLimits, OnePointHasAnAxis) {
  const std::string five = svg_of_points({{5, 5, 0, 0}});
  EXPECT_TRUE(has(five, "<circle cx=\"84.0\" cy=\"74.0\"")) << five;
  for (const char* mark : {">5.1<", ">5.2<", ">5.3<", ">5.4<", ">5.5<"}) EXPECT_TRUE(has(five, mark)) << mark;
  EXPECT_FALSE(has(five, ">5.6<"));
  const std::string zero = svg_of_points({{0, 0, 0, 0}});
  EXPECT_TRUE(has(zero, "<circle cx=\"84.0\" cy=\"416.0\"")) << zero;
  EXPECT_TRUE(has(zero, ">0.8<"));
  EXPECT_FALSE(has(zero, ">1.2<"));
  // -4 lies at the bottom of an axis that ends at -3.6.
  EXPECT_TRUE(has(svg_of_points({{-4, -4, 0, 0}}), "<circle cx=\"84.0\" cy=\"416.0\""));
  EXPECT_TRUE(has(svg_of_points({{-4, -4, 0, 0}}), ">-3.6<"));
}

// An interval widens the axis on both sides; one that does not hold its point does too.
TEST(PlotLimits, IntervalsLieOnThePage) {
  const std::string svg = svg_of_points({{1, 2, -5, 10}, {2, 15, 3, 4}});
  // -5 to 15 in steps of 5: 17.1 a unit.
  EXPECT_TRUE(has(svg, "<polyline points=\"84.0,296.3 830.0,74.0\"")) << svg;
  EXPECT_TRUE(has(svg, "y1=\"416.0\" x2=\"84.0\" y2=\"159.5\"")) << svg;
  const std::string above = svg_of_points({{1, 1, 10, 12}, {2, 1, 0, 0}});  // 0 to 12: 28.5 a unit
  EXPECT_TRUE(has(above, "y1=\"131.0\" x2=\"84.0\" y2=\"74.0\"")) << above;
  EXPECT_TRUE(has(above, "<polyline points=\"84.0,387.5 830.0,387.5\"")) << above;
}

TEST(PlotLimits, WhatIsNoNumberIsDrawnAsNothing) {
  const std::string svg = svg_of_points({{1, std::nan(""), 0, 0}, {2, 4, 0, 0}});
  EXPECT_TRUE(has(svg, "<polyline points=\"84.0,416.0 830.0,74.0\"")) << svg;
  EXPECT_TRUE(
      has(svg_of_points({{1, 1e200, 0, 0}, {2, 1e100, 0, 0}}), "<polyline points=\"84.0,74.0 830.0,74.0\""));
  EXPECT_TRUE(
      has(svg_of_points({{1, -1e200, 0, 0}, {2, 0, 0, 0}}), "<polyline points=\"84.0,416.0 830.0,74.0\""));
}

TEST(PlotLimits, BarsHaveTheirNames) {
  Plot plot;
  plot.title = "t";
  plot.categories = {"", ""};
  plot.series = {{"", {{0, 1, 0, 0}}}};
  const auto bars = [&] {
    const std::string svg = to_svg(plot);
    std::size_t found = 0;
    for (std::size_t at = svg.find("height=\"18.0\""); at != std::string::npos;
         at = svg.find("height=\"18.0\"", at + 1))
      ++found;
    return found;
  };
  // Without any name the bars begin at 40 and are 720 long.
  EXPECT_TRUE(has(to_svg(plot), "<rect x=\"40.0\" y=\"74.0\" width=\"720.0\"")) << to_svg(plot);
  EXPECT_EQ(bars(), 1U) << "of two names one has a figure";
  plot.series[0].points = {{0, 1, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}};
  EXPECT_EQ(bars(), 2U) << "of three figures two have a name";
  // 43 characters still fit, 44 take 40 + 7.4 * 44 = 365.6.
  plot.categories = {std::string(43, 'n')};
  EXPECT_TRUE(has(to_svg(plot), "<rect x=\"358.2\""));
  plot.categories = {std::string(44, 'n')};
  EXPECT_TRUE(has(to_svg(plot), "<rect x=\"360.0\""));
}

TEST(PlotLimits, APlotOfNothingHasItsTitles) {
  Plot plot;
  plot.title = "title";
  plot.series = {{"a", {}}};
  EXPECT_TRUE(has(to_svg(plot), ">title<"));
  EXPECT_FALSE(has(to_svg(plot), "y=\"52.0\"")) << "no subtitle, no line of it";
  plot.subtitle = "subtitle";
  EXPECT_TRUE(has(to_svg(plot), "<text x=\"24.0\" y=\"52.0\" font-size=\"12.5\""));
  EXPECT_TRUE(has(to_svg(plot), "width=\"860\" height=\"120\""));
}

// 1e12 steps from zero are the most that are told apart.
TEST(PlotLimits, TicksEndWhereDoublesAreTooCoarse) {
  using Ticks = std::vector<double>;
  EXPECT_EQ(axis_ticks(1e12 - 5, 1e12 + 1, 6), (Ticks{1e12 - 5, 1e12 + 1}));
  EXPECT_EQ(axis_ticks(1e12 - 6, 1e12, 6).size(), 7U);
  EXPECT_EQ(axis_ticks(-1e12 - 1, -1e12 + 5, 6), (Ticks{-1e12 - 1, -1e12 + 5}));
  EXPECT_EQ(axis_ticks(0, INFINITY, 6), (Ticks{0, INFINITY}));
  EXPECT_EQ(axis_ticks(5, 3, 1), (Ticks{5, 6})) << "no range";
  EXPECT_EQ(axis_ticks(0, 1, 2), (Ticks{0, 0.5, 1}));
  EXPECT_EQ(axis_ticks(0, 2, 2), (Ticks{0, 1, 2}));
  EXPECT_EQ(axis_ticks(-3, 3, 3), (Ticks{-4, -2, 0, 2, 4}));
  EXPECT_EQ(tick_text(1e-12), "1e-12");
  EXPECT_EQ(tick_text(123456.7), "123457");
}

}  // namespace
}  // namespace assay::report
