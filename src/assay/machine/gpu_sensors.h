// What a GPU's driver tells of its state: clocks, power, temperature, energy, and who else uses it. NVIDIA's
// NVML, which is loaded when it is first asked for (NVML API Reference; libnvidia-ml.so.1).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/base/units.h"

namespace assay {

struct GpuReading {
  double sm_mhz = 0, memory_mhz = 0;  // 0: not told, as everything else that is 0
  double watts = 0, celsius = 0;
  std::optional<double> joules;  // since the driver was loaded; refreshed every 20 to 100 ms
  bool is_slowed_by_heat = false, is_slowed_by_power = false;
};

struct GpuIdentity {
  std::string name, driver;  // "NVIDIA H100 PCIe", "580.65.06"
  double most_sm_mhz = 0;
  double power_limit_watts = 0;
};

struct GpuProcess {
  std::int64_t pid = 0;
  Bytes memory;  // 0: not told
};

class GpuSensors {
 public:
  virtual ~GpuSensors() = default;
  virtual GpuIdentity identity() = 0;
  virtual GpuReading read() = 0;
  // That of read() alone, where the rest would take time beside each run.
  virtual std::optional<double> joules() { return read().joules; }
  virtual std::vector<GpuProcess> processes() = 0;  // that compute on it, this one included
};

// By the GPU's place on the PCI bus ("00000000:65:00.0"). Null where there is none to read; `why_not` then
// says why: "libnvidia-ml.so.1 cannot be loaded".
std::unique_ptr<GpuSensors> open_nvml(const std::string& bus_id, std::string& why_not);

// Processes other than this one, its parent and the parent's other workers, which take turns. Nothing where
// this one is not among them: the driver then numbers processes otherwise than this container does.
std::vector<GpuProcess> other_processes(GpuSensors& sensors);

// What the sensors told while something ran.
struct GpuUse {
  double lowest_mhz = 0, highest_mhz = 0, highest_celsius = 0, mean_watts = 0;
  bool was_slowed_by_heat = false, was_slowed_by_power = false;
  std::int64_t others = 0;    // processes beside this one, at most
  std::int64_t readings = 1;  // that mean_watts is of
  GpuUse& operator+=(const GpuUse& other);
};

// Watches from its making on. Null sensors: nothing is told.
class GpuWatch {
 public:
  explicit GpuWatch(GpuSensors* sensors);
  GpuUse use() const;
  // Since the beginning; empty where the counter is not there, or the time is too short for it: below 2 s its
  // steps are more than a few percent. `why_not` says so.
  std::optional<double> joules(std::string& why_not) const;

 private:
  GpuSensors* sensors_;
  TimePoint begin_;
  std::optional<double> joules_;
};

}  // namespace assay
