// What a slow interpreter of plans computes with, in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "assay/plan/elementwise.h"

namespace assay::test {

inline double capped(double x, float cap) {
  return cap == 0 ? x : cap * std::tanh(x / cap);
}
inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu_erf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::relu:
      return std::max(x, 0.0);
    default:
      return x;
  }
}
// The numbers that int8 codes of activations stand for, with a scale for each group; 0: they stay what they
// are. Codes are found in float32, as their definition has it: activations that are a few codes of a weight
// lie halfway between two.
inline void put_int8_codes(std::vector<double>& x, std::int64_t group) {
  const auto size = static_cast<std::size_t>(group);
  for (std::size_t first = 0; size > 0 && first < x.size(); first += size) {
    const std::size_t end = std::min(x.size(), first + size);
    float largest = 0;
    for (std::size_t i = first; i < end; ++i)
      largest = std::max(largest, std::fabs(static_cast<float>(x[i])));
    for (std::size_t i = first; i < end && largest > 0; ++i)
      x[i] = static_cast<double>(std::nearbyint(static_cast<float>(x[i]) * (127.0F / largest))) *
             static_cast<double>(largest) / 127;
  }
}

}  // namespace assay::test
