// What the parts of steps took, where a device tells.
#pragma once

#include <array>
#include <vector>

#include "assay/base/units.h"
#include "assay/plan/ops.h"

namespace assay {

// Where the time of steps went, by what the operations were for.
struct StepProfile {
  struct Part {
    Seconds time;     // by the wall clock
    Seconds waiting;  // the part of it that a thread spent without work, in the mean
  };
  std::array<Part, kOpClasses> parts{};  // by Phase
  // By operation of the plan and then the LM head, each over all steps, where the device times them one by
  // one; else empty.
  std::vector<Seconds> operations;
};

// A decode step as a GPU replays it: nodes of its graph, and what they take there, beside one another.
struct GraphProfile {
  struct Part {
    int nodes = 0;  // 0: an operation beside it does it
    Seconds time{0};
  };
  std::vector<Part> operations = {};  // the plan's, and behind them the LM head
  Part choice = {};                   // the angles of positions, the most probable token, and its embedding
  Seconds step{0};
};

}  // namespace assay
