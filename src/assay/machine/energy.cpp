#include "assay/machine/energy.h"

#include <fstream>

#include "assay/base/format.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

std::optional<std::int64_t> number_in(const fs::path& file) {
  std::int64_t number = 0;
  std::ifstream stream(file);
  if (!(stream >> number) || number < 0) return std::nullopt;
  return number;
}

// "intel-rapl:0"; a core or memory domain in it is "intel-rapl:0:1" and counted by its package.
bool is_package(const std::string& name) {
  constexpr std::string_view kHead = "intel-rapl:";
  return name.starts_with(kHead) && name.find(':', kHead.size()) == std::string::npos;
}

}  // namespace

EnergyWatch::EnergyWatch(const fs::path& powercap) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(powercap, code)) {
    if (!is_package(entry.path().filename().string())) continue;
    const fs::path counter = entry.path() / "energy_uj";
    const auto begin = number_in(counter);
    if (!begin) {
      why_not_ = fmt::format("{} cannot be read", counter.string());
      packages_.clear();
      return;
    }
    packages_.push_back({counter, *begin, number_in(entry.path() / "max_energy_range_uj").value_or(0)});
  }
  if (packages_.empty()) why_not_ = fmt::format("{} has no intel-rapl package", powercap.string());
}

std::optional<double> EnergyWatch::joules() const {
  if (packages_.empty()) return std::nullopt;
  double all = 0;
  for (const Package& package : packages_) {
    const auto now = number_in(package.counter);
    if (!now) return std::nullopt;
    all += 1e-6 * static_cast<double>(*now - package.begin + (*now < package.begin ? package.range : 0));
  }
  return all;
}

}  // namespace assay
