#include "assay/report/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "assay/base/format.h"

namespace assay::report {

namespace {

constexpr std::array<const char*, 8> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#E69F00", "#56B4E9", "#000000", "#999933"};
constexpr double kWidth = 860, kLineHeight = 480, kRight = 30, kTop = 74, kBottom = 64;
constexpr double kBarHeight = 24;
constexpr const char* kFont = "DejaVu Sans, Helvetica, Arial, sans-serif";

// A numeric axis on the page.
class Axis {
 public:
  Axis(double low, double high, double from, double to)
      : from_(from), to_(to), ticks_(axis_ticks(low, high, 6)) {}
  double at(double value) const {
    return from_ + (value - ticks_.front()) / (ticks_.back() - ticks_.front()) * (to_ - from_);
  }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double from_, to_;
  std::vector<double> ticks_;  // from one end to the other
};

struct Range {
  double low, high;
};
Range range_of(const Plot& plot, double PlotPoint::*low, double PlotPoint::*high, double PlotPoint::*middle,
               bool from_zero) {
  Range range{INFINITY, -INFINITY};
  for (const PlotSeries& series : plot.series)
    for (const PlotPoint& point : series.points) {
      const bool has_bar = point.low != point.high;
      const double least = has_bar ? std::min(point.*low, point.*middle) : point.*middle;
      const double most = has_bar ? std::max(point.*high, point.*middle) : point.*middle;
      range.low = std::min(range.low, least);
      range.high = std::max(range.high, most);
    }
  if (from_zero) range.low = std::min(0.0, range.low);
  if (range.high <= range.low) range.high = range.low + (range.low == 0 ? 1 : std::abs(range.low) * 0.1);
  return range;
}

class Svg {
 public:
  explicit Svg(double width, double height) {
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} "
        "{1:g}\" "
        "font-family=\"{2}\">\n<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#ffffff\"/>\n",
        width, height, kFont);
  }
  void line(double x1, double y1, double x2, double y2, const char* colour, double width) {
    text_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"{:g}\"/>\n",
        x1, y1, x2, y2, colour, width);
  }
  void words(double x, double y, const std::string& text, const char* anchor, double size,
             const char* style = "") {
    text_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" text-anchor=\"{}\" "
        "fill=\"#222222\"{}>{}</text>\n",
        x, y, size, anchor, style, escaped_xml(text));
  }
  void rectangle(double x, double y, double width, double height, const char* colour) {
    text_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
                         x, y, std::max(0.0, width), height, colour);
  }
  void path(const std::vector<std::pair<double, double>>& points, const char* colour) {
    std::string list;
    for (const auto& [x, y] : points) list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", x, y);
    text_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", list,
                         colour);
  }
  // Filled shapes that differ without colour.
  void marker(std::size_t kind, double x, double y, const char* colour) {
    constexpr double r = 4.5;
    switch (kind % 4) {
      case 0:
        text_ +=
            fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" fill=\"{}\"/>\n", x, y, r, colour);
        break;
      case 1:
        text_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:g}\" height=\"{:g}\" fill=\"{}\"/>\n",
                             x - r, y - r, 2 * r, 2 * r, colour);
        break;
      case 2:
        polygon({{x, y - 1.3 * r}, {x - 1.2 * r, y + r}, {x + 1.2 * r, y + r}}, colour);
        break;
      default:
        polygon({{x, y - 1.4 * r}, {x + 1.2 * r, y}, {x, y + 1.4 * r}, {x - 1.2 * r, y}}, colour);
    }
  }
  std::string finish() { return text_ + "</svg>\n"; }

 private:
  void polygon(const std::vector<std::pair<double, double>>& points, const char* colour) {
    std::string list;
    for (const auto& [x, y] : points) list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", x, y);
    text_ += fmt::format("<polygon points=\"{}\" fill=\"{}\"/>\n", list, colour);
  }
  std::string text_;
};

void add_titles(Svg& svg, const Plot& plot) {
  svg.words(24, 30, plot.title, "start", 18, " font-weight=\"bold\"");
  if (!plot.subtitle.empty()) svg.words(24, 52, plot.subtitle, "start", 12.5);
}

std::string lines_plot(const Plot& plot) {
  const double left = 84, height = kLineHeight, legend = 170;
  const bool has_legend = plot.series.size() > 1;
  const double right = kWidth - kRight - (has_legend ? legend : 0);
  Svg svg(kWidth, height);
  add_titles(svg, plot);
  const Range x = range_of(plot, &PlotPoint::x, &PlotPoint::x, &PlotPoint::x, false);
  const Range y = range_of(plot, &PlotPoint::low, &PlotPoint::high, &PlotPoint::y, true);
  const Axis across(x.low, x.high, left, right), up(y.low, y.high, height - kBottom, kTop);
  for (const double tick : up.ticks()) {
    svg.line(left, up.at(tick), right, up.at(tick), "#dddddd", 1);
    svg.words(left - 8, up.at(tick) + 4, tick_text(tick), "end", 12);
  }
  for (const double tick : across.ticks()) {
    svg.line(across.at(tick), height - kBottom, across.at(tick), height - kBottom + 5, "#222222", 1);
    svg.words(across.at(tick), height - kBottom + 20, tick_text(tick), "middle", 12);
  }
  svg.line(left, height - kBottom, right, height - kBottom, "#222222", 1.2);
  svg.line(left, kTop, left, height - kBottom, "#222222", 1.2);
  svg.words((left + right) / 2, height - 18, plot.x_label, "middle", 13);
  svg.words(24, (kTop + height - kBottom) / 2, plot.y_label, "middle", 13,
            fmt::format(" transform=\"rotate(-90 24 {:g})\"", (kTop + height - kBottom) / 2).c_str());
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& series = plot.series[i];
    const char* colour = kColours[i % kColours.size()];
    std::vector<std::pair<double, double>> path;
    for (const PlotPoint& point : series.points) path.emplace_back(across.at(point.x), up.at(point.y));
    if (series.has_line && path.size() > 1) svg.path(path, colour);
    for (const PlotPoint& point : series.points) {
      const double px = across.at(point.x);
      if (point.low != point.high) {
        svg.line(px, up.at(point.low), px, up.at(point.high), colour, 1.5);
        svg.line(px - 5, up.at(point.low), px + 5, up.at(point.low), colour, 1.5);
        svg.line(px - 5, up.at(point.high), px + 5, up.at(point.high), colour, 1.5);
      }
      svg.marker(i, px, up.at(point.y), colour);
    }
    if (has_legend) {
      const double ly = kTop + 14 + 22 * static_cast<double>(i);
      svg.line(right + 18, ly, right + 42, ly, colour, 2);
      svg.marker(i, right + 30, ly, colour);
      svg.words(right + 50, ly + 4, series.name, "start", 12.5);
    }
  }
  return svg.finish();
}

std::string bars_plot(const Plot& plot) {
  std::size_t longest = 0;
  for (const std::string& name : plot.categories) longest = std::max(longest, name.size());
  const double left = std::min(360.0, 40 + 7.4 * static_cast<double>(longest)), right = kWidth - kRight - 70;
  const double bottom = kTop + kBarHeight * static_cast<double>(plot.categories.size());
  Svg svg(kWidth, bottom + kBottom);
  add_titles(svg, plot);
  const Range range = range_of(plot, &PlotPoint::low, &PlotPoint::high, &PlotPoint::y, true);
  const Axis across(range.low, range.high, left, right);
  for (const double tick : across.ticks()) {
    svg.line(across.at(tick), kTop - 4, across.at(tick), bottom, "#dddddd", 1);
    svg.words(across.at(tick), bottom + 18, tick_text(tick), "middle", 12);
  }
  const std::vector<PlotPoint>& points = plot.series.front().points;
  for (std::size_t i = 0; i < plot.categories.size() && i < points.size(); ++i) {
    const double y = kTop + kBarHeight * static_cast<double>(i), middle = y + kBarHeight / 2 - 2;
    const double end = across.at(points[i].y);
    svg.rectangle(left, y, end - left, kBarHeight - 6, kColours[i == 0 ? 1 : 0]);
    double words_at = end;
    if (points[i].low != points[i].high) {
      svg.line(across.at(points[i].low), middle, across.at(points[i].high), middle, "#222222", 1.5);
      for (const double x : {across.at(points[i].low), across.at(points[i].high)})
        svg.line(x, middle - 5, x, middle + 5, "#222222", 1.5);
      words_at = std::max(words_at, across.at(points[i].high));
    }
    svg.words(left - 8, middle + 4, plot.categories[i], "end", 12.5);
    svg.words(words_at + 6, middle + 4, fmt::format("{:.4g}", points[i].y), "start", 12);
  }
  svg.line(left, kTop - 4, left, bottom, "#222222", 1.2);
  svg.words((left + right) / 2, bottom + 44, plot.x_label, "middle", 13);
  return svg.finish();
}

}  // namespace

std::string escaped_xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += '?';
    else
      out += c;
  }
  return out;
}

std::vector<double> axis_ticks(double low, double high, int count) {
  if (!(high > low)) high = low + 1;
  const double rough = (high - low) / std::max(1, count), power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double digit : {1.0, 2.0, 5.0})
    if (digit * power >= rough * 0.999) {
      step = digit * power;
      break;
    }
  constexpr double kFinest = 1e12;  // steps from zero: beyond it neighbouring ones may be one number
  if (!std::isfinite(rough) || !(step > 0) || std::max(std::abs(low), std::abs(high)) / step > kFinest)
    return {low, high};
  std::vector<double> ticks;
  for (double i = std::floor(low / step + 1e-9); i * step < high + step * (1 - 1e-9); ++i)
    ticks.push_back(i * step);
  return ticks;
}

std::string tick_text(double value) {
  const double shown = std::abs(value) < 1e-12 ? 0 : value;
  return fmt::format("{:.6g}", shown);
}

std::string to_svg(const Plot& any) {
  // A page has no place for what is no number, or too large to be told from its neighbours.
  Plot plot = any;
  constexpr double kMax = 1e100;
  for (PlotSeries& series : plot.series)
    for (PlotPoint& point : series.points)
      for (double* value : {&point.x, &point.y, &point.low, &point.high})
        *value = std::isnan(*value) ? 0 : std::clamp(*value, -kMax, kMax);
  const bool is_empty = std::all_of(plot.series.begin(), plot.series.end(),
                                    [](const PlotSeries& s) { return s.points.empty(); });
  if (is_empty) {
    Svg svg(kWidth, 120);
    add_titles(svg, plot);
    svg.words(24, 84, "nothing was measured for this plot", "start", 13);
    return svg.finish();
  }
  return plot.categories.empty() ? lines_plot(plot) : bars_plot(plot);
}

}  // namespace assay::report
