// A heat map: a lane for each category, a column for each kind, and in each cell its value as a number upon a
// shade that is darker for larger values, so that black and white suffice.
#include <algorithm>
#include <array>
#include <cmath>

#include "assay/base/format.h"
#include "assay/report/svg.h"
#include "assay/report/text_layout.h"

namespace assay::report {

namespace {

constexpr double kCellWidth = 104, kCellHeight = 26, kCellGap = 1, kLegendBelow = 62;
constexpr std::size_t kHeadColumns = 15, kLaneColumns = 24;
constexpr double kDarkFrom = 0.5;  // where words are white

// From the smallest value above 0 to the largest, on a logarithmic scale, is 0 to 1; what is not above 0 is
// 0.
class Shades {
 public:
  explicit Shades(const std::vector<PlotCell>& cells) {
    for (const PlotCell& cell : cells) {
      high_ = std::max(high_, cell.value);
      if (cell.value > 0) low_ = low_ > 0 ? std::min(low_, cell.value) : cell.value;
    }
  }
  double of(double value) const {
    if (value <= 0) return 0;
    return high_ > low_ ? (std::log(value) - std::log(low_)) / (std::log(high_) - std::log(low_)) : 0;
  }
  double value_at(double shade) const { return low_ > 0 ? low_ * std::pow(high_ / low_, shade) : 0; }

 private:
  double low_ = 0, high_ = 0;
};

// From near white to a dark blue: each channel falls, and so does the lightness.
std::string shade_colour(double shade) {
  constexpr std::array<double, 3> kLight{242, 247, 251}, kDark{8, 48, 107};
  std::array<int, 3> rgb{};
  for (std::size_t i = 0; i < 3; ++i)
    rgb[i] = static_cast<int>(std::lround(kLight[i] + shade * (kDark[i] - kLight[i])));
  return fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]);
}

std::string cell_number(double value) {
  return fmt::format("{:.3g}", value);
}

}  // namespace

std::string cells_plot(const Plot& plot) {
  std::size_t longest = 0;
  for (const std::string& name : plot.categories)
    longest = std::max(longest, display_width(cut_to_width(name, kLaneColumns)));
  const double left = 40 + 7.4 * static_cast<double>(longest);
  const double head = kPlotTop + 20;
  const double bottom = head + kCellHeight * static_cast<double>(plot.categories.size());
  Svg svg(std::max(kPlotWidth, left + kCellWidth * static_cast<double>(plot.columns.size()) + kPlotRight),
          bottom + kLegendBelow + 20);
  add_titles(svg, plot);
  for (std::size_t column = 0; column < plot.columns.size(); ++column)
    svg.words(left + kCellWidth * (static_cast<double>(column) + 0.5), head - 8,
              cut_to_width(plot.columns[column], kHeadColumns), "middle", 11.5);
  for (std::size_t lane = 0; lane < plot.categories.size(); ++lane)
    svg.words(left - 8, head + kCellHeight * (static_cast<double>(lane) + 0.5) + 4,
              cut_to_width(plot.categories[lane], kLaneColumns), "end", 12.5);
  const Shades shades(plot.cells);
  const auto draw = [&](double x, double y, double value) {
    const double shade = shades.of(value);
    svg.rectangle(x, y, kCellWidth - kCellGap, kCellHeight - kCellGap, shade_colour(shade).c_str());
    svg.words(x + (kCellWidth - kCellGap) / 2, y + kCellHeight / 2 + 4, cell_number(value), "middle", 11.5,
              shade > kDarkFrom ? " style=\"fill:#ffffff\"" : "");
  };
  for (const PlotCell& cell : plot.cells) {
    svg.begin_mark(cell.text, -1);
    draw(left + kCellWidth * static_cast<double>(cell.column),
         head + kCellHeight * static_cast<double>(cell.lane), cell.value);
    svg.end_mark();
  }
  constexpr int kSteps = 4;
  svg.words(left - 8, bottom + 40, "Shades", "end", 12);
  for (int step = 0; step <= kSteps; ++step)
    draw(left + kCellWidth * step, bottom + 22, shades.value_at(static_cast<double>(step) / kSteps));
  svg.words(left, bottom + kLegendBelow + 6, plot.x_label, "start", 12.5);
  return svg.finish();
}

}  // namespace assay::report
