// Lines and points over two numeric axes.
#include <algorithm>
#include <cmath>

#include "assay/base/format.h"
#include "assay/report/svg.h"
#include "assay/report/text_layout.h"

namespace assay::report {

namespace {

struct Range {
  double low = INFINITY, high = -INFINITY;

  void include(double middle, double least, double most) {
    const bool has_bar = least != most;
    low = std::min(low, has_bar ? std::min(least, middle) : middle);
    high = std::max(high, has_bar ? std::max(most, middle) : middle);
  }
  // Ends that differ.
  Range spread(bool is_log) const {
    if (high > low) return *this;
    if (is_log) return {low / 2, low * 2};
    return {low, low + (low == 0 ? 1 : std::abs(low) * 0.1)};
  }
};

constexpr std::size_t kLegendColumns = 34;  // the longest name
constexpr double kLegendLine = 22;

// One plot while it is drawn: its axes, and where its legend stands.
class LinesPlot {
 public:
  explicit LinesPlot(const Plot& plot)
      : plot_(plot),
        entries_(static_cast<std::size_t>(std::count_if(plot.series.begin(), plot.series.end(),
                                                        [](const PlotSeries& s) { return s.has_legend; }))),
        has_legend_(plot.series.size() > 1 && entries_ > 0),
        height_(
            std::max(kPlotHeight, kPlotTop + 14 + kLegendLine * static_cast<double>(entries_) + kPlotBottom)),
        right_(kPlotWidth - kPlotRight - (has_legend_ ? legend_width() : 0)),
        across_(axis_of(true)),
        up_(axis_of(false)),
        svg_(kPlotWidth, height_) {}

  std::string draw() {
    add_titles(svg_, plot_);
    draw_axes();
    double legend_y = kPlotTop + 14;
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      const PlotSeries& series = plot_.series[i];
      draw_series(i);
      if (!has_legend_ || !series.has_legend) continue;
      if (series.has_line)
        svg_.path({{right_ + 18, legend_y}, {right_ + 42, legend_y}}, colour_of(i), dash_of(i));
      if (series.has_marks) svg_.marker(i, right_ + 30, legend_y, colour_of(i), series.style);
      svg_.words(right_ + 50, legend_y + 4, cut_to_width(series.name, kLegendColumns), "start", 12.5);
      legend_y += kLegendLine;
    }
    return svg_.finish();
  }

 private:
  static constexpr double kLeft = 84;

  double legend_width() const {
    constexpr double kLeast = 170, kColumn = 7.3;
    std::size_t longest = 0;
    for (const PlotSeries& series : plot_.series)
      if (series.has_legend)
        longest = std::max(longest, display_width(cut_to_width(series.name, kLegendColumns)));
    return std::max(kLeast, 50 + kColumn * static_cast<double>(longest));
  }

  Axis axis_of(bool is_across) const {
    Range range;
    for (const PlotSeries& series : plot_.series)
      for (const PlotPoint& p : series.points)
        is_across ? range.include(p.x, p.x_low, p.x_high) : range.include(p.y, p.low, p.high);
    if (is_across) {
      const Range x = range.spread(plot_.is_log_x);
      return {x.low, x.high, kLeft, right_, plot_.is_log_x};
    }
    if (plot_.has_zero && !plot_.is_log_y) range.low = std::min(0.0, range.low);
    const Range y = range.spread(plot_.is_log_y);
    return {y.low, y.high, height_ - kPlotBottom, kPlotTop, plot_.is_log_y};
  }

  void draw_axes() {
    const double bottom = height_ - kPlotBottom;
    for (const double tick : up_.ticks()) {
      svg_.line(kLeft, up_.at(tick), right_, up_.at(tick), "#dddddd", 1);
      svg_.words(kLeft - 8, up_.at(tick) + 4, tick_text(tick), "end", 12);
    }
    for (const double tick : across_.ticks()) {
      svg_.line(across_.at(tick), bottom, across_.at(tick), bottom + 5, "#222222", 1);
      svg_.words(across_.at(tick), bottom + 20, tick_text(tick), "middle", 12);
    }
    svg_.line(kLeft, bottom, right_, bottom, "#222222", 1.2);
    svg_.line(kLeft, kPlotTop, kLeft, bottom, "#222222", 1.2);
    svg_.words((kLeft + right_) / 2, height_ - 18, plot_.x_label, "middle", 13);
    const double middle = (kPlotTop + bottom) / 2;
    svg_.words(24, middle, plot_.y_label, "middle", 13,
               fmt::format(" transform=\"rotate(-90 24 {:g})\"", middle).c_str());
  }

  void draw_series(std::size_t i) {
    const PlotSeries& series = plot_.series[i];
    const char* colour = colour_of(i);
    std::vector<std::pair<double, double>> path;
    for (const PlotPoint& point : series.points) path.emplace_back(across_.at(point.x), up_.at(point.y));
    if (series.has_line && path.size() > 1) svg_.path(path, colour, dash_of(i));
    if (!series.has_marks) return;
    for (const PlotPoint& point : series.points) {
      const double px = across_.at(point.x), py = up_.at(point.y);
      svg_.begin_mark(point.text, point.row);
      if (point.low != point.high) {
        svg_.line(px, up_.at(point.low), px, up_.at(point.high), colour, 1.5);
        for (const double end : {point.low, point.high})
          svg_.line(px - 5, up_.at(end), px + 5, up_.at(end), colour, 1.5);
      }
      if (point.x_low != point.x_high) {
        svg_.line(across_.at(point.x_low), py, across_.at(point.x_high), py, colour, 1.5);
        for (const double end : {point.x_low, point.x_high})
          svg_.line(across_.at(end), py - 5, across_.at(end), py + 5, colour, 1.5);
      }
      svg_.marker(i, px, py, colour, series.style);
      svg_.end_mark();
    }
  }

  const Plot& plot_;
  std::size_t entries_;
  bool has_legend_;
  double height_, right_;
  Axis across_, up_;
  Svg svg_;
};

}  // namespace

std::string lines_plot(const Plot& plot) {
  return LinesPlot(plot).draw();
}

}  // namespace assay::report
