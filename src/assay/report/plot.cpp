#include "assay/report/plot.h"

#include <algorithm>
#include <cmath>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/svg.h"
#include "assay/report/text_layout.h"

namespace assay::report {

std::string escaped_xml(const std::string& text) {
  // What no document may hold, or what would turn the words around it.
  std::string shown = text;
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  std::string out;
  for (const char c : terminal_text(shown)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
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

namespace {

constexpr double kMost = 1e100;

double bounded(double value) {
  return std::isnan(value) ? 0 : std::clamp(value, -kMost, kMost);
}

// A page has no place for what is no number, or too large to be told from its neighbours; a logarithmic axis
// none for what is not above 0.
void make_drawable(Plot& plot) {
  for (PlotSeries& series : plot.series) {
    for (PlotPoint& point : series.points) {
      for (double* value : {&point.x, &point.y, &point.low, &point.high, &point.x_low, &point.x_high})
        *value = bounded(*value);
      if (plot.is_log_x && point.x_low <= 0) point.x_low = point.x_high = 0;
      if (plot.is_log_y && point.low <= 0) point.low = point.high = 0;
    }
    std::erase_if(series.points, [&](const PlotPoint& point) {
      return (plot.is_log_x && point.x <= 0) || (plot.is_log_y && point.y <= 0);
    });
  }
  for (PlotBox& box : plot.boxes)
    for (double* value : {&box.low, &box.first, &box.median, &box.third, &box.high}) *value = bounded(*value);
  for (PlotSpan& span : plot.spans)
    for (double* value : {&span.from, &span.to}) *value = std::max(0.0, bounded(*value));
  for (PlotCell& cell : plot.cells) cell.value = bounded(cell.value);
  std::erase_if(plot.cells, [&](const PlotCell& cell) {
    return cell.lane >= plot.categories.size() || cell.column >= plot.columns.size();
  });
  std::erase_if(plot.spans, [&](const PlotSpan& span) { return span.lane >= plot.categories.size(); });
}

bool has_points(const Plot& plot) {
  switch (plot.form) {
    case PlotForm::boxes:
      return !plot.boxes.empty();
    case PlotForm::spans:
      return !plot.spans.empty();
    case PlotForm::cells:
      return !plot.cells.empty();
    case PlotForm::standard:
    case PlotForm::stacked:
      break;
  }
  return std::any_of(plot.series.begin(), plot.series.end(),
                     [](const PlotSeries& s) { return !s.points.empty(); });
}

}  // namespace

std::string to_svg(const Plot& any) {
  Plot plot = any;
  make_drawable(plot);
  if (!has_points(plot)) {
    Svg svg(kPlotWidth, 120);
    add_titles(svg, plot);
    svg.words(24, 84, "nothing was measured for this plot", "start", 13);
    return svg.finish();
  }
  switch (plot.form) {
    case PlotForm::stacked:
      return stacked_plot(plot);
    case PlotForm::boxes:
      return boxes_plot(plot);
    case PlotForm::spans:
      return spans_plot(plot);
    case PlotForm::cells:
      return cells_plot(plot);
    case PlotForm::standard:
      break;
  }
  return plot.categories.empty() ? lines_plot(plot) : bars_plot(plot);
}

std::string described(const Plot& plot) {
  constexpr std::size_t kNamed = 24;  // more than that nobody listens to
  std::vector<std::string> values;
  const auto add = [&](const std::string& text) {
    if (!text.empty()) values.push_back(text);
  };
  for (const PlotSeries& series : plot.series)
    for (std::size_t i = 0; i < series.points.size() && series.has_marks; ++i) {
      const PlotPoint& p = series.points[i];
      add(!p.text.empty() ? p.text
          : i < plot.categories.size()
              ? fmt::format("{}: {}", plot.categories[i], plain_number(p.y))
              : fmt::format("{}: {} at {}", series.name, plain_number(p.y), plain_number(p.x)));
    }
  for (const PlotBox& box : plot.boxes) add(box.text);
  for (const PlotCell& cell : plot.cells) add(cell.text);
  std::string text = plot.y_label.empty() || plot.form == PlotForm::spans
                         ? fmt::format("Across: {}.", plot.x_label)
                         : fmt::format("Across: {}; up: {}.", plot.x_label, plot.y_label);
  const std::size_t shown = std::min(values.size(), kNamed);
  if (shown > 0)
    text += fmt::format(" {}",
                        fmt::join(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(shown), "; "));
  if (values.size() > shown) text += fmt::format("; and {} more", values.size() - shown);
  return text + (shown > 0 ? "." : "");
}

}  // namespace assay::report
