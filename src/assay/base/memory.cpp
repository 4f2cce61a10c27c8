#include "assay/base/memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "assay/base/cpu.h"
#include "assay/base/error.h"

namespace assay {

namespace {

// The number after a label at the beginning of a line; zero where there is none.
std::int64_t number_in(const std::string& path, const std::string& label) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.rfind(label, 0) == 0) return std::strtoll(line.c_str() + label.size(), nullptr, 10);
  return 0;
}

}  // namespace

Bytes available_memory() {
  std::int64_t available = number_in("/proc/meminfo", "MemAvailable:") * 1024;
  if (const Bytes limit = cgroup_memory_limit(); limit.value > 0) {
    // What of the limit is in use elsewhere is not known from inside; this process's own share is.
    const std::int64_t used = number_in("/proc/self/status", "RssAnon:") * 1024;
    const std::int64_t left = std::max<std::int64_t>(1, limit.value - used);
    available = available > 0 ? std::min(available, left) : left;
  }
  return {available};
}

Bytes total_memory() {
  const std::int64_t all = number_in("/proc/meminfo", "MemTotal:") * 1024;
  const Bytes limit = cgroup_memory_limit();
  return {limit.value > 0 && (all == 0 || limit.value < all) ? limit.value : all};
}

void require_memory(Bytes needed, std::string_view purpose) {
  const Bytes available = available_memory();
  if (available.value == 0 || needed.value <= available.value) return;
  throw Error("not enough memory for {}: {:.0f} MiB needed, {:.0f} MiB available", purpose,
              needed.megabytes(), available.megabytes());
}

}  // namespace assay
