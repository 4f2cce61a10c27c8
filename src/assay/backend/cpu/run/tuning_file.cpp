// What was measured, kept between processes.
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>

#include "assay/backend/common/kept_tuning.h"
#include "assay/backend/cpu/kernels/select.h"
#include "assay/backend/cpu/run/tuning.h"
#include "assay/backend/devices.h"
#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/json.h"
#include "assay/base/process.h"

namespace assay::cpu {

namespace {

constexpr std::size_t kMaxEntries = 256;
constexpr std::int64_t kNearest = 64, kFurthest = std::int64_t{1} << 16;

constexpr double kHighestGain = 100;

std::string key_of(Isa isa, int threads) {
  return tuning_key(cpu_info(), ASSAY_VERSION, isa, threads);
}

// So that what was held to measure counts in no peak of memory that is reported (proc(5), clear_refs).
void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace

std::string tuning_key(const CpuInfo& cpu, std::string_view version, Isa isa, int threads) {
  return fmt::format("{}, microcode {}, {}, {} thread{}, assay {}", cpu.model, cpu.microcode, name_of(isa),
                     threads, threads == 1 ? "" : "s", version);
}

std::string tuning_file() {
  return tuning_file_named("tuning.json");
}

std::optional<Tuning> kept_tuning(const std::string& file, Isa isa, int threads) {
  if (file.empty()) return std::nullopt;
  return tuning_in(text_of_tuning_file(file), key_of(isa, threads));
}

std::optional<Tuning> tuning_in(std::string_view text, const std::string& key) {
  const Json entries = entries_of_tuning(text, 16 * kMaxEntries);
  const auto found = entries.find(key);
  if (found == entries.end() || !found->is_object()) return std::nullopt;
  try {
    const JsonView entry(*found, "");
    const auto fetch = [&](const std::string& name) {
      return WeightFetch{.distance = entry.integer(name + "_distance", kNearest, kFurthest),
                         .most = entry.integer(name + "_most", kNearest, kFurthest),
                         .is_to_second_level = entry.integer(name + "_level", 1, 2) == 2};
    };
    Tuning tuning{.constants = {.fetch = fetch("fetch"),
                                .grouped_fetch = fetch("grouped_fetch"),
                                .share_rows = entry.integer("share_rows", kMinShareRows, kMaxRows)},
                  .gain = entry.number("gain"),
                  .grouped_gain = entry.number("grouped_gain"),
                  .many_rows_gain = entry.number("many_rows_gain"),
                  .is_measured = true};
    for (const double gain : {tuning.gain, tuning.grouped_gain, tuning.many_rows_gain})
      if (!(gain >= 1 && gain <= kHighestGain)) return std::nullopt;
    return tuning;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void keep_tuning(const std::string& file, Isa isa, int threads, const Tuning& tuning) {
  if (file.empty()) return;
  try {
    const std::string folder = std::filesystem::path(file).parent_path().string();
    std::filesystem::create_directories(folder);
    const FolderLock lock(folder);  // another process may add its own
    write_file_atomically(file, with_tuning(text_of_tuning_file(file), key_of(isa, threads), tuning));
  } catch (const std::exception&) {  // measured again next time
  }
}

std::string with_tuning(std::string_view text, const std::string& key, const Tuning& tuning) {
  Json entries = entries_of_tuning(text, 16 * kMaxEntries);
  if (entries.size() >= kMaxEntries) entries = Json::object();
  Json entry = {{"share_rows", tuning.constants.share_rows},
                {"gain", tuning.gain},
                {"grouped_gain", tuning.grouped_gain},
                {"many_rows_gain", tuning.many_rows_gain}};
  const auto add = [&](const std::string& name, const WeightFetch& fetch) {
    entry[name + "_distance"] = fetch.distance;
    entry[name + "_most"] = fetch.most;
    entry[name + "_level"] = fetch.is_to_second_level ? 2 : 1;
  };
  add("fetch", tuning.constants.fetch);
  add("grouped_fetch", tuning.constants.grouped_fetch);
  entries[key] = std::move(entry);
  return entries.dump(1) + "\n";
}

Tuning find_tuning(Tune tune, Isa isa, const KernelTable& table, ThreadPool& pool) {
  static std::mutex mutex;
  struct Known {
    Tuning tuning;
    bool is_of_this_process = false;  // measured, or tried to
  };
  static std::map<std::string, Known> known;
  if (tune == Tune::off || isa == Isa::scalar) return {.constants = usual_constants()};
  const std::lock_guard lock(mutex);
  const std::string key = key_of(isa, pool.size()), file = tuning_file();
  const auto at = known.find(key);
  std::optional<Tuning> tuning;
  if (at != known.end() && (tune == Tune::once || at->second.is_of_this_process)) {
    tuning = at->second.tuning;
  } else {
    bool is_of_this_process = false;
    if (tune == Tune::once) tuning = kept_tuning(file, isa, pool.size());
    // Where it cannot be kept, or another process measures just now, each process would find another answer.
    std::unique_ptr<FolderLock> measuring;
    if (!tuning && tune == Tune::once && (measuring = lock_to_measure(file, {0})) == nullptr)
      tuning = Tuning{.constants = usual_constants()};
    if (!tuning) {
      tuning = measure_tuning(table, pool);
      measuring.reset();  // which keep_tuning takes for itself
      forget_peak();
      is_of_this_process = true;
      if (tuning->is_measured) keep_tuning(file, isa, pool.size(), *tuning);
    }
    known[key] = {*tuning, is_of_this_process};
  }
  return *tuning;
}

}  // namespace assay::cpu

namespace assay {

Tuning tuning_of_processor(Tune tune, int threads) {
  ThreadPool pool(threads);
  const Isa isa = best_usable_isa();
  return cpu::find_tuning(tune, isa, cpu::select_kernels(isa), pool);
}

}  // namespace assay
