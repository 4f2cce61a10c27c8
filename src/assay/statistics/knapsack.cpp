#include "assay/statistics/knapsack.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace assay::statistics {

namespace {

// Options that none betters, by ascending bytes; a copy of another counts once.
std::vector<std::size_t> useful_options(const std::vector<KnapsackOption>& options) {
  std::vector<std::size_t> order(options.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return options[a].bytes != options[b].bytes ? options[a].bytes < options[b].bytes
                                                : options[a].loss < options[b].loss;
  });
  std::vector<std::size_t> useful;
  for (const std::size_t i : order)
    if (useful.empty() || options[i].loss < options[useful.back()].loss) useful.push_back(i);
  return useful;
}

void check_options(const std::vector<KnapsackOption>& options) {
  if (options.empty()) throw std::logic_error("an item of a knapsack has no option");
  for (const KnapsackOption& option : options)
    if (option.bytes < 0 || !std::isfinite(option.loss))
      throw std::logic_error("an option of a knapsack is out of range");
}

}  // namespace

KnapsackFront::KnapsackFront(std::span<const std::vector<KnapsackOption>> items, std::size_t max_points) {
  for (const std::vector<KnapsackOption>& options : items) {
    check_options(options);
    const std::vector<std::size_t> useful = useful_options(options);
    // Each option moves the front before it; the moved fronts are sorted, and merged by ascending bytes.
    std::vector<std::size_t> next(useful.size(), 0);
    std::vector<KnapsackPoint> merged;
    std::vector<Step> steps;
    for (;;) {
      std::size_t from = useful.size();
      KnapsackPoint least{std::numeric_limits<std::int64_t>::max(), 0};
      for (std::size_t u = 0; u < useful.size(); ++u) {
        if (next[u] == points_.size()) continue;
        const KnapsackOption& option = options[useful[u]];
        const KnapsackPoint point{points_[next[u]].bytes + option.bytes, points_[next[u]].loss + option.loss};
        if (from == useful.size() || point.bytes < least.bytes ||
            (point.bytes == least.bytes && point.loss < least.loss)) {
          from = u;
          least = point;
        }
      }
      if (from == useful.size()) break;
      if (merged.empty() || least.loss < merged.back().loss) {
        merged.push_back(least);
        steps.push_back({static_cast<std::uint32_t>(next[from]), static_cast<std::uint32_t>(useful[from])});
      }
      ++next[from];
    }
    points_ = std::move(merged);
    if (points_.size() > std::max<std::size_t>(max_points, 2))
      thin(steps, std::max<std::size_t>(max_points, 2));
    steps_.push_back(std::move(steps));
  }
}

// The first point stays: it is the smallest choice of all.
void KnapsackFront::thin(std::vector<Step>& steps, std::size_t max_points) {
  const std::int64_t first = points_.front().bytes,
                     width = (points_.back().bytes - first) / static_cast<std::int64_t>(max_points - 1) + 1;
  std::vector<KnapsackPoint> kept{points_.front()};
  std::vector<Step> kept_steps{steps.front()};
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const bool is_last = i + 1 == points_.size() ||
                         (points_[i + 1].bytes - first - 1) / width != (points_[i].bytes - first - 1) / width;
    if (!is_last) continue;
    kept.push_back(points_[i]);
    kept_steps.push_back(steps[i]);
  }
  points_ = std::move(kept);
  steps = std::move(kept_steps);
  slack_ += width;
}

std::vector<std::size_t> KnapsackFront::choice_of(std::size_t point) const {
  std::vector<std::size_t> choice(steps_.size());
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const Step& step = steps_[i].at(point);
    choice[i] = step.option;
    point = step.before;
  }
  return choice;
}

std::optional<std::size_t> KnapsackFront::within_bytes(std::int64_t limit) const {
  const auto beyond = std::find_if(points_.begin(), points_.end(),
                                   [&](const KnapsackPoint& point) { return point.bytes > limit; });
  if (beyond == points_.begin()) return std::nullopt;
  return static_cast<std::size_t>(beyond - points_.begin()) - 1;
}

std::optional<std::size_t> KnapsackFront::within_loss(double limit) const {
  const auto first = std::find_if(points_.begin(), points_.end(),
                                  [&](const KnapsackPoint& point) { return point.loss <= limit; });
  if (first == points_.end()) return std::nullopt;
  return static_cast<std::size_t>(first - points_.begin());
}

}  // namespace assay::statistics
