// What was measured of launches, kept between processes.
#include <algorithm>
#include <filesystem>

#include "assay/backend/common/kept_tuning.h"
#include "assay/backend/cuda/run/launch_tuning.h"
#include "assay/backend/devices.h"
#include "assay/base/error.h"
#include "assay/base/file.h"

namespace assay::cuda {

namespace {

constexpr std::size_t kMaxDevices = 32, kMaxLaunchesOfDevice = 2048, kMaxLaunchValues = 1 << 15;
constexpr double kHighestLaunchGain = 1000;
// Raised when kernels or candidates change so that what was measured says nothing of them.
constexpr int kLaunchRevision = 4;
// Another process measures for no longer.
constexpr Seconds kLaunchPatience{10};

std::optional<MeasuredChoice> measured_choice(const Json& json) {
  MeasuredChoice read;
  bool has_gain = false;
  if (!json.is_object()) return std::nullopt;
  for (const auto& [name, value] : json.items()) {
    if (name == "gain" && value.is_number()) {
      read.gain = value.get<double>();
      has_gain = true;
    } else if (name == "is_measured" && value.is_boolean()) {
      read.is_measured = value.get<bool>();
    } else if (!value.is_string() || !set_by_name(read.choice, name, value.get<std::string>())) {
      return std::nullopt;
    }
  }
  if (!has_gain || !(read.gain >= 1 && read.gain <= kHighestLaunchGain)) return std::nullopt;
  return read;
}

Json json_of_choice(const MeasuredChoice& one) {
  Json json = {{"gain", one.gain}};
  if (!one.is_measured) json["is_measured"] = false;
  for (const auto& [name, value] : names_of(one.choice)) json[std::string(name)] = std::string(value);
  return json;
}

void put_all(const LaunchChoices& from, LaunchChoices& to) {
  for (const auto& [key, one] : from.all()) to.put(key, one);
}

std::vector<ProductKey> missing_keys(std::span<const ProductKey> wanted, const LaunchChoices& known) {
  std::vector<ProductKey> missing;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(missing),
               [&](const ProductKey& key) { return !known.knows(key); });
  return missing;
}

}  // namespace

std::string launch_tuning_file() {
  return tuning_file_named("launches.json");
}

std::string launch_tuning_key(const DeviceFacts& facts, std::string_view version) {
  return fmt::format("{}, sm_{}{}, {} SMs, driver {}, assay {}, launches {}", facts.name, facts.major,
                     facts.minor, facts.processors, facts.driver, version, kLaunchRevision);
}

LaunchChoices launches_in(std::string_view text, const std::string& device,
                          std::span<const ProductKey> wanted) {
  LaunchChoices found;
  const Json entries = entries_of_tuning(text, kMaxLaunchValues);
  const auto of_device = entries.find(device);
  if (of_device == entries.end() || !of_device->is_object()) return found;
  for (const ProductKey& key : wanted)
    if (const auto at = of_device->find(text_of(key)); at != of_device->end())
      if (const auto read = measured_choice(*at)) found.put(key, *read);
  return found;
}

std::vector<KeptLaunch> kept_launches(std::string_view text, const std::string& device) {
  std::vector<KeptLaunch> kept;
  const Json entries = entries_of_tuning(text, kMaxLaunchValues);
  const auto of_device = entries.find(device);
  if (of_device == entries.end() || !of_device->is_object()) return kept;
  for (const auto& [product, value] : of_device->items())
    if (const auto read = measured_choice(value); read && read->is_measured) kept.push_back({product, *read});
  return kept;
}

std::vector<KeptLaunch> kept_launches_of(const DeviceFacts& facts) {
  return kept_launches(text_of_tuning_file(launch_tuning_file()), launch_tuning_key(facts, ASSAY_VERSION));
}

std::string with_launches(std::string_view text, const std::string& device, const LaunchChoices& choices) {
  Json entries = entries_of_tuning(text, kMaxLaunchValues);
  if (entries.size() >= kMaxDevices && !entries.contains(device)) entries = Json::object();
  Json& of_device = entries[device];
  if (!of_device.is_object() || of_device.size() + choices.all().size() > kMaxLaunchesOfDevice)
    of_device = Json::object();
  for (const auto& [key, one] : choices.all()) of_device[text_of(key)] = json_of_choice(one);
  return entries.dump(1) + "\n";
}

void find_launches(Tune tune, const DeviceFacts& facts, std::span<const ProductKey> wanted,
                   const std::function<LaunchChoices(std::span<const ProductKey> missing)>& measure,
                   LaunchChoices& known) {
  if (tune == Tune::off) return;
  const std::string file = launch_tuning_file(), device = launch_tuning_key(facts, ASSAY_VERSION);
  std::vector<ProductKey> missing = missing_keys(wanted, known);
  const auto read = [&] {
    if (tune == Tune::once) put_all(launches_in(text_of_tuning_file(file), device, missing), known);
    missing = missing_keys(wanted, known);
  };
  read();
  if (missing.empty()) return;
  const auto lock = lock_to_measure(file, kLaunchPatience);
  if (lock == nullptr) return;
  read();  // another process may just have measured it
  if (missing.empty()) return;
  const LaunchChoices measured = measure(missing);
  put_all(measured, known);
  try {
    write_file_atomically(file, with_launches(text_of_tuning_file(file), device, measured));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): measured again next time
  }
}

}  // namespace assay::cuda

namespace assay {

void forget_launch_tuning() {
  const std::string file = cuda::launch_tuning_file();
  std::error_code ignored;
  if (const auto lock = lock_to_measure(file, cuda::kLaunchPatience)) std::filesystem::remove(file, ignored);
}

}  // namespace assay
