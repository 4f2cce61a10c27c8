// Sorted ranges of code points.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace assay {

struct CharRange {
  char32_t first, last;
};

// `ranges` are in order and do not overlap.
template <std::size_t N>
bool is_within(const CharRange (&ranges)[N], char32_t c) {
  const auto after =
      std::upper_bound(std::begin(ranges), std::end(ranges), c,
                       [](char32_t value, const CharRange& range) { return value < range.first; });
  return after != std::begin(ranges) && c <= std::prev(after)->last;
}

}  // namespace assay
