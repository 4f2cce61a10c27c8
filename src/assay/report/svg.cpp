#include "assay/report/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "assay/base/format.h"

namespace assay::report {

namespace {

constexpr std::array<const char*, 8> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#E69F00", "#56B4E9", "#000000", "#999933"};
// As many as share no divisor with the five markers: twenty series differ without colour, forty marks without
// lines by colour and shape.
constexpr std::array<const char*, 4> kDashes = {"", "8 4", "2 3", "10 3 2 3"};
constexpr std::size_t kMarkers = 5;
constexpr const char* kFont = "DejaVu Sans, Helvetica, Arial, sans-serif";

// Powers of ten, with 2 and 5 between them where there are few.
std::vector<double> log_ticks(double low, double high) {
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
  constexpr double kFewDecades = 3;
  std::vector<double> ticks;
  for (double power = first; power <= last; ++power)
    for (const double digit : {1.0, 2.0, 5.0})
      if (digit == 1 || (last - first <= kFewDecades && power < last))
        ticks.push_back(digit * std::pow(10, power));
  constexpr double kNear = 1e-9;
  while (ticks.size() > 2 && ticks[1] <= low * (1 + kNear)) ticks.erase(ticks.begin());
  while (ticks.size() > 2 && ticks[ticks.size() - 2] >= high * (1 - kNear)) ticks.pop_back();
  if (ticks.size() < 2) ticks.push_back(10 * ticks.front());
  return ticks;
}

}  // namespace

const char* colour_of(std::size_t series) {
  return kColours[series % kColours.size()];
}
const char* dash_of(std::size_t series) {
  return kDashes[series % kDashes.size()];
}

Axis::Axis(double low, double high, double from, double to, bool is_log)
    : from_(from),
      to_(to),
      is_log_(is_log),
      ticks_(is_log ? log_ticks(low, high) : axis_ticks(low, high, 6)) {}

double Axis::place(double value) const {
  return is_log_ ? std::log10(value) : value;
}
double Axis::at(double value) const {
  const double low = place(ticks_.front()), high = place(ticks_.back());
  return from_ + (place(value) - low) / (high - low) * (to_ - from_);
}

Svg::Svg(double width, double height) {
  text_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} "
      "{1:g}\" "
      "font-family=\"{2}\">\n<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#ffffff\"/>\n",
      width, height, kFont);
}

void Svg::line(double x1, double y1, double x2, double y2, const char* colour, double width) {
  text_ += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"{:g}\"/>\n",
      x1, y1, x2, y2, colour, width);
}

void Svg::words(double x, double y, const std::string& text, const char* anchor, double size,
                const char* style) {
  text_ += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" text-anchor=\"{}\" "
      "fill=\"#222222\"{}>{}</text>\n",
      x, y, size, anchor, style, escaped_xml(text));
}

void Svg::rectangle(double x, double y, double width, double height, const char* colour) {
  text_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
                       x, y, std::max(0.0, width), height, colour);
}

void Svg::path(const std::vector<std::pair<double, double>>& points, const char* colour, const char* dash) {
  std::string list;
  for (const auto& [x, y] : points) list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", x, y);
  const std::string dashes = *dash == 0 ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash);
  text_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", list,
                       colour, dashes);
}

void Svg::marker(std::size_t kind, double x, double y, const char* colour, MarkStyle style) {
  constexpr double r = 4.5;
  const std::string paint = style == MarkStyle::filled
                                ? fmt::format("fill=\"{}\"", colour)
                                : fmt::format("fill=\"#ffffff\" stroke=\"{}\" stroke-width=\"1.8\"", colour);
  switch (kind % kMarkers) {
    case 0:
      text_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" {}/>\n", x, y, r, paint);
      break;
    case 1:
      text_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:g}\" height=\"{:g}\" {}/>\n", x - r,
                           y - r, 2 * r, 2 * r, paint);
      break;
    case 2:
      polygon({{x, y - 1.3 * r}, {x - 1.2 * r, y + r}, {x + 1.2 * r, y + r}}, paint);
      break;
    case 3:
      polygon({{x, y - 1.4 * r}, {x + 1.2 * r, y}, {x, y + 1.4 * r}, {x - 1.2 * r, y}}, paint);
      break;
    default:
      polygon({{x, y + 1.3 * r}, {x - 1.2 * r, y - r}, {x + 1.2 * r, y - r}}, paint);
  }
  if (style == MarkStyle::dotted)
    text_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"1.8\" fill=\"{}\"/>\n", x, y, colour);
}

void Svg::hatch(std::size_t part, double x, double y, double width, double height) {
  constexpr double kStep = 6;
  std::string path;
  if (part == 1)
    for (double at = x + kStep / 2; at < x + width; at += kStep)
      path += fmt::format("M{:.1f} {:.1f}v{:.1f}", at, y, height);
  if (part == 2)
    for (double at = y + kStep / 2; at < y + height; at += kStep)
      path += fmt::format("M{:.1f} {:.1f}h{:.1f}", x, at, width);
  if (part >= 3)
    for (double at = x; at + height < x + width; at += kStep)
      path += fmt::format("M{:.1f} {:.1f}l{:.1f} {:.1f}", at, y + height, height, -height);
  if (!path.empty())
    text_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#222222\" stroke-width=\"0.8\"/>\n", path);
}

void Svg::begin_mark(const std::string& text, int row) {
  if (text.empty()) return;
  const std::string of_row = row < 0 ? "" : fmt::format(" data-row=\"{}\"", row);
  text_ += fmt::format("<g class=\"mark\"{}><title>{}</title>\n", of_row, escaped_xml(text));
  is_mark_ = true;
}
void Svg::end_mark() {
  if (is_mark_) text_ += "</g>\n";
  is_mark_ = false;
}

void Svg::polygon(const std::vector<std::pair<double, double>>& points, const std::string& paint) {
  std::string list;
  for (const auto& [x, y] : points) list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", x, y);
  text_ += fmt::format("<polygon points=\"{}\" {}/>\n", list, paint);
}

void add_titles(Svg& svg, const Plot& plot) {
  svg.words(24, 30, plot.title, "start", 18, " font-weight=\"bold\"");
  if (!plot.subtitle.empty()) svg.words(24, 52, plot.subtitle, "start", 12.5);
}

}  // namespace assay::report
