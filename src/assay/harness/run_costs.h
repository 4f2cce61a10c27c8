// What a run had to do, and what was read beside it, as figures of its sample and of its first run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/harness/case.h"
#include "assay/harness/roofline.h"
#include "assay/machine/machine.h"

namespace assay {

// A hash of all ids that a run generated: tells equal ones from others, nothing more (FNV-1a).
std::string hash_of(const std::vector<std::vector<TokenId>>& all);

// The bytes of a decode step in the middle; of a prefill where there is no other step.
Bytes working_set_of(const std::vector<PhaseCosts>& steps);

// What the run had to read and compute, and the time that the rooflines allow.
void set_roofline(const Plan& plan, const std::vector<BatchShape>& shapes, const Roofline::Peaks& peaks,
                  Sample& sample);

// No run is faster than its roofline: one that is by more than 3 % was disturbed, and is measured again, up
// to three times; the higher of the rates count.
void repeat_impossible(const Plan& plan, const std::vector<BatchShape>& shapes, Sample& sample,
                       Roofline::Peaks& peaks, const std::function<Roofline::Peaks()>& measure);

// Where the time of a run of `total_s` seconds went, beside what the roofline allows each part.
CaseProfile profile_of(const StepProfile& profile, double total_s, const Plan& plan,
                       const std::vector<BatchShape>& shapes, const Roofline::Peaks& peaks);

struct MemoryReadings {
  Bytes anonymous, held_before;  // the process's: at the last token, and before the model was loaded
  Bytes held_by_probes;
  Bytes kv_cache;         // by the model's plan, at the last token
  ProcessMemory process;  // at the end
  Bytes highest;          // resident, as the system counts it for the process; 0: it does not tell
  std::optional<DeviceMemory> device;  // where a device has memory of its own, whose peak counts instead
};
void set_memory(FirstRun& first, const MemoryReadings& read);

}  // namespace assay
