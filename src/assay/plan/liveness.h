// Which buffers of a forward pass may lie in the same memory: those that never hold something at the same
// time.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/plan/plan.h"

namespace assay {

// What a step of a program does to buffers: an operation, or several that run as one.
struct StepUse {
  struct Columns {  // [first, end)
    BufferId buffer = kNone;
    std::int64_t first = 0, end = 0;
  };
  std::vector<BufferId> reads;
  std::vector<Columns> writes;  // also in buffers that it reads: changed in place, or added to
};
StepUse use_of(const Plan& plan, const Op& op);

// conflicts[a][b]: buffers a and b hold something, or are written, during the same step. `columns` of each
// buffer; `kept` are read after the last step. What is written and never read again is only there meanwhile.
using Conflicts = std::vector<std::vector<bool>>;
Conflicts conflicts_of(const std::vector<std::int64_t>& columns, const std::vector<StepUse>& steps,
                       const std::vector<BufferId>& kept);

// The buffers that hold something before the first of the steps, ascending.
std::vector<BufferId> live_before(const std::vector<std::int64_t>& columns, const std::vector<StepUse>& steps,
                                  const std::vector<BufferId>& kept);

// The same before each step, of all of them in one pass.
std::vector<std::vector<BufferId>> live_before_each(const std::vector<std::int64_t>& columns,
                                                    const std::vector<StepUse>& steps,
                                                    const std::vector<BufferId>& kept);

// Where buffers of these sizes lie: those that conflict do not overlap. The largest first, each as low as it
// fits (Lee and Pisarchyk 2020, "Efficient Memory Management for Deep Neural Net Inference").
struct Placement {
  std::vector<std::int64_t> offsets;
  std::int64_t size = 0;  // that all take
};
Placement place(const std::vector<std::int64_t>& sizes, const Conflicts& conflicts);

}  // namespace assay
