// SVG to PNG by librsvg and cairo, which are looked for when they are needed: the program runs without them.
#pragma once

#include <string>

namespace assay::report {

// The image's bytes at `scale` pixels per unit. Throws Error where the libraries are not installed (they are
// librsvg2-2 in Debian), or refuse the document.
std::string png_of_svg(const std::string& svg, double scale = 2);

// Empty where it can, else why not.
std::string why_no_png();

}  // namespace assay::report
