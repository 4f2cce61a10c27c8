// What a result was measured on, and what the process holds in memory.
#pragma once

#include <string>
#include <vector>

#include "assay/base/units.h"

namespace assay {

struct InstructionSet {
  std::string name;
  std::string why_not;  // it cannot be used; empty where it can
};

struct CpuCache {
  int level = 0;
  std::string kind;  // "Data", "Instruction", "Unified"
  Bytes size;
  std::string processors;  // that share it: "0-1"
};

// Facts that the system does not tell are "unknown", empty or zero; to ask is never an error.
struct Machine {
  std::string cpu;
  int processors_online = 0, processors_allowed = 0;
  int cores = 0,
      efficient_cores = 0;      // among the allowed processors; efficient ones of a hybrid machine alone
  double cgroup_cpu_quota = 0;  // 0 = none
  std::vector<std::string> cpu_features;
  Bytes memory;
  std::string system;    // kernel name and release
  double load_1min = 0;  // load average when it was read
  std::vector<InstructionSet> instruction_sets;
  std::vector<CpuCache> caches;  // the first processor's
  int numa_nodes = 0;
  std::string transparent_huge_pages = "unknown";  // "madvise"
  std::string frequency_governor = "unknown";      // the first processor's
  Bytes memory_available;
  Bytes cgroup_memory_limit;  // 0 = none
};
Machine read_machine();

// Cores and who works: "2", "6 fast and 8 efficient: threads run on all, and take work when they are free".
std::string cores_text(const Machine& machine);

struct ProcessMemory {
  Bytes resident, peak, anonymous;  // VmRSS, VmHWM, RssAnon; zero where /proc is not there
};
ProcessMemory read_process_memory();

// How long ago the kernel started this process, in steps of 10 ms; 0 where /proc is not there.
Seconds process_age();

// "2026-01-31T12:00:00Z"
std::string utc_now();

// 16 hexadecimal digits from the time, the process and the system's random numbers.
std::string new_run_id();

// Version of the program, its compiler and build type: part of every result.
struct Build {
  std::string version, compiler, type;
};
Build build_facts();

}  // namespace assay
