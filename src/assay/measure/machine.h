// What a result was measured on, and what the process holds in memory.
#pragma once

#include <string>
#include <vector>

#include "assay/base/units.h"

namespace assay {

struct Machine {
  std::string cpu;
  int processors_online = 0, processors_allowed = 0;
  double cgroup_cpu_quota = 0;  // 0 = none
  std::vector<std::string> cpu_features;
  Bytes memory;
  std::string system;    // kernel name and release
  double load_1min = 0;  // load average when it was read
};
Machine read_machine();

struct ProcessMemory {
  Bytes resident, peak;  // VmRSS, VmHWM; zero where /proc is not there
};
ProcessMemory read_process_memory();

// "2026-01-31T12:00:00Z"
std::string utc_now();

// Version of the program, its compiler and build type: part of every result.
struct Build {
  std::string version, compiler, type;
};
Build build_facts();

}  // namespace assay
