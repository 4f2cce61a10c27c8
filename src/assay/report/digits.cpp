#include "assay/report/digits.h"

#include <algorithm>
#include <cmath>

#include "assay/base/format.h"

namespace assay::report {

namespace {

constexpr int kMeaningful = 2;         // significant digits of any value
constexpr double kCoarse = 3.55;       // leading digits of a half-width from which one of them is enough
constexpr int kMostDecimals = 12;      // beyond which nothing here is measured
constexpr int kMostBeforePoint = 300;  // powers of ten that a double can be rounded to
constexpr std::string_view kNoNumber = "-";

// What no interval bounds has no meaningful zeros behind the point.
std::string without_last_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

bool bounds(const std::optional<statistics::Interval>& interval) {
  if (!interval) return false;
  // What is narrower comes from the arithmetic of equal samples.
  constexpr double kNarrowest = 1e-9;
  const double width = interval->high - interval->low;
  return std::isfinite(width) &&
         width > kNarrowest * std::max(std::abs(interval->low), std::abs(interval->high));
}

std::string shown_as(double value, const std::optional<statistics::Interval>& interval, Decimals decimals) {
  std::string text = rounded(value, decimals);
  return bounds(interval) ? text : without_last_zeros(std::move(text));
}

}  // namespace

Decimals significant(double value, int digits) {
  if (!std::isfinite(value) || value == 0) return {std::max(0, digits - 1)};
  // A width of 0.1 comes out of its ends a little below it.
  constexpr double kRounding = 1e-9;
  const int first = static_cast<int>(std::floor(std::log10(std::abs(value)) + kRounding));
  return {std::clamp(digits - 1 - first, -kMostBeforePoint, kMostDecimals)};
}

std::string plain_number(double value) {
  return std::abs(value) < 9999.5 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}

Decimals supported_decimals(double value, const std::optional<statistics::Interval>& interval,
                            Decimals otherwise) {
  if (!bounds(interval) || !std::isfinite(value)) return otherwise;
  const double half = (interval->high - interval->low) / 2;
  const Decimals first = significant(half, 1);
  const bool takes_two = half * std::pow(10, first.count) < kCoarse;
  const Decimals of_half = {std::min(kMostDecimals, first.count + (takes_two ? 1 : 0))};
  return value == 0 ? of_half : Decimals{std::max(of_half.count, significant(value, kMeaningful).count)};
}

std::string rounded(double value, Decimals decimals) {
  if (std::isnan(value)) return std::string(kNoNumber);
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  double shown = value;
  if (decimals.count < 0) {
    const double step = std::pow(10, -decimals.count);
    shown = std::round(value / step) * step;
    if (!std::isfinite(shown)) shown = value;
  }
  std::string text = fmt::format("{:.{}f}", shown, std::max(0, decimals.count));
  // What rounds to nothing has no sign.
  if (text.front() == '-' && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string shown_number(double value, const std::optional<statistics::Interval>& interval, int digits) {
  return shown_as(value, interval, supported_decimals(value, interval, significant(value, digits)));
}

std::string with_interval(double value, const std::optional<statistics::Interval>& interval, int digits) {
  std::string text = shown_number(value, interval, digits);
  if (interval) text += " " + shown_interval(value, interval, digits);
  return text;
}

std::string shown_interval(double value, const std::optional<statistics::Interval>& interval, int digits) {
  if (!interval) return "";
  const Decimals decimals = supported_decimals(value, interval, significant(value, digits));
  return fmt::format("[{}, {}]", shown_as(interval->low, interval, decimals),
                     shown_as(interval->high, interval, decimals));
}

bool is_bounded(const Metric& metric, const Value& value) {
  // An accuracy is counted; its interval is of other items than these.
  const bool varies = metric.tag != "accuracy" &&
                      (metric.shows_interval || (!value.samples.empty() && metric.tag != "perplexity"));
  return varies && bounds(value.interval);
}

Decimals decimals_of(const Metric& metric, const Value& value, Decimals otherwise) {
  if (!is_bounded(metric, value)) return otherwise;
  const statistics::Interval scaled{value.interval->low * metric.scale, value.interval->high * metric.scale,
                                    value.interval->level};
  return supported_decimals(value.value * metric.scale, scaled, otherwise);
}

std::string relative_interval(double value, const std::optional<statistics::Interval>& interval) {
  if (!interval || !(value > 0)) return "";
  const double below = 100 * (1 - interval->low / value), above = 100 * (interval->high / value - 1);
  if (!std::isfinite(below) || !std::isfinite(above)) return "";
  const auto percent = [](double x) {
    constexpr double kWhole = 9.95, kTenths = 0.095;  // from where hundredths and tenths are a third digit
    return fmt::format("{:.{}f}%", x, x >= kWhole ? 0 : x >= kTenths || x <= 0 ? 1 : 2);
  };
  // A median of skewed times may lie near one end of its interval.
  constexpr double kAbout = 0.5;  // the share of the longer side
  if (std::min(below, above) >= kAbout * std::max(below, above))
    return "\u00b1" + percent((below + above) / 2);
  return fmt::format("-{}/+{}", percent(below), percent(above));
}

}  // namespace assay::report
