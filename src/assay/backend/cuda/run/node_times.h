// How long each launch of a recorded step takes within its graph: the graph is recorded again with launches
// made more often, and the difference of the two times is divided by how many were added. Events around a
// launch would add their own 8 us to the 2 to 4 of a launch, and take its overlap with its neighbours away.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "assay/backend/cuda/run/step_recorder.h"

namespace assay::cuda {

// Launches that share a time: of one kernel and shape, for operations of one kind. Behind each of them stand
// repeats of others, of layers far from it, so that no cache holds their weights: they are read from memory
// as the step itself does. The only one of a step repeats itself, with what it left in the caches.
struct NodeGroup {
  std::vector<std::size_t> launches;
  // Not empty where the only one reads much: its repeats stand behind other launches, these.
  std::vector<std::size_t> elsewhere = {};
};

inline constexpr std::size_t kNoPart = static_cast<std::size_t>(-1);
// `kind_of` a part: equal ones share times. Repeats of `apart`, if any, go between other parts in front of
// it.
std::vector<NodeGroup> node_groups(std::span<const StepRecorder::Launch> launches,
                                   const std::function<std::string(std::size_t part)>& kind_of,
                                   std::size_t apart);

// `each` more of every launch of the group, by the arguments of its own or of another one.
std::vector<StepRecorder::Repeat> repeats_of(const NodeGroup& group, std::size_t each);

// What a step with these repeats takes more than one without, a median over several of both in turns.
using StepDifference = std::function<Seconds(const std::vector<StepRecorder::Repeat>& repeats)>;
// The mean time of one launch of the group. Where a repeat of each makes too little of a difference beside
// what a clock resolves, more are made.
Seconds node_time(const NodeGroup& group, const StepDifference& difference);

}  // namespace assay::cuda
