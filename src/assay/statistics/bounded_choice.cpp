#include "assay/statistics/bounded_choice.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>

namespace assay::statistics {

namespace {

using Items = std::span<const std::vector<BoundedOption>>;
using Limits2 = std::array<double, 2>;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

void check_bounded(Items items) {
  for (const std::vector<BoundedOption>& options : items) {
    if (options.empty()) throw std::logic_error("an item of a choice has no option");
    for (const BoundedOption& option : options)
      if (!std::isfinite(option.cost) || !std::isfinite(option.use[0]) || !std::isfinite(option.use[1]))
        throw std::logic_error("an option of a choice is not finite");
  }
}

double priced(const BoundedOption& option, const Limits2& prices) {
  return option.cost + prices[0] * option.use[0] + prices[1] * option.use[1];
}

std::size_t cheapest(const std::vector<BoundedOption>& options, const Limits2& prices) {
  std::size_t best = 0;
  for (std::size_t o = 1; o < options.size(); ++o)
    if (priced(options[o], prices) < priced(options[best], prices)) best = o;
  return best;
}

// What no choice within the limits undercuts, at these prices of their use.
double lagrangian(Items items, const Limits2& limits, const Limits2& prices) {
  double sum = -prices[0] * limits[0] - prices[1] * limits[1];
  for (const std::vector<BoundedOption>& options : items)
    sum += priced(options[cheapest(options, prices)], prices);
  return sum;
}

// Where a function that rises and then falls is highest, on 0 and a scale of powers.
template <typename Function>
double highest_at(double scale, const Function& value) {
  constexpr double kRatio = 0.6180339887498949, kDecades = 9;
  constexpr int kSteps = 36;
  const auto at = [&](double x) { return scale * std::pow(10, x); };
  double low = -kDecades, high = kDecades;
  for (int i = 0; i < kSteps; ++i) {
    const double left = high - kRatio * (high - low), right = low + kRatio * (high - low);
    (value(at(left)) < value(at(right)) ? low : high) = value(at(left)) < value(at(right)) ? left : right;
  }
  const double best = at((low + high) / 2);
  return value(0) >= value(best) ? 0 : best;
}

// Prices near those whose bound is highest. Any are sound.
Limits2 best_prices(Items items, const Limits2& limits) {
  double cost = 0;
  Limits2 use{};
  for (const std::vector<BoundedOption>& options : items)
    for (const BoundedOption& option : options) {
      cost = std::max(cost, std::abs(option.cost - options.front().cost));
      for (std::size_t k = 0; k < 2; ++k)
        use[k] = std::max(use[k], std::abs(option.use[k] - options.front().use[k]));
    }
  if (cost == 0) return {};
  const auto scale = [&](std::size_t k) { return use[k] > 0 ? cost / use[k] : 0; };
  const auto second_for = [&](double first) {
    return highest_at(scale(1), [&](double second) { return lagrangian(items, limits, {first, second}); });
  };
  const double first = highest_at(scale(0), [&](double price) {
    return lagrangian(items, limits, {price, second_for(price)});
  });
  return {first, second_for(first)};
}

struct Point {
  double cost = 0;
  Limits2 use{};
  std::uint32_t before = 0, option = 0;
};

bool is_within(const Limits2& use, const Limits2& limits) {
  return use[0] <= limits[0] && use[1] <= limits[1];
}

BoundedChoice choice_from(Items items, std::vector<std::size_t> options) {
  BoundedChoice choice{.options = std::move(options)};
  for (std::size_t i = 0; i < items.size(); ++i) {
    const BoundedOption& option = items[i][choice.options[i]];
    choice.cost += option.cost;
    for (std::size_t k = 0; k < 2; ++k) choice.use[k] += option.use[k];
  }
  return choice;
}

class BoundedSearch {
 public:
  BoundedSearch(Items items, const Limits2& limits, std::size_t max_points)
      : items_(items), limits_(limits), max_points_(std::max<std::size_t>(max_points, 2)) {
    prices_ = best_prices(items, limits);
    rest_.assign(items.size() + 1, {});
    for (std::size_t i = items.size(); i-- > 0;) {
      rest_[i] = rest_[i + 1];
      rest_[i].priced += priced(items[i][cheapest(items[i], prices_)], prices_);
      for (std::size_t k = 0; k < 2; ++k) {
        const auto least =
            std::min_element(items[i].begin(), items[i].end(),
                             [k](const auto& a, const auto& b) { return a.use[k] < b.use[k]; });
        rest_[i].use[k] += least->use[k];
      }
    }
  }

  std::optional<BoundedChoice> solve() {
    find_first();
    std::vector<Point> points{{}};
    std::vector<std::vector<Point>> all;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      points = extended(points, i);
      all.push_back(points);
    }
    std::optional<BoundedChoice> best = first_;
    const auto least = std::min_element(points.begin(), points.end(),
                                        [](const Point& a, const Point& b) { return a.cost < b.cost; });
    if (least != points.end() && (!best || least->cost < best->cost)) {
      std::vector<std::size_t> options(items_.size());
      auto at = static_cast<std::size_t>(least - points.begin());
      for (std::size_t i = items_.size(); i-- > 0; at = all[i][at].before) options[i] = all[i][at].option;
      best = choice_from(items_, std::move(options));
    }
    if (best) best->bound = std::min(best->cost, dropped_);
    return best;
  }

 private:
  struct Rest {  // the least sums of the items from one on
    double priced = 0;
    Limits2 use{};
  };

  double bound_of(const Point& point, std::size_t next) const {
    return point.cost + prices_[0] * (point.use[0] - limits_[0]) + prices_[1] * (point.use[1] - limits_[1]) +
           rest_[next].priced;
  }

  // The choice of the prices, mended until it keeps the limits, and then bettered one item at a time.
  void find_first() {
    std::vector<std::size_t> options;
    for (const std::vector<BoundedOption>& item : items_) options.push_back(cheapest(item, prices_));
    BoundedChoice choice = choice_from(items_, std::move(options));
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      const double over = excess(choice.use);
      double best = 0;
      std::size_t item = 0, to = 0;
      for (std::size_t i = 0; i < items_.size(); ++i)
        for (std::size_t o = 0; o < items_[i].size(); ++o) {
          const BoundedOption &from = items_[i][choice.options[i]], &other = items_[i][o];
          const double dearer = other.cost - from.cost;
          const Limits2 use{choice.use[0] + other.use[0] - from.use[0],
                            choice.use[1] + other.use[1] - from.use[1]};
          // What is gained: less excess for each unit of cost, or less cost within the limits.
          const double gain = over > 0 ? (over - excess(use)) / std::max(dearer, 1e-300)
                                       : (is_within(use, limits_) ? -dearer : 0);
          if (gain <= best) continue;
          best = gain;
          item = i;
          to = o;
        }
      if (best <= 0) break;
      choice.options[item] = to;
      choice = choice_from(items_, std::move(choice.options));
      has_moved = ++moves_ < 16 * items_.size();
    }
    if (is_within(choice.use, limits_)) first_ = std::move(choice);
  }
  double excess(const Limits2& use) const {
    double sum = 0;
    for (std::size_t k = 0; k < 2; ++k) {
      const double room = std::max(1e-300, std::abs(limits_[k] - rest_[0].use[k]));
      sum += std::max(0.0, use[k] - limits_[k]) / room;
    }
    return sum;
  }

  std::vector<Point> extended(const std::vector<Point>& points, std::size_t item) {
    std::vector<Point> next;
    for (std::size_t p = 0; p < points.size(); ++p)
      for (std::size_t o = 0; o < items_[item].size(); ++o) {
        const BoundedOption& option = items_[item][o];
        const Point point{.cost = points[p].cost + option.cost,
                          .use = {points[p].use[0] + option.use[0], points[p].use[1] + option.use[1]},
                          .before = static_cast<std::uint32_t>(p),
                          .option = static_cast<std::uint32_t>(o)};
        const Rest& rest = rest_[item + 1];
        if (!is_within({point.use[0] + rest.use[0], point.use[1] + rest.use[1]}, limits_)) continue;
        if (first_ && bound_of(point, item + 1) >= first_->cost) continue;
        next.push_back(point);
      }
    std::vector<Point> kept = undominated(std::move(next));
    if (kept.size() <= max_points_) return kept;
    const auto less = [&](const Point& a, const Point& b) {
      return bound_of(a, item + 1) < bound_of(b, item + 1);
    };
    const auto middle = kept.begin() + static_cast<std::ptrdiff_t>(max_points_);
    std::nth_element(kept.begin(), middle, kept.end(), less);
    dropped_ = std::min(dropped_, bound_of(*middle, item + 1));
    kept.erase(middle, kept.end());
    return kept;
  }

  static std::vector<Point> undominated(std::vector<Point> points) {
    std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
      if (a.use[0] != b.use[0]) return a.use[0] < b.use[0];
      return a.use[1] != b.use[1] ? a.use[1] < b.use[1] : a.cost < b.cost;
    });
    std::vector<Point> kept;
    std::map<double, double> stairs;  // the least cost up to a use of the second; it falls as that grows
    for (const Point& point : points) {
      auto after = stairs.upper_bound(point.use[1]);
      if (after != stairs.begin() && std::prev(after)->second <= point.cost) continue;
      while (after != stairs.end() && after->second >= point.cost) after = stairs.erase(after);
      stairs[point.use[1]] = point.cost;
      kept.push_back(point);
    }
    return kept;
  }

  Items items_;
  Limits2 limits_;
  std::size_t max_points_, moves_ = 0;
  Limits2 prices_{};
  std::vector<Rest> rest_;
  std::optional<BoundedChoice> first_;
  double dropped_ = kInfinite;
};

}  // namespace

std::optional<BoundedChoice> choose_within(std::span<const std::vector<BoundedOption>> items,
                                           const std::array<double, 2>& limits, std::size_t max_points) {
  check_bounded(items);
  return BoundedSearch(items, limits, max_points).solve();
}

}  // namespace assay::statistics
