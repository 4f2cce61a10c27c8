#include "assay/machine/machine.h"

#include <cpuid.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "assay/base/cpu.h"
#include "assay/base/format.h"
#include "assay/base/topology.h"

namespace assay {

namespace {

// The first line of a small file of the system; empty where there is none.
std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "48K", "2048K", "32M"
Bytes size_from_text(const std::string& text) {
  char* unit = nullptr;
  const std::int64_t number = std::strtoll(text.c_str(), &unit, 10);
  return {number * (*unit == 'K' ? 1 << 10 : *unit == 'M' ? 1 << 20 : 1)};
}

std::vector<CpuCache> caches_of_system() {
  std::vector<CpuCache> caches;
  for (int i = 0;; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}", i);
    const std::string level = line_of(folder + "/level");
    if (level.empty()) return caches;
    caches.push_back({std::atoi(level.c_str()), line_of(folder + "/type"),
                      size_from_text(line_of(folder + "/size")), line_of(folder + "/shared_cpu_list")});
  }
}

// Leaf 4 of Intel, and the leaf of AMD that has the same form.
std::vector<CpuCache> caches_of_processor() {
  static constexpr const char* kKinds[] = {"", "Data", "Instruction", "Unified"};
  std::vector<CpuCache> caches;
  for (const unsigned leaf : {4U, 0x8000001dU})
    for (unsigned i = 0; caches.size() <= i; ++i) {
      unsigned a = 0, b = 0, c = 0, d = 0;
      if (__get_cpuid_count(leaf, i, &a, &b, &c, &d) == 0 || (a & 31) == 0 || (a & 31) > 3) break;
      const std::int64_t ways = (b >> 22) + 1, partitions = ((b >> 12) & 1023) + 1, line = (b & 4095) + 1;
      caches.push_back({static_cast<int>((a >> 5) & 7),
                        kKinds[a & 31],
                        {ways * partitions * line * (std::int64_t{c} + 1)},
                        {}});
    }
  return caches;
}

int count_numa_nodes() {
  int nodes = 0;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", code)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > 4 && name.rfind("node", 0) == 0 && name.find_first_not_of("0123456789", 4) == name.npos)
      ++nodes;
  }
  return nodes;
}

// "always [madvise] never" -> "madvise"
std::string chosen_word(const std::string& line) {
  const std::size_t open = line.find('['), close = line.find(']', open);
  return close == std::string::npos ? "unknown" : line.substr(open + 1, close - open - 1);
}

// A line such as "VmRSS:   1234 kB" of a file of the kernel; zero where there is none.
Bytes kilobytes_of(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.rfind(key, 0) == 0) return {std::strtoll(line.c_str() + key.size(), nullptr, 10) * 1024};
  return {};
}

}  // namespace

Machine read_machine() {
  Machine machine;
  const CpuInfo cpu = cpu_info();
  machine.cpu = cpu.model;
  machine.processors_online = cpu.online;
  machine.processors_allowed = cpu.allowed;
  std::vector<Processor> processors = read_topology(allowed_processors());
  machine.cores = count_cores(processors);
  std::erase_if(processors, [](const Processor& one) { return !one.is_efficient; });
  machine.efficient_cores = count_cores(processors);
  machine.cgroup_cpu_quota = cpu.quota;
  machine.cpu_features = cpu.features;
  machine.memory = {sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE)};
  utsname names{};
  if (uname(&names) == 0) machine.system = std::string(names.sysname) + " " + names.release;
  double load = 0;
  if (getloadavg(&load, 1) == 1) machine.load_1min = load;
  for (const Isa isa : kAllIsas)
    machine.instruction_sets.push_back({std::string(name_of(isa)), why_not_usable(isa).value_or("")});
  machine.caches = caches_of_system();
  if (machine.caches.empty()) machine.caches = caches_of_processor();
  machine.numa_nodes = count_numa_nodes();
  machine.transparent_huge_pages = chosen_word(line_of("/sys/kernel/mm/transparent_hugepage/enabled"));
  const std::string governor = line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor.empty()) machine.frequency_governor = governor;
  machine.memory_available = kilobytes_of("/proc/meminfo", "MemAvailable:");
  machine.cgroup_memory_limit = cgroup_memory_limit();
  return machine;
}

std::string cores_text(const Machine& machine) {
  const int cores = machine.cores, efficient = machine.efficient_cores;
  if (efficient > 0)
    return fmt::format("{} fast and {} efficient: threads run on all, and take work when they are free",
                       cores - efficient, efficient);
  return fmt::format(
      "{}{}", cores,
      cores < machine.processors_allowed ? ", some with two threads or more: one of each is used" : "");
}

ProcessMemory read_process_memory() {
  const char* file = "/proc/self/status";
  return {kilobytes_of(file, "VmRSS:"), kilobytes_of(file, "VmHWM:"), kilobytes_of(file, "RssAnon:")};
}

Seconds process_age() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return {};
  // The name in brackets may hold blanks; the start is the 20th word after it.
  std::istringstream words(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string word;
  for (int i = 0; i < 20; ++i) words >> word;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double since_boot = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  const double begin = std::strtod(word.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return {std::max(0.0, since_boot - begin)};
}

std::string new_run_id() {
  std::random_device random;
  const std::uint64_t bits = (std::uint64_t{random()} << 32 | random()) ^
                             static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) ^
                             static_cast<std::uint64_t>(getpid()) << 40;
  return fmt::format("{:016x}", bits);
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
