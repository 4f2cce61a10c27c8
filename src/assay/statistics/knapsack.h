// The multiple-choice knapsack: one option of each item, so that the sum of losses is least within a sum of
// bytes, or the sum of bytes within a sum of losses.
//
// Both are solved by the front of all choices that none betters in bytes and in loss, made item by item
// (Nemhauser and Ullmann, "Discrete dynamic programming and capital allocation", 1969). It is exact, with
// sums of bytes in whole bytes, as long as it has at most `max_points` points, which models with layers of
// equal matrices seldom reach. Beyond that, points whose bytes lie within one max_points-th of the range are
// taken together, the one of the least loss stands for them, and a choice may miss up to `slack()` bytes of a
// limit: what it gives is still within the limit, and no worse than the best within the limit less the slack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace assay::statistics {

struct KnapsackOption {
  std::int64_t bytes = 0;  // 0 or more
  double loss = 0;         // finite; it may be negative, as noise is
};

struct KnapsackPoint {
  std::int64_t bytes = 0;
  double loss = 0;  // the sum, item by item in their order
};

class KnapsackFront {
 public:
  // Throws std::logic_error for an item without options, negative bytes, or a loss that is not finite.
  explicit KnapsackFront(std::span<const std::vector<KnapsackOption>> items,
                         std::size_t max_points = std::size_t{1} << 16U);

  // More bytes and less loss from one to the next; never empty. The first has the fewest bytes of all.
  const std::vector<KnapsackPoint>& points() const { return points_; }
  // The option of each item at a point, by its place among the item's options.
  std::vector<std::size_t> choice_of(std::size_t point) const;

  // The place of the point of the least loss within the bytes, or of the fewest bytes within the loss; none
  // where no choice is within it.
  std::optional<std::size_t> within_bytes(std::int64_t limit) const;
  std::optional<std::size_t> within_loss(double limit) const;

  std::int64_t slack() const { return slack_; }  // 0: the front is exact

 private:
  // How a point of an item's front came from the front before it.
  struct Step {
    std::uint32_t before = 0, option = 0;
  };
  void thin(std::vector<Step>& steps, std::size_t max_points);

  std::vector<KnapsackPoint> points_{{}};
  std::vector<std::vector<Step>> steps_;  // by item
  std::int64_t slack_ = 0;
};

}  // namespace assay::statistics
