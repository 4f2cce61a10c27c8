// Plots as SVG: titled, axes with units, colours that colour-blind people can tell apart (Okabe and Ito
// 2008), and a marker of its own for each series.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace assay::report {

struct PlotPoint {
  double x = 0, y = 0;
  double low = 0, high = 0;  // the ends of an error bar; equal: none
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
  bool has_line = true;
};

// Lines over numbers, or where `categories` are given one bar each, drawn sideways with its name.
struct Plot {
  std::string title = {}, subtitle = {};
  std::string x_label = {}, y_label = {};  // with units: "Latency (s)"
  std::vector<PlotSeries> series = {};
  std::vector<std::string> categories = {};  // point i of the first series belongs to category i
};

// A document of its own; deterministic, so that equal data give equal bytes. A plot without points says so.
std::string to_svg(const Plot& plot);

// Text as XML has it; what XML cannot hold becomes a question mark.
std::string escaped_xml(const std::string& text);

// Steps of 1, 2 or 5 times a power of ten that cover [low, high] with about `count` marks; the two ends where
// doubles are too coarse or too small for steps between them.
std::vector<double> axis_ticks(double low, double high, int count);
// "1200", "0.05", "1.5e6": as short as it is exact for a tick.
std::string tick_text(double value);

}  // namespace assay::report
