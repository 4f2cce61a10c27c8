// The median of times, which a choice is made by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace assay {

// The upper one of an even number of values. Of one at least.
inline double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace assay
