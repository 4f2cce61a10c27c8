// What plots are drawn with: shapes as SVG, and axes.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "assay/report/plot.h"

namespace assay::report {

inline constexpr double kPlotWidth = 860, kPlotHeight = 480;
inline constexpr double kPlotRight = 30, kPlotTop = 74, kPlotBottom = 64;  // margins
inline constexpr double kBarHeight = 24;

// A series differs from its neighbours in colour, in the pattern of its line, and in its marker.
const char* colour_of(std::size_t series);
const char* dash_of(std::size_t series);  // the value of stroke-dasharray; empty: a solid line

// From `from` to `to` on the page, over ticks that cover [low, high]. A logarithmic axis needs ends above 0.
class Axis {
 public:
  Axis(double low, double high, double from, double to, bool is_log = false);
  double at(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double place(double value) const;  // in front of scaling

  double from_, to_;
  bool is_log_;
  std::vector<double> ticks_;  // from one end to the other
};

class Svg {
 public:
  Svg(double width, double height);
  void line(double x1, double y1, double x2, double y2, const char* colour, double width);
  // `style`: further attributes, with a blank before each.
  void words(double x, double y, const std::string& text, const char* anchor, double size,
             const char* style = "");
  void rectangle(double x, double y, double width, double height, const char* colour);
  void path(const std::vector<std::pair<double, double>>& points, const char* colour, const char* dash = "");
  // Shapes that differ without colour.
  void marker(std::size_t kind, double x, double y, const char* colour, MarkStyle style = MarkStyle::filled);
  // Lines over a rectangle, by which parts of a bar differ without colour: none for part 0.
  void hatch(std::size_t part, double x, double y, double width, double height);
  // What follows, up to end_mark(), stands for a value: its text is a tooltip.
  void begin_mark(const std::string& text, int row);
  void end_mark();
  std::string finish() { return text_ + "</svg>\n"; }

 private:
  void polygon(const std::vector<std::pair<double, double>>& points, const std::string& paint);
  std::string text_;
  bool is_mark_ = false;
};

// Title and subtitle.
void add_titles(Svg& svg, const Plot& plot);

// The forms of a plot (to_svg() chooses); each has something to show.
std::string lines_plot(const Plot& plot);
std::string bars_plot(const Plot& plot);
std::string stacked_plot(const Plot& plot);
std::string boxes_plot(const Plot& plot);
std::string spans_plot(const Plot& plot);
std::string cells_plot(const Plot& plot);

}  // namespace assay::report
