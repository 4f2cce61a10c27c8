// What loading takes at its peak, beside what it was predicted to take.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

// Anonymous memory of this process in bytes: pages of files are apart.
std::int64_t anonymous_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  return -1;
}

// The largest while one lives.
class PeakOfAnonymousMemory {
 public:
  PeakOfAnonymousMemory() : before_(anonymous_bytes()), peak_(before_), watcher_([this] { watch(); }) {}
  ~PeakOfAnonymousMemory() {
    stop_ = true;
    watcher_.join();
  }
  PeakOfAnonymousMemory(const PeakOfAnonymousMemory&) = delete;
  PeakOfAnonymousMemory& operator=(const PeakOfAnonymousMemory&) = delete;
  std::int64_t bytes() const { return std::max<std::int64_t>(peak_, anonymous_bytes()) - before_; }

 private:
  void watch() {
    while (!stop_) {
      peak_ = std::max<std::int64_t>(peak_, anonymous_bytes());
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  std::int64_t before_;
  std::atomic<std::int64_t> peak_;
  std::atomic<bool> stop_{false};
  std::thread watcher_;
};

// The demo model's file has 17 MB, so a copy of the whole that is kept too long would show.
TEST(Memory, LoadingTakesTheWeightsTheWorkspaceAndLittleMore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps memory of its own";
#endif
  if (anonymous_bytes() < 0) GTEST_SKIP() << "this system does not tell anonymous memory apart";
  constexpr std::int64_t kSlack = std::int64_t{12} << 20;  // slabs of two threads, huge pages in part
  for (const char* precision : {"float32", "bfloat16", "int8-dynamic", "nf4"}) {
    const auto folder = std::make_shared<const ModelFolder>(test::demo_model());
    const auto backend = test::cpu_backend(best_usable_isa(), 2);
    const PeakOfAnonymousMemory peak;
    const Model model = Model::load(folder, backend, precision_from_name(precision));
    const MemoryReport report = model.program().memory();
    const std::int64_t predicted = report.weights.value + report.packing.value + report.workspace.value;
    EXPECT_LE(peak.bytes(), predicted + kSlack) << precision;
    EXPECT_GE(peak.bytes(), report.weights.value / 2) << precision << ": the watch saw nothing";
  }
}

}  // namespace
}  // namespace assay
