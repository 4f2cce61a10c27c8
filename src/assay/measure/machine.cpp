#include "assay/measure/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

#include "assay/base/cpu.h"

namespace assay {

Machine read_machine() {
  Machine machine;
  const CpuInfo cpu = cpu_info();
  machine.cpu = cpu.model;
  machine.processors_online = cpu.online;
  machine.processors_allowed = cpu.allowed;
  machine.cgroup_cpu_quota = cpu.quota;
  machine.cpu_features = cpu.features;
  machine.memory = {sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE)};
  utsname names{};
  if (uname(&names) == 0) machine.system = std::string(names.sysname) + " " + names.release;
  double load = 0;
  if (getloadavg(&load, 1) == 1) machine.load_1min = load;
  return machine;
}

ProcessMemory read_process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    const auto kilobytes = [&] { return Bytes{std::strtoll(line.c_str() + 6, nullptr, 10) * 1024}; };
    if (line.rfind("VmRSS:", 0) == 0) memory.resident = kilobytes();
    if (line.rfind("VmHWM:", 0) == 0) memory.peak = kilobytes();
  }
  return memory;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Build build_facts() {
#if defined(__clang__)
  const std::string compiler = std::string("clang ") + __clang_version__;
#else
  const std::string compiler = std::string("g++ ") + __VERSION__;
#endif
  return {ASSAY_VERSION, compiler, ASSAY_BUILD_TYPE};
}

}  // namespace assay
