// Plots as SVG: titled, axes with units, colours that colour-blind people can tell apart (Okabe and Ito
// 2008), and a marker and a dash pattern of its own for each series, so that black and white suffice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace assay::report {

struct PlotPoint {
  double x = 0, y = 0;
  double low = 0, high = 0;      // the ends of an error bar; equal: none
  double x_low = 0, x_high = 0;  // the same across
  std::string text = {};         // what a tooltip says of it: "nf4: 12.3 ms [12.1, 12.6], n = 9"
  int row = -1;                  // the index of its row in the result set; -1: none
};

enum class MarkStyle { filled, hollow, dotted };  // dotted: hollow, with a dot

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
  bool has_line = true;
  MarkStyle style = MarkStyle::filled;
  bool has_marks = true;
  bool has_legend = true;
};

// Percentiles of a distribution: the whiskers, the quartiles and the median.
struct PlotBox {
  double low = 0, first = 0, median = 0, third = 0, high = 0;
  std::string text = {};
  int row = -1;
};

// What lasted from one time to another, in the lane of a category.
struct PlotSpan {
  std::size_t lane = 0;
  double from = 0, to = 0;
  std::string text = {};
};

// A value of a lane and a column.
struct PlotCell {
  std::size_t lane = 0, column = 0;
  double value = 0;
  std::string text = {};
};

// standard: lines over numbers, or where categories are given one bar each, drawn sideways with its name.
// stacked: a bar each, of a part from each series. boxes, spans: a lane each.
// cells: a heat map of lanes and columns, whose shades are logarithmic.
enum class PlotForm { standard, stacked, boxes, spans, cells };

struct Plot {
  std::string title = {}, subtitle = {};
  std::string x_label = {}, y_label = {};  // with units: "Latency (s)"
  std::vector<PlotSeries> series = {};
  std::vector<std::string> categories = {};  // point i of a series belongs to category i
  PlotForm form = PlotForm::standard;
  bool is_log_x = false, is_log_y = false;  // where lines are drawn; points at 0 or below are left out
  bool has_zero = true;                     // where lines are drawn: the upright axis begins at 0
  std::vector<PlotBox> boxes = {};          // by category
  std::vector<PlotSpan> spans = {};
  std::vector<std::string> columns = {};  // a heat map's
  std::vector<PlotCell> cells = {};
  std::string caption = {};  // sentences that stand below it in a report
};

// A document of its own; deterministic, so that equal data give equal bytes. A plot without points says so.
std::string to_svg(const Plot& plot);

// The data as a sentence or two, for those who cannot see the plot.
std::string described(const Plot& plot);

// Text as XML has it; what XML cannot hold becomes a question mark.
std::string escaped_xml(const std::string& text);

// Steps of 1, 2 or 5 times a power of ten that cover [low, high] with about `count` marks; the two ends where
// doubles are too coarse or too small for steps between them.
std::vector<double> axis_ticks(double low, double high, int count);
// "1200", "0.05", "1.5e6": as short as it is exact for a tick.
std::string tick_text(double value);

}  // namespace assay::report
