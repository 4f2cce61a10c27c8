#include "assay/results/frontier.h"

#include <algorithm>
#include <cmath>

namespace assay {

namespace {

bool is_known(const FrontierPoint& p) {
  return !std::isnan(p.x.low) && !std::isnan(p.x.high) && !std::isnan(p.y.low) && !std::isnan(p.y.high);
}

// The one is as good in both figures and better in one, by these ends.
bool beats(double x, double y, double other_x, double other_y) {
  return x <= other_x && y <= other_y && (x < other_x || y < other_y);
}

}  // namespace

Bounded bounded_of(const Value& value, double scale) {
  const double own = value.value * scale;
  if (!value.interval) return {own, own, own};
  return {own, std::min(own, value.interval->low * scale), std::max(own, value.interval->high * scale)};
}

std::vector<OnFrontier> frontier_of(std::span<const FrontierPoint> points) {
  std::vector<OnFrontier> found;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const FrontierPoint& own = points[i];
    OnFrontier place = is_known(own) ? OnFrontier::certain : OnFrontier::no;
    for (std::size_t j = 0; j < points.size() && place != OnFrontier::no; ++j) {
      const FrontierPoint& other = points[j];
      if (j == i || !is_known(other)) continue;
      if (beats(other.x.high, other.y.high, own.x.low, own.y.low))
        place = OnFrontier::no;
      else if (beats(other.x.low, other.y.low, own.x.high, own.y.high))
        place = OnFrontier::perhaps;
    }
    found.push_back(place);
  }
  return found;
}

}  // namespace assay
