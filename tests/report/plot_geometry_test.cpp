// Where a plot draws what: every coordinate worked out by hand from the page's margins.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "assay/report/figures.h"
#include "assay/report/plot.h"
#include "assay/report/table.h"

namespace assay::report {
namespace {

bool draws(const std::string& svg, const std::string& element) {
  return svg.find(element) != std::string::npos;
}
std::string line_element(double x1, double y1, double x2, double y2, const std::string& colour,
                         const std::string& width) {
  char text[200];
  std::snprintf(text, sizeof text,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%s\"/>",
                x1, y1, x2, y2, colour.c_str(), width.c_str());
  return text;
}
std::string words_element(double x, double y, const std::string& size, const std::string& anchor,
                          const std::string& text) {
  char head[200];
  std::snprintf(head, sizeof head,
                "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%s\" text-anchor=\"%s\" fill=\"#222222\">", x, y,
                size.c_str(), anchor.c_str());
  return head + text + "</text>";
}
std::size_t number_of(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// Across, 1 to 2 lies on 84 to 660: 576 a unit, beside a legend of 170. Up, 0 to 5 lies on 416 to 74: 68.4 a
// unit.
TEST(PlotGeometry, OfLines) {
  Plot plot;
  plot.title = "title";
  plot.subtitle = "subtitle";
  plot.x_label = "x";
  plot.y_label = "y";
  plot.series = {{"first", {{1, 2, 1.5, 2.5}, {2, 3, 0, 0}}}, {"second", {{1, 1, 0, 0}, {2, 4, 3, 5}}}};
  const std::string svg = to_svg(plot);
  const auto expect = [&](const std::string& element) { EXPECT_TRUE(draws(svg, element)) << element << svg; };
  expect("width=\"860\" height=\"480\" viewBox=\"0 0 860 480\"");
  expect(
      "<text x=\"24.0\" y=\"30.0\" font-size=\"18\" text-anchor=\"start\" fill=\"#222222\" "
      "font-weight=\"bold\">title</text>");
  expect(words_element(24, 52, "12.5", "start", "subtitle"));
  for (int i = 0; i <= 5; ++i) {
    const double y = 416 - 68.4 * i;
    expect(line_element(84, y, 660, y, "#dddddd", "1"));
    expect(words_element(76, y + 4, "12", "end", std::to_string(i)));
  }
  const char* ticks[] = {"1", "1.2", "1.4", "1.6", "1.8", "2"};
  for (int i = 0; i < 6; ++i) {
    const double x = 84 + 115.2 * i;
    expect(line_element(x, 416, x, 421, "#222222", "1"));
    expect(words_element(x, 436, "12", "middle", ticks[i]));
  }
  EXPECT_EQ(number_of(svg, "#dddddd"), 6U);
  expect(line_element(84, 416, 660, 416, "#222222", "1.2"));
  expect(line_element(84, 74, 84, 416, "#222222", "1.2"));
  expect(words_element(372, 462, "13", "middle", "x"));
  expect(
      "<text x=\"24.0\" y=\"245.0\" font-size=\"13\" text-anchor=\"middle\" fill=\"#222222\" "
      "transform=\"rotate(-90 24 245)\">y</text>");
  expect("<polyline points=\"84.0,279.2 660.0,210.8\" fill=\"none\" stroke=\"#0072B2\" stroke-width=\"2\"/>");
  expect(
      "<polyline points=\"84.0,347.6 660.0,142.4\" fill=\"none\" stroke=\"#D55E00\" stroke-width=\"2\" "
      "stroke-dasharray=\"8 4\"/>");
  // The interval 1.5 to 2.5 stands at the point it belongs to, from its low to its high end.
  expect(line_element(84, 313.4, 84, 245, "#0072B2", "1.5"));
  expect(line_element(79, 313.4, 89, 313.4, "#0072B2", "1.5"));
  expect(line_element(79, 245, 89, 245, "#0072B2", "1.5"));
  expect(line_element(660, 210.8, 660, 74, "#D55E00", "1.5"));
  expect(line_element(655, 210.8, 665, 210.8, "#D55E00", "1.5"));
  expect(line_element(655, 74, 665, 74, "#D55E00", "1.5"));
  EXPECT_EQ(number_of(svg, "stroke-width=\"1.5\""), 6U);
  expect("<circle cx=\"84.0\" cy=\"279.2\" r=\"4.5\" fill=\"#0072B2\"/>");
  expect("<circle cx=\"660.0\" cy=\"210.8\" r=\"4.5\" fill=\"#0072B2\"/>");
  expect("<rect x=\"79.5\" y=\"343.1\" width=\"9\" height=\"9\" fill=\"#D55E00\"/>");
  expect("<rect x=\"655.5\" y=\"137.9\" width=\"9\" height=\"9\" fill=\"#D55E00\"/>");
  // The legend.
  expect("<polyline points=\"678.0,88.0 702.0,88.0\" fill=\"none\" stroke=\"#0072B2\" stroke-width=\"2\"/>");
  expect("<circle cx=\"690.0\" cy=\"88.0\" r=\"4.5\" fill=\"#0072B2\"/>");
  expect(words_element(710, 92, "12.5", "start", "first"));
  expect("<polyline points=\"678.0,110.0 702.0,110.0\" fill=\"none\" stroke=\"#D55E00\"");
  expect("<rect x=\"685.5\" y=\"105.5\" width=\"9\" height=\"9\" fill=\"#D55E00\"/>");
  expect(words_element(710, 114, "12.5", "start", "second"));
}

TEST(PlotGeometry, OfOneSeriesAndOfManyMarkers) {
  Plot plot;
  plot.series = {{"only", {{0, 10, 0, 0}, {10, 0, 0, 0}}}};
  // Without a legend 0 to 10 lies on 84 to 830.
  EXPECT_TRUE(draws(to_svg(plot), "<polyline points=\"84.0,74.0 830.0,416.0\""));
  plot.series[0].has_line = false;
  EXPECT_EQ(number_of(to_svg(plot), "<polyline"), 0U);
  EXPECT_EQ(number_of(to_svg(plot), "<circle"), 2U);
  plot.series = std::vector<PlotSeries>(9, {"s", {{0, 0, 0, 0}, {10, 10, 0, 0}}});
  const std::string svg = to_svg(plot);
  // A triangle, a diamond and a triangle that points down at 84, 416; the ninth series begins again with
  // colours.
  EXPECT_TRUE(draws(svg, "<polygon points=\"84.0,410.1 78.6,420.5 89.4,420.5\" fill=\"#009E73\"/>")) << svg;
  EXPECT_TRUE(
      draws(svg, "<polygon points=\"84.0,409.7 89.4,416.0 84.0,422.3 78.6,416.0\" fill=\"#CC79A7\"/>"));
  EXPECT_TRUE(draws(svg, "<polygon points=\"84.0,421.9 78.6,411.5 89.4,411.5\" fill=\"#E69F00\"/>")) << svg;
  EXPECT_EQ(number_of(svg, "stroke=\"#0072B2\" stroke-width=\"2\""), 4U);  // lines and legend of two
  plot.series = {{"one", {{5, 5, 0, 0}}}};
  EXPECT_EQ(number_of(to_svg(plot), "<polyline"), 0U) << "one point is no line";
}

// A run of all precisions draws eighteen marks, which only their legend names.
TEST(PlotGeometry, TwentyMarksDifferFromEachOther) {
  Plot plot;
  plot.series = std::vector<PlotSeries>(20, {"s", {{5, 5, 0, 0}}, false});
  std::istringstream lines(to_svg(plot));
  std::multiset<std::string> marks;
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find(" fill=\"#");
        at != std::string::npos && line.find("<text") == std::string::npos)
      marks.insert(line);
  std::set<std::string> in_the_plot;
  for (const std::string& mark : marks)
    if (mark.find("<rect width") == std::string::npos) in_the_plot.insert(mark);
  EXPECT_EQ(in_the_plot.size(), 40U) << "twenty in the plot and twenty in its legend";
}

// The names are 7 characters long: 40 + 7.4 * 7 = 91.8 to 760; 0 to 12 on it, 55.683 a unit.
TEST(PlotGeometry, OfBars) {
  Plot plot;
  plot.x_label = "ms";
  plot.categories = {"float32", "nf4"};
  plot.series = {{"", {{0, 10, 9, 11}, {0, 5, 4, 7}}}};
  const std::string svg = to_svg(plot);
  const auto expect = [&](const std::string& element) { EXPECT_TRUE(draws(svg, element)) << element << svg; };
  expect("width=\"860\" height=\"186\"");  // 74 + 2 * 24 + 64
  const double unit = (760 - 91.8) / 12;
  for (int i = 0; i <= 12; i += 2) {
    expect(line_element(91.8 + unit * i, 70, 91.8 + unit * i, 122, "#dddddd", "1"));
    expect(words_element(91.8 + unit * i, 140, "12", "middle", std::to_string(i)));
  }
  char bar[200];
  std::snprintf(bar, sizeof bar,
                "<rect x=\"91.8\" y=\"74.0\" width=\"%.1f\" height=\"18.0\" fill=\"#D55E00\"/>", unit * 10);
  expect(bar);
  std::snprintf(bar, sizeof bar,
                "<rect x=\"91.8\" y=\"98.0\" width=\"%.1f\" height=\"18.0\" fill=\"#0072B2\"/>", unit * 5);
  expect(bar);
  expect(line_element(91.8 + unit * 9, 84, 91.8 + unit * 11, 84, "#222222", "1.5"));
  for (const int end : {9, 11})
    expect(line_element(91.8 + unit * end, 79, 91.8 + unit * end, 89, "#222222", "1.5"));
  // The second bar has an interval of its own, 24 below.
  expect(line_element(91.8 + unit * 4, 108, 91.8 + unit * 7, 108, "#222222", "1.5"));
  for (const int end : {4, 7})
    expect(line_element(91.8 + unit * end, 103, 91.8 + unit * end, 113, "#222222", "1.5"));
  EXPECT_EQ(number_of(svg, "stroke-width=\"1.5\""), 6U);
  expect(words_element(83.8, 88, "12.5", "end", "float32"));
  expect(words_element(83.8, 112, "12.5", "end", "nf4"));
  // The figure stands behind the bar, or behind its interval.
  expect(words_element(91.8 + unit * 11 + 6, 88, "12", "start", "10"));
  expect(words_element(91.8 + unit * 7 + 6, 112, "12", "start", "5"));
  expect(line_element(91.8, 70, 91.8, 122, "#222222", "1.2"));
  expect(words_element((91.8 + 760) / 2, 166, "13", "middle", "ms"));
  // Long names have their limit.
  plot.categories[0] = std::string(60, 'n');
  EXPECT_TRUE(draws(to_svg(plot), "<rect x=\"360.0\" y=\"74.0\""));
}

TEST(PlotGeometry, OfNothing) {
  Plot plot;
  plot.title = "t";
  plot.series = {{"a", {}}, {"b", {}}};
  const std::string svg = to_svg(plot);
  EXPECT_TRUE(draws(svg, "height=\"120\""));
  EXPECT_TRUE(draws(svg, words_element(24, 84, "13", "start", "nothing was measured for this plot")));
  plot.series[1].points = {{1, 1, 0, 0}};
  EXPECT_FALSE(draws(to_svg(plot), "nothing was measured"));
}

TEST(AxisTicks, ByHand) {
  using Ticks = std::vector<double>;
  EXPECT_EQ(axis_ticks(0, 12, 6), (Ticks{0, 2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(axis_ticks(3, 9, 3), (Ticks{2, 4, 6, 8, 10}));
  EXPECT_EQ(axis_ticks(0, 30, 6), (Ticks{0, 5, 10, 15, 20, 25, 30}));
  EXPECT_EQ(axis_ticks(0, 5, 1), (Ticks{0, 5}));
  EXPECT_EQ(axis_ticks(0, 7, 1), (Ticks{0, 10}));
  EXPECT_EQ(axis_ticks(0, 7, 0), (Ticks{0, 10}));
  EXPECT_EQ(axis_ticks(4, 4, 1), (Ticks{4, 5}));
  EXPECT_EQ(axis_ticks(1e20, 1.0001e20, 1).size(), 2U);
  EXPECT_EQ(tick_text(-1e-13), "0");
  EXPECT_EQ(tick_text(-2), "-2");
  EXPECT_EQ(escaped_xml("a<b>&\"c\"\x01"), "a&lt;b&gt;&amp;&quot;c&quot;?");
  EXPECT_EQ(escaped_xml(" "), " ");
}

// Columns of 7.3 times the longest text and two: 7.3 * 6 = 43.8 and 7.3 * 5 = 36.5, from 16 on.
TEST(TableSvg, StandsWhereItsColumnsAre) {
  const std::string svg =
      table_svg({{"Case", "ms"}, {false, true}, {{"a", "1.5"}, {"bb", "20"}, {"c", "3"}}});
  const auto expect = [&](const std::string& element) { EXPECT_TRUE(draws(svg, element)) << element << svg; };
  const auto cell = [](double x, double y, const char* anchor, const char* weight, const char* text) {
    char element[200];
    std::snprintf(element, sizeof element,
                  "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-weight=\"%s\" "
                  "fill=\"#222222\">%s</text>",
                  x, y, anchor, weight, text);
    return std::string(element);
  };
  expect("width=\"112.3\" height=\"115\"");  // 2 * 16 + 80.3; 34 + 3 * 21 + 18
  expect(cell(16, 22, "start", "bold", "Case"));
  expect(cell(16 + 43.8 + 36.5 - 8, 22, "end", "bold", "ms"));
  expect("<line x1=\"16\" y1=\"30\" x2=\"96.3\" y2=\"30\" stroke=\"#222222\"/>");
  expect(cell(16, 49, "start", "normal", "a"));
  expect(cell(88.3, 49, "end", "normal", "1.5"));
  expect(cell(16, 70, "start", "normal", "bb"));
  expect(cell(16, 91, "start", "normal", "c"));
  expect("<rect x=\"10\" y=\"55\" width=\"92.3\" height=\"21\" fill=\"#f3f5f8\"/>");
  EXPECT_EQ(number_of(svg, "#f3f5f8"), 1U);
  const std::string wide = table_svg({{"h"}, {false}, {{std::string(70, 'w')}}});
  EXPECT_TRUE(draws(wide, ">" + std::string(57, 'w') + "...<"));
  EXPECT_TRUE(draws(wide, "width=\"484.6\"")) << wide.substr(0, 200);  // 32 + 62 * 7.3
}

TEST(Table, GivesWayInAKnownOrder) {
  // 8 + 2 + 12 + 2 + 5 + 2 + 5 = 36 columns: the highest rank goes first, then the widest text is cut.
  Table table;
  table.add_column("Name", false);
  table.add_column("Text", false);
  table.add_column("One", true, 1);
  table.add_column("Two", true, 2);
  table.rows = {{"nnnnnnnn", "tttttttttttt", "11111", "22222"}};
  EXPECT_EQ(to_text(table, 36),
            "Name      Text            One    Two\n"
            "--------  ------------  -----  -----\n"
            "nnnnnnnn  tttttttttttt  11111  22222\n");
  EXPECT_EQ(to_text(table, 35),
            "Name      Text            One\n"
            "--------  ------------  -----\n"
            "nnnnnnnn  tttttttttttt  11111\n");
  EXPECT_EQ(to_text(table, 22),
            "Name      Text\n"
            "--------  ------------\n"
            "nnnnnnnn  tttttttttttt\n");
  EXPECT_EQ(to_text(table, 20),
            "Name      Text\n"
            "--------  ----------\n"
            "nnnnnnnn  ttttttt...\n");
  EXPECT_EQ(to_text(table, 17),
            "Name      Text\n"
            "--------  -------\n"
            "nnnnnnnn  tttt...\n");
  EXPECT_EQ(to_text(table), to_text(table, 36)) << "without a limit nothing gives way";
}

Row row_of(Scenario scenario, const char* label) {
  Row row;
  row.scenario = scenario;
  row.label = label;
  row.parameters = {{"precision", "float32"}, {"kernels", "avx2"}, {"threads", "2"}};
  return row;
}

TEST(Figures, DrawTheirRowsWithTheirIntervals) {
  ResultSet results;
  results.model.id = "demo";
  for (const double tokens : {32.0, 128.0}) {
    Row row = row_of(Scenario::lengths, "l");
    row.set("prompt_tokens", tokens);
    row.set("total_latency_s",
            Value{tokens / 1e3, statistics::Interval{tokens / 2e3, tokens / 5e2, 0.95}, {}});
    row.set("time_to_first_token_s", tokens / 1e4);
    row.set("decode_tokens_per_sec", tokens);
    row.set("tokens_per_sec", 2 * tokens);
    results.rows.push_back(row);
  }
  const char* sizes[] = {"1", "4"};
  for (int i = 0; i < 2; ++i) {
    Row row = row_of(Scenario::batches, sizes[i]);
    row.parameters.emplace_back("batch_size", sizes[i]);
    row.set("tokens_per_sec", Value{10.0 + i, statistics::Interval{9, 12, 0.95}, {}});
    if (i == 1) row.set("tokens_per_sec_per_sequence", 2.5);
    results.rows.push_back(row);
  }
  Row steps = row_of(Scenario::step_times, "cache on");
  steps.set("position", Value{2, {}, {1, 2, 3}});
  steps.set("step_latency_ms", Value{5, {}, {4, 5, 6}});
  results.rows.push_back(steps);
  for (const char* label : {"float32", "nf4"}) {
    Row row = row_of(Scenario::tradeoff, label);
    row.set("resident_weights_bytes", 3 * 1024.0 * 1024);
    row.set("total_latency_s", Value{0.5, statistics::Interval{0.4, 0.7, 0.95}, {}});
    results.rows.push_back(row);
    Row text = row_of(Scenario::perplexity, label);
    text.set("perplexity", Value{20, statistics::Interval{19, 21, 0.95}, {}});
    results.rows.push_back(text);
  }
  const auto figures = figures_of(results);
  ASSERT_EQ(figures.size(), 9U);
  const auto figure = [&](std::size_t i, const char* name) -> const Plot& {
    EXPECT_EQ(figures[i].first, name);
    return figures[i].second;
  };
  const auto expect = [](const PlotPoint& p, double x, double y, double low, double high) {
    EXPECT_NEAR(p.x, x, 1e-9);
    EXPECT_NEAR(p.y, y, 1e-9);
    EXPECT_NEAR(p.low, low, 1e-9);
    EXPECT_NEAR(p.high, high, 1e-9);
  };
  const Plot& latency = figure(0, "latency_by_length");
  EXPECT_EQ(latency.subtitle, "demo, float32, avx2 kernels, 2 threads; whiskers: 95 % intervals");
  expect(latency.series[0].points[1], 128, 128, 64, 256);
  expect(latency.series[1].points[1], 128, 12.8, 0, 0);
  const Plot& speed = figure(1, "speed_by_length");
  expect(speed.series[0].points[0], 32, 32, 0, 0);
  expect(speed.series[1].points[0], 32, 64, 0, 0);
  const Plot& position = figure(2, "step_by_position");
  EXPECT_EQ(position.series[0].name, "cache on");
  EXPECT_FALSE(position.series[0].has_line);
  expect(position.series[0].points[2], 3, 6, 0, 0);
  EXPECT_EQ(position.subtitle, "demo; each point is the median over the runs of one step");
  const Plot& memory = figure(3, "memory_by_precision");
  EXPECT_EQ(memory.subtitle, "demo; the first bar is the baseline");
  EXPECT_EQ(memory.x_label, "Weights (MiB), lower is better");
  expect(memory.series[0].points[1], 0, 3, 0, 0);
  const Plot& bars = figure(4, "latency_by_precision");
  EXPECT_EQ(bars.subtitle, "demo; the first bar is the baseline; whiskers: 95 % intervals");
  expect(bars.series[0].points[0], 0, 500, 400, 700);
  EXPECT_EQ(bars.categories, (std::vector<std::string>{"float32", "nf4"}));
  const Plot& perplexity = figure(5, "perplexity_by_precision");
  EXPECT_EQ(perplexity.subtitle,
            "demo; the first bar is the baseline; whiskers: 95 % intervals over texts, wider than those of "
            "differences");
  expect(perplexity.series[0].points[1], 0, 20, 19, 21);
  const Plot& batches = figure(6, "throughput_by_batch");
  expect(batches.series[0].points[1], 4, 11, 9, 12);
  ASSERT_EQ(batches.series[1].points.size(), 1U);
  expect(batches.series[1].points[0], 4, 2.5, 0, 0);
  // One bar compares nothing; failed rows are none.
  for (Row& row : results.rows)
    if (row.label == "nf4" || row.label == "4") row.status = RowStatus::error;
  EXPECT_EQ(figures_of(results).size(), 3U);
}

}  // namespace
}  // namespace assay::report
