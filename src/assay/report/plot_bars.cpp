// Plots with a lane for each category: bars, parts of bars, distributions, and what lasted from when to when.
#include <algorithm>
#include <cmath>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/svg.h"
#include "assay/report/text_layout.h"

namespace assay::report {

namespace {

constexpr std::size_t kNameColumns = 46;

// Lanes from the top down, over an axis from low to high.
class Lanes {
 public:
  Lanes(const Plot& plot, double low, double high, double lane_height = kBarHeight, double below = 0)
      : plot_(plot),
        lane_height_(lane_height),
        left_(std::min(360.0, 40 + 7.4 * static_cast<double>(longest_name(plot)))),
        bottom_(kPlotTop + lane_height * static_cast<double>(plot.categories.size())),
        across_(low, high > low ? high : low + (low == 0 ? 1 : std::abs(low) * 0.1), left_,
                kPlotWidth - kPlotRight - 70),
        svg_(kPlotWidth, bottom_ + kPlotBottom + below) {
    add_titles(svg_, plot);
    for (const double tick : across_.ticks()) {
      svg_.line(across_.at(tick), kPlotTop - 4, across_.at(tick), bottom_, "#dddddd", 1);
      svg_.words(across_.at(tick), bottom_ + 18, tick_text(tick), "middle", 12);
    }
  }

  Svg& svg() { return svg_; }
  double at(double value) const { return across_.at(value); }
  double left() const { return left_; }
  double bottom() const { return bottom_; }
  double top_of(std::size_t lane) const { return kPlotTop + lane_height_ * static_cast<double>(lane); }
  double middle_of(std::size_t lane) const { return top_of(lane) + lane_height_ / 2 - 2; }
  void name(std::size_t lane) {
    svg_.words(left_ - 8, middle_of(lane) + 4, cut_to_width(plot_.categories[lane], kNameColumns), "end",
               12.5);
  }
  void whisker(double low, double high, double middle) {
    svg_.line(at(low), middle, at(high), middle, "#222222", 1.5);
    for (const double x : {at(low), at(high)}) svg_.line(x, middle - 5, x, middle + 5, "#222222", 1.5);
  }
  std::string finish() {
    svg_.line(left_, kPlotTop - 4, left_, bottom_, "#222222", 1.2);
    svg_.words((left_ + kPlotWidth - kPlotRight - 70) / 2, bottom_ + 44, plot_.x_label, "middle", 13);
    return svg_.finish();
  }

 private:
  static std::size_t longest_name(const Plot& plot) {
    std::size_t longest = 0;
    for (const std::string& name : plot.categories)
      longest = std::max(longest, display_width(cut_to_width(name, kNameColumns)));
    return longest;
  }

  const Plot& plot_;
  double lane_height_, left_, bottom_;
  Axis across_;
  Svg svg_;
};

// Light enough for words and hatches upon them.
constexpr const char* kParts[] = {"#0072B2", "#E69F00", "#56B4E9", "#dddddd"};
constexpr std::size_t kMaxParts = std::size(kParts);

}  // namespace

std::string bars_plot(const Plot& plot) {
  const std::vector<PlotPoint>& points = plot.series.front().points;
  double low = 0, high = points.empty() ? 1 : -INFINITY;
  for (const PlotPoint& p : points) {
    low = std::min({low, p.y, p.low != p.high ? p.low : p.y});
    high = std::max({high, p.y, p.low != p.high ? p.high : p.y});
  }
  Lanes lanes(plot, low, high);
  for (std::size_t i = 0; i < plot.categories.size() && i < points.size(); ++i) {
    const PlotPoint& point = points[i];
    const double end = lanes.at(point.y);
    lanes.svg().begin_mark(point.text, point.row);
    lanes.svg().rectangle(lanes.left(), lanes.top_of(i), end - lanes.left(), kBarHeight - 6,
                          colour_of(i == 0 ? 1 : 0));
    double words_at = end;
    if (point.low != point.high) {
      lanes.whisker(point.low, point.high, lanes.middle_of(i));
      words_at = std::max(words_at, lanes.at(point.high));
    }
    lanes.svg().end_mark();
    lanes.name(i);
    lanes.svg().words(words_at + 6, lanes.middle_of(i) + 4, plain_number(point.y), "start", 12);
  }
  return lanes.finish();
}

std::string stacked_plot(const Plot& plot) {
  double most = 0;
  for (std::size_t i = 0; i < plot.categories.size(); ++i) {
    double sum = 0;
    for (const PlotSeries& part : plot.series)
      if (i < part.points.size()) sum += std::max(0.0, part.points[i].y);
    most = std::max(most, sum);
  }
  Lanes lanes(plot, 0, most, kBarHeight, 30);
  Svg& svg = lanes.svg();
  const std::size_t parts = std::min(plot.series.size(), kMaxParts);
  for (std::size_t i = 0; i < plot.categories.size(); ++i) {
    double sum = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      if (i >= plot.series[part].points.size()) continue;
      const PlotPoint& point = plot.series[part].points[i];
      const double x = lanes.at(sum), width = lanes.at(sum + std::max(0.0, point.y)) - x;
      svg.begin_mark(point.text, point.row);
      svg.rectangle(x, lanes.top_of(i), width, kBarHeight - 6, kParts[part]);
      svg.hatch(part, x, lanes.top_of(i), width, kBarHeight - 6);
      svg.end_mark();
      sum += std::max(0.0, point.y);
    }
    lanes.name(i);
    svg.words(lanes.at(sum) + 6, lanes.middle_of(i) + 4, plain_number(sum), "start", 12);
  }
  double x = lanes.left();
  for (std::size_t part = 0; part < parts; ++part) {
    constexpr double kSwatch = 28, kColumn = 7.3;
    const double y = lanes.bottom() + kPlotBottom;
    svg.rectangle(x, y, kSwatch, 14, kParts[part]);
    svg.hatch(part, x, y, kSwatch, 14);
    svg.words(x + kSwatch + 6, y + 11, plot.series[part].name, "start", 12.5);
    x += kSwatch + 28 + kColumn * static_cast<double>(display_width(plot.series[part].name));
  }
  return lanes.finish();
}

std::string boxes_plot(const Plot& plot) {
  double low = INFINITY, high = -INFINITY;
  for (const PlotBox& box : plot.boxes) {
    low = std::min(low, box.low);
    high = std::max(high, box.high);
  }
  Lanes lanes(plot, std::min(low, 0.0), high);
  Svg& svg = lanes.svg();
  for (std::size_t i = 0; i < plot.categories.size() && i < plot.boxes.size(); ++i) {
    const PlotBox& box = plot.boxes[i];
    const double y = lanes.top_of(i);
    svg.begin_mark(box.text, box.row);
    lanes.whisker(box.low, box.high, lanes.middle_of(i));
    svg.rectangle(lanes.at(box.first), y, std::max(1.0, lanes.at(box.third) - lanes.at(box.first)),
                  kBarHeight - 6, "#56B4E9");
    svg.line(lanes.at(box.median), y - 2, lanes.at(box.median), y + kBarHeight - 4, "#222222", 2.5);
    svg.end_mark();
    lanes.name(i);
    svg.words(lanes.at(box.high) + 8, lanes.middle_of(i) + 4, plain_number(box.median), "start", 12);
  }
  return lanes.finish();
}

std::string spans_plot(const Plot& plot) {
  constexpr double kLane = 56;
  double end = 0;
  for (const PlotSpan& span : plot.spans) end = std::max(end, span.to);
  Lanes lanes(plot, 0, end, kLane);
  Svg& svg = lanes.svg();
  for (std::size_t lane = 0; lane < plot.categories.size(); ++lane) lanes.name(lane);
  for (const PlotSpan& span : plot.spans) {
    // A gap as wide as a hair separates neighbours.
    constexpr double kGap = 0.8;
    const double x = lanes.at(span.from), width = lanes.at(span.to) - x;
    svg.begin_mark(span.text, -1);
    svg.rectangle(x, lanes.top_of(span.lane) + 8, std::max(0.6, width > 3 * kGap ? width - kGap : width),
                  kLane - 20, colour_of(span.lane == 0 ? 1 : 0));
    svg.end_mark();
  }
  return lanes.finish();
}

}  // namespace assay::report
