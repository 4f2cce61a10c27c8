// Which configurations are worth choosing: the Pareto frontier of two figures that are better when smaller,
// by what their intervals leave possible.
#pragma once

#include <span>
#include <vector>

#include "assay/results/results.h"

namespace assay {

// A figure and the ends of its interval; those of an exact figure equal it.
struct Bounded {
  double value = 0, low = 0, high = 0;
};
// Without an interval the figure counts as exact.
Bounded bounded_of(const Value& value, double scale = 1);

struct FrontierPoint {
  Bounded x, y;
};

// certain: no other point can be at least as good in both figures and better in one, whatever the values
// within the intervals. no: another point is, whatever they are. perhaps: what lies between.
enum class OnFrontier { certain, perhaps, no };

// By point. One with a figure that is no number is not on the frontier and beats none.
std::vector<OnFrontier> frontier_of(std::span<const FrontierPoint> points);

}  // namespace assay
