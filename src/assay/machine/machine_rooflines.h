// All rooflines of a machine, measured in a few seconds: what `assay machine` shows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "assay/machine/rooflines.h"

namespace assay {

struct ReadRoofline {
  Bytes working_set;
  int threads = 0, streams = 0;  // streams of each thread
  double bytes_per_second = 0;
};

struct ProductRoofline {
  ProductKind kind{};
  int threads = 0;
  double operations_per_second = 0;  // 0 where it is not usable
  std::string why_not;
};

struct MachineRooflines {
  std::vector<ReadRoofline> reads;
  std::vector<Bytes> skipped;  // working sets that are more than a quarter of the memory at hand
  std::vector<ProductRoofline> products;
  int threads = 0;
  Seconds phase_round_trip;
};

struct RooflineOptions {
  int threads = 0;       // 0 = default_thread_count(); one thread is measured beside it
  Seconds each{0.05};    // at least, of every figure
  Bytes memory_at_hand;  // 0 = what the machine and the control group leave
  std::vector<Bytes> working_sets = {{1 << 20}, {4 << 20}, {16 << 20}, {64 << 20}, {256 << 20}, {1 << 30}};
  std::function<void(const std::string& now)> on_progress;
  std::function<bool()> should_stop;
};

// Throws Error "interrupted" where should_stop says so.
MachineRooflines measure_rooflines(const RooflineOptions& options);

}  // namespace assay
