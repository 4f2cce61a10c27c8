// Energy of the processor packages, as Intel's RAPL counters tell it (Linux powercap).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// Counts from its making on. Readable by root alone on most systems, and in few virtual machines.
class EnergyWatch {
 public:
  explicit EnergyWatch(const std::filesystem::path& powercap = "/sys/class/powercap");
  // Joules of all packages, what else ran on them included; empty where there is no counter to read. A
  // counter that wrapped once is corrected.
  std::optional<double> joules() const;
  // Why there is none: "/sys/class/powercap has no intel-rapl package". Empty where there is one.
  const std::string& why_not() const { return why_not_; }

 private:
  struct Package {
    std::filesystem::path counter;
    std::int64_t begin = 0, range = 0;  // microjoules
  };
  std::vector<Package> packages_;
  std::string why_not_;
};

}  // namespace assay
