// What loading takes at its peak, beside what it was predicted to take.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "assay/generate/steps.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/session/calibrate.h"
#include "assay/session/fitting_context.h"
#include "support/family_models.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

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

// What inspect says of a context: weights, workspace, keys and values.
TEST(Memory, AContextTakesWhatWasPredicted) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  if (anonymous_bytes() < 0) GTEST_SKIP() << "this system does not tell anonymous memory apart";
  for (const char* precision : {"float32", "bfloat16", "int8-dynamic", "nf4"}) {
    const auto folder = std::make_shared<const ModelFolder>(test::demo_model());
    const auto backend = test::cpu_backend(best_usable_isa(), 1);
    const std::int64_t before = anonymous_bytes();
    const Model model = Model::load(folder, backend, precision_from_name(precision));
    const Plan& plan = model.program().plan();
    const FittingContext fitting = fitting_context(*backend, plan, {std::int64_t{1} << 40});
    EXPECT_EQ(fitting.tokens, plan.context);
    const auto cache = model.program().make_cache();
    std::vector<TokenId> ids(static_cast<std::size_t>(plan.context));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i % 500);
    const StepItem item{cache->add_sequence(), ids};
    run_in_steps(model.program(), *cache, std::span(&item, 1), [](std::span<const StepPart>) {});
    EXPECT_NEAR(static_cast<double>(anonymous_bytes() - before), static_cast<double>(fitting.needed.value),
                0.05 * static_cast<double>(fitting.needed.value))
        << precision;
  }
}

// The demo model's file has 17 MB, so a copy of the whole that is kept too long would show.
TEST(Memory, LoadingTakesTheWeightsTheWorkspaceAndLittleMore) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer keeps memory of its own";
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

// Padding, workspace and the type of scales included, for every precision and family.
TEST(Memory, IsWhatWasPredicted) {
  std::vector<std::string> models(std::begin(test::kFamilyModels), std::end(test::kFamilyModels));
  models.insert(models.end(), {"base", "llama_grouped", "bf16", "f16"});
  const auto backend = test::cpu_backend(best_usable_isa(), 2);
  for (const std::string& name : models)
    for (const std::string& precision : precision_names()) {
      SCOPED_TRACE(name + " " + precision);
      const auto folder = std::make_shared<const ModelFolder>(test::fixture_model(name));
      const Precision resolved = resolve_dtype(precision, Device{}).precision;
      const ModelSpec spec = spec_from_source(*folder);
      const Plan plan = plan_forward(spec, resolved);
      Calibration calibration;
      if (resolved.needs_calibration())
        calibration = calibrate(folder, backend, resolved, std::vector<TokenId>(40, 1));
      const MemoryReport predicted = backend->predict(plan, spec.context).program,
                         real = Model::load(folder, backend, resolved, calibration).program().memory();
      EXPECT_EQ(predicted.weights.value, real.weights.value);
      EXPECT_EQ(predicted.packing.value, real.packing.value);
      EXPECT_EQ(predicted.workspace.value, real.workspace.value);
      EXPECT_GE(real.packing.value, 0);
    }
}

// Scales of blocks in bfloat16 take half of those in float32, where the file's weights are bfloat16.
TEST(Memory, CountsScalesAsTheyAreHeld) {
  const auto scales_of = [](const char* name) {
    const auto folder = std::make_shared<const ModelFolder>(test::fixture_model(name));
    const Model model =
        Model::load(folder, test::cpu_backend(best_usable_isa(), 2), precision_from_name("nf4"));
    std::int64_t elements = 0, others = 0;
    for (const WeightSpec& w : model.program().plan().weights)
      if (is_four_bit(w.format))
        elements += w.elements();
      else
        others += stored_bytes(w).value;
    const double scales = static_cast<double>(model.program().memory().weights.value - others) -
                          static_cast<double>(elements) / 2;
    return scales / static_cast<double>(elements) * 64;
  };
  EXPECT_NEAR(scales_of("base"), 4, 0.1);
  EXPECT_NEAR(scales_of("bf16"), 2, 0.1);
}

// A context of 32,768 tokens takes its keys and values: nothing else grows with it.
TEST(Memory, OfALongContextIsItsCache) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  if (anonymous_bytes() < 0) GTEST_SKIP() << "this system does not tell anonymous memory apart";
  test::TemporaryFolder folder;
  test::TinyModel model = test::tiny_llama();
  const auto backend = test::cpu_backend(best_usable_isa(), 2);
  std::int64_t workspace = 0;
  for (const std::int64_t context : {64, 32'768}) {
    model.config["max_position_embeddings"] = context;
    model.write(folder.path());
    const auto at = std::make_shared<const ModelFolder>(folder.path());
    for (const char* precision : {"float32", "bfloat16"}) {
      const std::unique_ptr<Model> loaded =
          std::make_unique<Model>(Model::load(at, backend, precision_from_name(precision)));
      Program& program = loaded->program();
      if (std::string_view(precision) == "float32") {
        if (workspace == 0) workspace = program.memory().workspace.value;
        EXPECT_EQ(program.memory().workspace.value, workspace);
      }
      const std::vector<TokenId> ids(static_cast<std::size_t>(context), 3);
      const auto run = [&] {
        const auto cache = program.make_cache();
        const StepItem item{.sequence = cache->add_sequence(), .ids = ids, .wanted = context - 1};
        run_in_steps(program, *cache, std::span(&item, 1), [](std::span<const StepPart>) {});
        return cache->bytes().value;
      };
      const PeakOfAnonymousMemory peak;
      const std::int64_t cache = run();
      constexpr std::int64_t kSlack = std::int64_t{3} << 20;  // the activations, when they are first touched
      EXPECT_LE(peak.bytes(), cache + kSlack) << context << " " << precision;
    }
  }
}

}  // namespace
}  // namespace assay
