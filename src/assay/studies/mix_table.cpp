#include "assay/studies/mix_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "assay/statistics/bounded_choice.h"
#include "assay/statistics/divergence_statistics.h"

namespace assay {

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr double kMostBytes = 9e18;  // that whole numbers of 64 bits hold

std::vector<std::vector<statistics::KnapsackOption>> knapsack_of(const MixTable& table) {
  std::vector<std::vector<statistics::KnapsackOption>> items;
  for (const std::vector<MixOption>& options : table.options) {
    items.emplace_back();
    for (const MixOption& option : options)
      if (option.is_offered) items.back().push_back({option.bytes.value, option.kl});
  }
  return items;
}

}  // namespace

MixSums MixTable::sums_of(const FormatChoice& choice) const {
  MixSums sums{.bytes = static_cast<double>(other.value), .step = base_step.value_or(0)};
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const MixOption& option = options[i][choice[i]];
    sums.bytes += static_cast<double>(option.bytes.value);
    sums.kl += option.kl;
    sums.step += option.step_change;
  }
  return sums;
}

std::vector<double> MixTable::predicted_tokens(const FormatChoice& choice) const {
  std::vector<double> sums;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const std::vector<double>& tokens = options[i][choice[i]].tokens;
    sums.resize(tokens.size());
    for (std::size_t t = 0; t < tokens.size(); ++t) sums[t] += tokens[t];
  }
  return sums;
}

std::vector<FormatChoice> MixTable::offered() const {
  std::vector<FormatChoice> all;
  for (const std::vector<MixOption>& candidates : options) {
    all.emplace_back();
    for (std::size_t f = 0; f < candidates.size(); ++f)
      if (candidates[f].is_offered) all.back().push_back(f);
  }
  return all;
}

bool MixTable::is_offered_to_all(std::size_t candidate) const {
  return std::all_of(options.begin(), options.end(),
                     [&](const auto& item) { return item[candidate].is_offered; });
}

MixChooser::MixChooser(const MixTable& table, double max_step)
    : table_(table), offered_(table.offered()), max_step_(max_step) {
  if (max_step == kUnbounded) {
    front_.emplace(knapsack_of(table));
    slack_ = static_cast<double>(front_->slack());
  }
}

FormatChoice MixChooser::candidates_at(const std::vector<std::size_t>& places) const {
  FormatChoice choice;
  for (std::size_t i = 0; i < places.size(); ++i) choice.push_back(offered_[i][places[i]]);
  return choice;
}

FormatChoice MixChooser::choice_of(std::size_t point) const {
  return candidates_at(front_->choice_of(point));
}

std::optional<FormatChoice> MixChooser::within_steps(bool counts_kl, double bound) {
  std::vector<std::vector<statistics::BoundedOption>> items;
  for (const std::vector<MixOption>& options : table_.options) {
    items.emplace_back();
    for (const MixOption& option : options) {
      if (!option.is_offered) continue;
      const auto bytes = static_cast<double>(option.bytes.value);
      items.back().push_back(
          {counts_kl ? option.kl : bytes, {counts_kl ? bytes : option.kl, option.step_change}});
    }
  }
  const auto found = statistics::choose_within(
      items, {std::min(bound, kMostBytes), max_step_ - table_.base_step.value_or(0)});
  if (!found) return std::nullopt;
  slack_ = std::max(0.0, found->cost - found->bound);
  return candidates_at(found->options);
}

std::optional<FormatChoice> MixChooser::least_kl(double max_bytes) {
  const double room = std::min(max_bytes - static_cast<double>(table_.other.value), kMostBytes);
  if (!front_) return within_steps(true, room);
  if (room < 0) return std::nullopt;
  const auto point = front_->within_bytes(static_cast<std::int64_t>(room));
  return point ? std::optional(choice_of(*point)) : std::nullopt;
}

std::optional<FormatChoice> MixChooser::least_bytes(double max_kl) {
  if (!front_) return within_steps(false, max_kl);
  const auto point = front_->within_loss(max_kl);
  return point ? std::optional(choice_of(*point)) : std::nullopt;
}

double MixChooser::fastest_step(double max_bytes) const {
  std::vector<std::vector<statistics::BoundedOption>> items;
  for (const std::vector<MixOption>& options : table_.options) {
    items.emplace_back();
    for (const MixOption& option : options)
      if (option.is_offered)
        items.back().push_back({option.step_change, {static_cast<double>(option.bytes.value), 0}});
  }
  const double room = std::min(max_bytes - static_cast<double>(table_.other.value), kMostBytes);
  const auto found = statistics::choose_within(items, {room, 0});
  return found ? table_.base_step.value_or(0) + found->cost : kUnbounded;
}

std::vector<FormatChoice> MixChooser::neighbours_of(const FormatChoice& choice) {
  std::vector<FormatChoice> found;
  const double bytes = table_.sums_of(choice).bytes, slack = slack_;
  if (const auto smaller = least_kl((1 - kNeighbourShare) * bytes)) found.push_back(*smaller);
  if (front_) {  // the first that takes so much more
    const double items = (1 + kNeighbourShare) * bytes - static_cast<double>(table_.other.value);
    const auto& points = front_->points();
    const auto next = std::find_if(points.begin(), points.end(), [&](const statistics::KnapsackPoint& point) {
      return static_cast<double>(point.bytes) >= items;
    });
    if (next != points.end()) found.push_back(choice_of(static_cast<std::size_t>(next - points.begin())));
  } else {  // more room by doubling, until it is of use
    for (double share = kNeighbourShare; share < 1; share *= 2) {
      const auto larger = least_kl((1 + share) * bytes);
      if (!larger || table_.sums_of(*larger).bytes <= bytes) continue;
      found.push_back(*larger);
      break;
    }
  }
  slack_ = slack;
  return found;
}

std::vector<FormatChoice> exchanges_of(const MixTable& table, const FormatChoice& choice,
                                       const MixBounds& bounds, std::size_t most) {
  struct Change {
    std::size_t item, to;
    double bytes, kl, step;
  };
  std::vector<Change> narrower, wider;
  for (std::size_t i = 0; i < choice.size(); ++i)
    for (std::size_t o = 0; o < table.options[i].size(); ++o) {
      const MixOption &from = table.options[i][choice[i]], &to = table.options[i][o];
      const auto bytes = static_cast<double>(to.bytes.value - from.bytes.value);
      if (to.is_offered && bytes != 0)
        (bytes < 0 ? narrower : wider)
            .push_back({i, o, bytes, to.kl - from.kl, to.step_change - from.step_change});
    }
  struct Pair {
    const Change *down, *up;
    double kl;
  };
  std::vector<Pair> pairs;
  const MixSums now = table.sums_of(choice);
  for (const Change& down : narrower)
    for (const Change& up : wider)
      if (down.item != up.item && now.bytes + down.bytes + up.bytes <= bounds.bytes &&
          now.step + down.step + up.step <= bounds.step)
        pairs.push_back({&down, &up, down.kl + up.kl});
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.kl < b.kl; });
  constexpr int kPairsOfAnItem = 2;
  std::vector<int> uses(choice.size(), 0);
  std::vector<FormatChoice> found;
  for (const Pair& pair : pairs) {
    if (found.size() == most) break;
    if (uses[pair.down->item] == kPairsOfAnItem || uses[pair.up->item] == kPairsOfAnItem) continue;
    ++uses[pair.down->item];
    ++uses[pair.up->item];
    found.push_back(choice);
    found.back()[pair.down->item] = pair.down->to;
    found.back()[pair.up->item] = pair.up->to;
  }
  return found;
}

ExchangedChoice exchange_pairs(const MixTable& table, ExchangedChoice start, const MixBounds& bounds,
                               std::int64_t most,
                               const std::function<std::vector<double>(const FormatChoice&)>& measure) {
  constexpr double kExchangeLevel = 0.05;
  ExchangedChoice now = std::move(start);
  std::vector<FormatChoice> seen{now.choice};
  for (bool has_kept = true; has_kept && now.tried < most;) {
    has_kept = false;
    for (const FormatChoice& other :
         exchanges_of(table, now.choice, bounds, static_cast<std::size_t>(most - now.tried))) {
      if (std::find(seen.begin(), seen.end(), other) != seen.end()) continue;
      seen.push_back(other);
      ++now.tried;
      std::vector<double> kl = measure(other);
      if (kl.empty()) continue;
      const statistics::PairedDivergence paired = statistics::compare_divergence(kl, now.kl);
      if (!paired.difference.interval || paired.difference.interval->high >= 0 ||
          paired.p_value * static_cast<double>(most) >= kExchangeLevel)
        continue;
      ++now.kept;
      now.choice = other;
      now.kl = std::move(kl);
      has_kept = true;
      break;
    }
  }
  return now;
}

}  // namespace assay
