#include "assay/backend/cuda/run/node_times.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace assay::cuda {

namespace {

// Events resolve 0.5 us; no node takes less than the other. More repeats of a layer would find its weights in
// the L2 cache.
constexpr double kLeastDifference = 10e-6, kShortestNode = 0.3e-6;
constexpr std::size_t kMostInPlace = 32, kMostFarApart = 4;

}  // namespace

std::vector<NodeGroup> node_groups(std::span<const StepRecorder::Launch> launches,
                                   const std::function<std::string(std::size_t part)>& kind_of,
                                   std::size_t apart) {
  using Key = std::tuple<std::string, const void*, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                         std::uint32_t>;
  std::map<Key, std::size_t> places;
  std::vector<NodeGroup> groups;
  std::vector<std::size_t> ends;  // where parts end, in front of the one apart
  bool is_in_front = true;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const auto& [part, kernel, shape, again] = launches[i];
    is_in_front = is_in_front && part != apart;
    if (is_in_front && i + 1 < launches.size() && launches[i + 1].part != part) ends.push_back(i);
    const auto [place, is_new] = places.try_emplace(
        {kind_of(part), kernel, shape.grid_x, shape.grid_y, shape.grid_z, shape.block, shape.shared_bytes},
        groups.size());
    if (is_new) groups.emplace_back();
    NodeGroup& group = groups[place->second];
    group.launches.push_back(i);
    if (part == apart) group.elsewhere = ends;
  }
  for (NodeGroup& group : groups)
    if (group.launches.size() > 1) group.elsewhere.clear();
  return groups;
}

std::vector<StepRecorder::Repeat> repeats_of(const NodeGroup& group, std::size_t each) {
  std::vector<StepRecorder::Repeat> repeats;
  const std::size_t count = group.launches.size();
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 1; k <= each; ++k) {
      // As far as can be from where the step itself reads the same weights.
      const std::size_t other = (i + std::max<std::size_t>(1, k * count / (each + 1))) % count,
                        ends = group.elsewhere.size();
      repeats.push_back({.behind = ends == 0 ? group.launches[i] : group.elsewhere[k * ends / (each + 1)],
                         .launch = group.launches[other]});
    }
  return repeats;
}

Seconds node_time(const NodeGroup& group, const StepDifference& difference) {
  const std::size_t most =
      group.elsewhere.empty() ? std::max(kMostFarApart, kMostInPlace / group.launches.size()) : kMostFarApart;
  std::size_t each = 1;
  double more = difference(repeats_of(group, each)).value;
  if (more < kLeastDifference) {
    const double one = std::max(more, kShortestNode);
    each = std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(kLeastDifference / one)), 2, most);
    more = difference(repeats_of(group, each)).value;
  }
  return {std::max(more, 0.0) / static_cast<double>(each * group.launches.size())};
}

}  // namespace assay::cuda
