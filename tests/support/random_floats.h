// Numbers for tests, the same in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/base/random.h"

namespace assay::test {

// Uniform in [-scale, scale).
inline std::vector<float> random_floats(std::size_t count, std::uint64_t seed, double scale = 1) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>((random.uniform() * 2 - 1) * scale);
  return values;
}

}  // namespace assay::test
