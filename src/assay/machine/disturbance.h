// What else went on while something was measured: counters of this process and of the machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "assay/base/cpu.h"
#include "assay/base/units.h"

namespace assay {

struct Disturbance {
  double seconds = 0;                     // by the wall clock
  std::int64_t involuntary_switches = 0;  // this process's
  double stolen_cpu_s = 0;                // by the hypervisor, all processors together
  double other_cpu_s = 0;                 // used by other processes, all processors together
  // Counted exactly, whatever the length: time that threads of this process waited for a processor that did
  // something else (schedstat), page faults, moves of threads to another processor.
  double processor_wait_s = 0;
  std::int64_t minor_faults = 0, major_faults = 0, migrations = 0;
  // By the wall clock from the run before to the end of this one, so that short runs are watched long enough.
  double watched_s = 0, watched_stolen_cpu_s = 0;
  std::int64_t throttle_events = 0;  // processors slowed down by heat or power, as Intel's count them
  double quota_wait_s = 0;           // kept waiting by the quota of its control groups
  // The fastest processor's when a run ended, over all runs; 0 where the system does not tell.
  double lowest_mhz = 0, highest_mhz = 0;
  Disturbance& operator+=(const Disturbance& other);
};

// Where the system tells of frequencies and throttling.
struct SystemFolders {
  std::filesystem::path processors = "/sys/devices/system/cpu";  // cpu0/cpufreq, cpu0/thermal_throttle, ...
  std::vector<std::string> quota_statistics = cgroup_cpu_statistics();
  std::filesystem::path tasks = "/proc/self/task";  // 1/schedstat, 1/sched
  std::filesystem::path statistics = "/proc/stat";
};

// Counters from its making on. What the system does not tell counts as zero.
class DisturbanceWatch {
 public:
  explicit DisturbanceWatch(SystemFolders folders = {});
  Disturbance so_far() const;
  // Watches from now on, except for what is measured over the pauses between runs too.
  void begin_run();

 private:
  struct Counters {
    double stolen_s = 0, busy_s = 0, own_s = 0;
    std::int64_t switches = 0, throttle_events = 0;
    double quota_wait_s = 0, processor_wait_s = 0;
    std::int64_t minor_faults = 0, major_faults = 0, migrations = 0;
  };
  Counters read() const;
  SystemFolders folders_;
  TimePoint begin_, watch_begin_;
  Counters counters_;
  double stolen_before_s_ = 0;
};

}  // namespace assay
