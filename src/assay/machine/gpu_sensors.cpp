#include "assay/machine/gpu_sensors.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <type_traits>

#include "assay/base/format.h"

namespace assay {

namespace {

// NVML's functions, declared by hand so that no header of NVIDIA's is needed to build.
using NvmlDevice = struct NvmlDeviceOpaque*;
struct NvmlProcess {  // nvmlProcessInfo_t
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};

struct NvmlFunctions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*handle)(const char*, NvmlDevice*) = nullptr;
  int (*name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*most_clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;
  int (*power_limit)(NvmlDevice, unsigned*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*energy)(NvmlDevice, unsigned long long*) = nullptr;
  int (*slowdown_reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
};

constexpr int kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;
// nvmlClocksThrottleReason...: software power cap, hardware power brake; software and hardware thermal; and
// hardware slowdown, which is either.
constexpr unsigned long long kPowerReasons = 0x4 | 0x80, kHeatReasons = 0x20 | 0x40, kHardwareSlowdown = 0x8;

class Nvml final : public GpuSensors {
 public:
  Nvml(void* library, const NvmlFunctions& functions, NvmlDevice device)
      : library_(library), nvml_(functions), device_(device) {}
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() override {
    nvml_.shutdown();
    dlclose(library_);
  }

  GpuIdentity identity() override {
    GpuIdentity identity;
    char text[96] = {};
    if (nvml_.name(device_, text, sizeof text) == 0) identity.name = text;
    if (nvml_.driver(text, sizeof text) == 0) identity.driver = text;
    unsigned value = 0;
    if (nvml_.most_clock(device_, kSmClock, &value) == 0) identity.most_sm_mhz = value;
    if (nvml_.power_limit(device_, &value) == 0) identity.power_limit_watts = value / 1e3;
    return identity;
  }
  GpuReading read() override {
    GpuReading reading;
    unsigned value = 0;
    if (nvml_.clock(device_, kSmClock, &value) == 0) reading.sm_mhz = value;
    if (nvml_.clock(device_, kMemoryClock, &value) == 0) reading.memory_mhz = value;
    if (nvml_.power(device_, &value) == 0) reading.watts = value / 1e3;
    if (nvml_.temperature(device_, kGpuTemperature, &value) == 0) reading.celsius = value;
    reading.joules = joules();
    unsigned long long wide = 0;
    if (nvml_.slowdown_reasons(device_, &wide) == 0) {
      reading.is_slowed_by_heat = (wide & (kHeatReasons | kHardwareSlowdown)) != 0;
      reading.is_slowed_by_power = (wide & kPowerReasons) != 0;
    }
    return reading;
  }
  std::optional<double> joules() override {
    unsigned long long wide = 0;
    if (nvml_.energy(device_, &wide) != 0) return std::nullopt;
    return static_cast<double>(wide) / 1e3;
  }
  std::vector<GpuProcess> processes() override {
    NvmlProcess all[64] = {};
    unsigned count = std::size(all);
    if (nvml_.processes(device_, &count, all) != 0) return {};
    std::vector<GpuProcess> found;
    for (const NvmlProcess& one : std::span(all).first(count))
      found.push_back({one.pid, {one.used_memory == ~0ULL ? 0 : static_cast<std::int64_t>(one.used_memory)}});
    return found;
  }

 private:
  void* library_;
  NvmlFunctions nvml_;
  NvmlDevice device_;
};

// "42 (name) S 7 ...": behind the last parenthesis the state, then the parent. 0 where nobody tells.
std::int64_t parent_of(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t end = line.rfind(')');
  if (end == std::string::npos || end + 4 > line.size()) return 0;
  return std::strtoll(line.c_str() + end + 4, nullptr, 10);
}

// The name of the first function that the library lacks; empty where it has all.
std::string find_functions(void* library, NvmlFunctions& nvml) {
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return std::string(function == nullptr ? name : "");
  };
  for (const std::string& missing :
       {find(nvml.init, "nvmlInit_v2"), find(nvml.shutdown, "nvmlShutdown"),
        find(nvml.error_text, "nvmlErrorString"), find(nvml.handle, "nvmlDeviceGetHandleByPciBusId_v2"),
        find(nvml.name, "nvmlDeviceGetName"), find(nvml.driver, "nvmlSystemGetDriverVersion"),
        find(nvml.clock, "nvmlDeviceGetClockInfo"), find(nvml.most_clock, "nvmlDeviceGetMaxClockInfo"),
        find(nvml.power, "nvmlDeviceGetPowerUsage"),
        find(nvml.power_limit, "nvmlDeviceGetEnforcedPowerLimit"),
        find(nvml.temperature, "nvmlDeviceGetTemperature"),
        find(nvml.energy, "nvmlDeviceGetTotalEnergyConsumption"),
        find(nvml.slowdown_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons"),
        find(nvml.processes, "nvmlDeviceGetComputeRunningProcesses_v3")})
    if (!missing.empty()) return missing;
  return "";
}

}  // namespace

std::unique_ptr<GpuSensors> open_nvml(const std::string& bus_id, std::string& why_not) {
  constexpr const char* kLibrary = "libnvidia-ml.so.1";
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why_not = fmt::format("{} cannot be loaded", kLibrary);
    return nullptr;
  }
  NvmlFunctions nvml;
  if (const std::string missing = find_functions(library, nvml); !missing.empty()) {
    why_not = fmt::format("{} has no {}", kLibrary, missing);
    dlclose(library);
    return nullptr;
  }
  if (const int error = nvml.init(); error != 0) {
    why_not = fmt::format("{}: {}", kLibrary, nvml.error_text(error));
    dlclose(library);
    return nullptr;
  }
  NvmlDevice device = nullptr;
  if (const int error = nvml.handle(bus_id.c_str(), &device); error != 0) {
    why_not = fmt::format("{}: GPU {}: {}", kLibrary, bus_id, nvml.error_text(error));
    nvml.shutdown();
    dlclose(library);
    return nullptr;
  }
  why_not.clear();
  return std::make_unique<Nvml>(library, nvml, device);
}

std::vector<GpuProcess> other_processes(GpuSensors& sensors) {
  std::vector<GpuProcess> all = sensors.processes();
  if (std::none_of(all.begin(), all.end(), [](const GpuProcess& one) { return one.pid == getpid(); }))
    return {};
  std::erase_if(all, [](const GpuProcess& one) {
    return one.pid == getpid() || one.pid == getppid() || parent_of(one.pid) == getppid();
  });
  return all;
}

GpuUse& GpuUse::operator+=(const GpuUse& other) {
  if (other.highest_mhz > 0) {
    lowest_mhz = lowest_mhz > 0 ? std::min(lowest_mhz, other.lowest_mhz) : other.lowest_mhz;
    highest_mhz = std::max(highest_mhz, other.highest_mhz);
  }
  highest_celsius = std::max(highest_celsius, other.highest_celsius);
  if (mean_watts > 0 && other.mean_watts > 0) {
    const auto own = static_cast<double>(readings), more = static_cast<double>(other.readings);
    mean_watts = (own * mean_watts + more * other.mean_watts) / (own + more);
    readings += other.readings;
  } else if (other.mean_watts > 0) {
    mean_watts = other.mean_watts;
    readings = other.readings;
  }
  was_slowed_by_heat = was_slowed_by_heat || other.was_slowed_by_heat;
  was_slowed_by_power = was_slowed_by_power || other.was_slowed_by_power;
  others = std::max(others, other.others);
  return *this;
}

GpuWatch::GpuWatch(GpuSensors* sensors) : sensors_(sensors), begin_(Clock::now()) {
  if (sensors_ != nullptr) joules_ = sensors_->joules();
}

GpuUse GpuWatch::use() const {
  GpuUse use;
  if (sensors_ == nullptr) return use;
  const GpuReading now = sensors_->read();  // at the end of a run it still has the clock of the run
  use.lowest_mhz = use.highest_mhz = now.sm_mhz;
  use.highest_celsius = now.celsius;
  use.mean_watts = now.watts;
  use.was_slowed_by_heat = now.is_slowed_by_heat;
  use.was_slowed_by_power = now.is_slowed_by_power;
  use.others = static_cast<std::int64_t>(other_processes(*sensors_).size());
  return use;
}

std::optional<double> GpuWatch::joules(std::string& why_not) const {
  constexpr double kShortest = 2;
  if (sensors_ == nullptr || !joules_) {
    why_not = "the GPU's driver does not tell its energy";
    return std::nullopt;
  }
  if (elapsed(begin_, Clock::now()).value < kShortest) {
    why_not = "a run shorter than 2 s is too short for the GPU's energy counter; use more new tokens";
    return std::nullopt;
  }
  const std::optional<double> now = sensors_->joules();
  if (!now) {
    why_not = "the GPU's driver does not tell its energy";
    return std::nullopt;
  }
  return *now - *joules_;
}

}  // namespace assay
