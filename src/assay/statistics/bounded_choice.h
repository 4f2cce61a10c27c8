// One option of each item, so that the sum of their costs is least within limits on the sums of two other
// figures: the multiple-choice knapsack with two constraints.
//
// Lagrange multipliers of the limits give a sum that no choice within them undercuts, and a first choice
// (Fisher, "The Lagrangian relaxation method for solving integer programming problems", 1981). Then all
// choices are built item by item, without those that another betters in all three sums, that cannot keep a
// limit, or whose bound reaches the best choice known. That is exact as long as at most `max_points` are left
// after an item; beyond it those of the lowest bounds stay, and `bound` is what the others cannot undercut.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace assay::statistics {

struct BoundedOption {
  double cost = 0;
  std::array<double, 2> use{};  // what the limits are on; all figures are finite, and may be negative
};

struct BoundedChoice {
  std::vector<std::size_t> options;  // each item has its own
  double cost = 0;
  std::array<double, 2> use{};
  double bound = 0;  // no choice within the limits costs less; the cost itself where this is proven the best
  bool is_proven() const { return bound >= cost; }
};

// None where no choice keeps the limits, or none was found among max_points. Throws std::logic_error for an
// item without options or a figure that is not finite.
std::optional<BoundedChoice> choose_within(std::span<const std::vector<BoundedOption>> items,
                                           const std::array<double, 2>& limits,
                                           std::size_t max_points = std::size_t{1} << 15U);

}  // namespace assay::statistics
