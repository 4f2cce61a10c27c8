// Marks of a plot, read back from its SVG by the plot's own ticks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace assay::test {

// From places on the page to values, by two ticks.
struct TickScale {
  std::vector<std::pair<double, double>> ticks;  // place, value
  bool is_log = false;
  double value_at(double place) const {
    const auto [p0, v0] = ticks.front();
    const auto [p1, v1] = ticks.back();
    const double share = (place - p0) / (p1 - p0);
    return is_log ? std::exp(std::log(v0) + share * std::log(v1 / v0)) : v0 + share * (v1 - v0);
  }
};

inline TickScale ticks_of(const std::string& svg, bool is_across, bool is_log = false) {
  TickScale scale{{}, is_log};
  const std::regex tick(
      std::string("<text x=\"([0-9.-]+)\" y=\"([0-9.-]+)\" font-size=\"12\" text-anchor=\"") +
      (is_across ? "middle" : "end") + "\" fill=\"#222222\">([0-9.e+-]+)</text>");
  for (std::sregex_iterator i(svg.begin(), svg.end(), tick), end; i != end; ++i)
    scale.ticks.emplace_back(std::stod((*i)[is_across ? 1 : 2]) + (is_across ? 0 : -4), std::stod((*i)[3]));
  return scale;
}

// The SVG of each mark.
inline std::vector<std::string> marks_in(const std::string& svg) {
  std::vector<std::string> marks;
  for (std::size_t at = svg.find("<g class=\"mark\""); at != std::string::npos;
       at = svg.find("<g class=\"mark\"", at + 1))
    marks.push_back(svg.substr(at, svg.find("</g>", at) - at));
  return marks;
}

inline double number_after(const std::string& text, const std::string& before, std::size_t from = 0) {
  const std::size_t at = text.find(before, from);
  EXPECT_NE(at, std::string::npos) << before << " in " << text;
  return at == std::string::npos ? NAN : std::stod(text.substr(at + before.size()));
}

// The middle of a mark's shape, whichever it is.
inline std::pair<double, double> middle_of(const std::string& mark) {
  if (mark.find("<polygon") != std::string::npos) {
    const std::size_t at = mark.find("<polygon");
    const bool is_diamond = std::count(mark.begin() + static_cast<std::ptrdiff_t>(at), mark.end(), ',') == 4;
    const double x = number_after(mark, "<polygon points=\""),
                 top = std::stod(mark.substr(mark.find(',', at) + 1));
    return {x, top + (is_diamond ? 1.4 : 1.3) * 4.5};
  }
  if (mark.find("<circle") != std::string::npos && mark.find("<rect") == std::string::npos)
    return {number_after(mark, "cx=\""), number_after(mark, "cy=\"")};
  const std::size_t at = mark.find("<rect");
  return {number_after(mark, " x=\"", at) + 4.5, number_after(mark, " y=\"", at) + 4.5};
}

}  // namespace assay::test
