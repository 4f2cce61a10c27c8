// SVG to PNG by librsvg and cairo, which are looked for when they are needed: the program runs without them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/base/units.h"

namespace assay::report {

// The image's bytes at `scale` pixels per unit. Throws Error where the libraries are not installed (they are
// librsvg2-2 in Debian), or refuse the document.
std::string png_of_svg(const std::string& svg, double scale = 2);

// Why it cannot; none where it can.
std::optional<std::string> why_no_png();

struct DrawingLimits {
  Seconds time{30};                     // for all pictures together
  Bytes memory{std::int64_t{1} << 30};  // beyond what this process holds
};
struct DrawnPictures {
  std::vector<std::string> pngs;  // as many as there are documents; empty where one could not be drawn
  std::string why_not;            // "the process that draws them took longer than 30 s"; empty: all are there
};
// Draws in a process of its own, so that a picture that crashes, hangs or needs too much memory costs nothing
// but itself and those after it. Never throws Error.
DrawnPictures draw_apart(const std::vector<std::string>& svgs, const DrawingLimits& limits = {});

}  // namespace assay::report
