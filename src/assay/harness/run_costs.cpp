#include "assay/harness/run_costs.h"

#include <algorithm>

#include "assay/base/format.h"
#include "assay/plan/cost.h"

namespace assay {

std::string hash_of(const std::vector<std::vector<TokenId>>& all) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3U; };
  for (const auto& ids : all) {
    add(0xffffffffU);
    for (const TokenId id : ids) add(static_cast<std::uint64_t>(id));
  }
  return fmt::format("{:016x}", hash);
}

Bytes working_set_of(const std::vector<PhaseCosts>& steps) {
  const Cost cost = total_cost(steps[steps.size() / 2]);
  return cost.weight_bytes + cost.kv_bytes;
}

namespace {

double roofline_s_of(const Plan& plan, const std::vector<BatchShape>& shapes, const Roofline::Peaks& peaks) {
  double all = 0;
  for (const BatchShape& shape : shapes)
    for (const PhaseCosts& costs : step_costs(plan, shape)) all += peaks.seconds(total_cost(costs));
  return all;
}

}  // namespace

void set_roofline(const Plan& plan, const std::vector<BatchShape>& shapes, const Roofline::Peaks& peaks,
                  Sample& sample) {
  for (const BatchShape& shape : shapes)
    for (const PhaseCosts& costs : step_costs(plan, shape)) {
      const Cost cost = total_cost(costs);
      sample.bytes += static_cast<double>((cost.weight_bytes + cost.kv_bytes).value);
      sample.flops += cost.flops.value;
      const double seconds = peaks.seconds(cost);
      sample.roofline_s += seconds;
      if (peaks.is_memory_bound(cost)) sample.memory_bound_s += seconds;
    }
  sample.roofline_gb_s = peaks.bytes_per_second / 1e9;
  sample.roofline_gflops = peaks.operations_per_second / 1e9;
  sample.round_trip_us = peaks.round_trip.value * 1e6;
}

void repeat_impossible(const Plan& plan, const std::vector<BatchShape>& shapes, Sample& sample,
                       Roofline::Peaks& peaks, const std::function<Roofline::Peaks()>& measure) {
  constexpr double kImpossible = 1.03;
  constexpr int kMaxRepeats = 3;
  while (sample.roofline_repeats < kMaxRepeats &&
         roofline_s_of(plan, shapes, peaks) > kImpossible * sample.total_latency_s) {
    const Roofline::Peaks again = measure();
    peaks.bytes_per_second = std::max(peaks.bytes_per_second, again.bytes_per_second);
    peaks.operations_per_second = std::max(peaks.operations_per_second, again.operations_per_second);
    ++sample.roofline_repeats;
  }
}

CaseProfile profile_of(const StepProfile& profile, double total_s, const Plan& plan,
                       const std::vector<BatchShape>& shapes, const Roofline::Peaks& peaks) {
  std::array<double, kOpClasses> allowed{};
  for (const BatchShape& shape : shapes)
    for (const PhaseCosts& costs : step_costs(plan, shape))
      for (std::size_t i = 0; i < kOpClasses; ++i) allowed[i] += peaks.seconds(costs[i]);
  const auto own = [&](OpClass phase) {
    const StepProfile::Part& part = profile.parts[static_cast<std::size_t>(phase)];
    return (part.time - part.waiting).value;
  };
  const auto roofline = [&](OpClass phase) { return allowed[static_cast<std::size_t>(phase)]; };
  double waiting = 0, known = 0;
  for (const StepProfile::Part& part : profile.parts) {
    waiting += part.waiting.value;
    known += part.time.value;
  }
  CaseProfile result;
  result.parts.push_back({"matrix multiplication", own(OpClass::linear), roofline(OpClass::linear)});
  result.parts.push_back({"attention", own(OpClass::attention), roofline(OpClass::attention)});
  result.parts.push_back({"the LM head", own(OpClass::head), roofline(OpClass::head)});
  result.parts.push_back({"other operations",
                          own(OpClass::embed) + own(OpClass::norm) + std::max(0.0, total_s - known),
                          roofline(OpClass::embed) + roofline(OpClass::norm)});
  result.parts.push_back({"synchronization", waiting, 0});
  return result;
}

void set_memory(FirstRun& first, const MemoryReadings& read) {
  first.measured_memory_bytes =
      static_cast<double>(read.anonymous.value - read.held_before.value - read.held_by_probes.value);
  if (read.device) {
    first.measured_memory_bytes = static_cast<double>(read.device->peak.value);
    first.device_used_bytes = static_cast<double>(read.device->total.value - read.device->free.value);
  }
  first.kv_cache_bytes = static_cast<double>(read.kv_cache.value);
  first.peak_rss_bytes = static_cast<double>(std::max(read.process.peak, read.highest).value);
  first.current_rss_bytes = static_cast<double>(read.process.resident.value);
}

}  // namespace assay
