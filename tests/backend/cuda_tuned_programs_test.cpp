// Programs whose launches were tuned: the bits of those that were not, at any choice; what --cuda-gemm auto
// takes then; and that nothing of it happens while something is timed.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/run/launch_tuning.h"
#include "assay/model/model.h"
#include "assay/session/load.h"
#include "support/fixtures.h"
#include "support/prompt_batch.h"
#include "support/temporary_folder.h"
#include "support/watched_runtime.h"

namespace assay::cuda {
namespace {

using testing_support::WatchedRuntime;

// The candidate of a number is the fastest of each product, where there are so many; else the last.
class TimerThatPrefers : public LaunchTimer {
 public:
  explicit TimerThatPrefers(std::size_t nth) : nth_(nth) {}
  Seconds now() override { return {0}; }
  Seconds time_of(const TunedProduct& product, const LaunchChoice& choice) override {
    products.insert(text_of(product.key));
    most = std::max(most, product.candidates.size());
    launches = std::max(launches, product.launches.size());
    return {choice == product.candidates[std::min(nth_, product.candidates.size() - 1)] ? 1.0 : 2.0};
  }
  std::set<std::string> products;
  std::size_t most = 0, launches = 0;

 private:
  std::size_t nth_;
};

class TimerThatPrefersKernel : public LaunchTimer {
 public:
  explicit TimerThatPrefersKernel(GemmKernel kernel) : kernel_(static_cast<std::int8_t>(kernel)) {}
  Seconds now() override { return {0}; }
  Seconds time_of(const TunedProduct&, const LaunchChoice& choice) override {
    return {choice.kernel == kernel_ ? 1.0 : 2.0};
  }

 private:
  std::int8_t kernel_;
};

class CudaTunedPrograms : public testing::Test {
 protected:
  CudaTunedPrograms() { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~CudaTunedPrograms() override { unsetenv("XDG_CACHE_HOME"); }

  static EmulatedDevice device() {
    EmulatedDevice device;
    device.facts.processors = 2;      // so that strips are many
    device.facts.l2_bytes = 4 << 10;  // and few launches read more than it holds
    return device;
  }
  struct Loaded {
    std::shared_ptr<WatchedRuntime> runtime = std::make_shared<WatchedRuntime>(device());
    std::shared_ptr<Backend> backend;
    std::unique_ptr<Model> model;
  };
  static Loaded load(const char* name, const Precision& precision, const CudaOptions& options) {
    Loaded loaded;
    loaded.backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, loaded.runtime, options);
    loaded.model = std::make_unique<Model>(Model::load(
        std::make_shared<const ModelFolder>(test::fixture_model(name)), loaded.backend, precision));
    return loaded;
  }
  // Those of a prompt of many rows in several sequences, and of steps behind it, one of them greedy.
  static std::vector<float> logits_of(const Loaded& loaded, std::int64_t sequences = 2) {
    Program& program = loaded.model->program();
    const auto cache = program.make_cache();
    constexpr std::int64_t kLength = 40;
    const auto [batch, rows] = test::prompt_batch(*cache, sequences, kLength, program.plan().vocab);
    std::vector<float> all;
    const auto run = [&](const Batch& one, std::span<const std::int64_t> of) {
      program.run(one, *cache);
      std::vector<float> logits(of.size() * static_cast<std::size_t>(program.plan().vocab));
      program.head(of, LogitsSink{logits});
      all.insert(all.end(), logits.begin(), logits.end());
    };
    run(batch, rows);
    for (const int first : {1, 0}) {  // one sequence, and all of them
      Batch step;
      std::vector<std::int64_t> of;
      for (std::int64_t i = first; i < sequences; ++i) {
        step.sequences.push_back({.sequence = batch.sequences[static_cast<std::size_t>(i)].sequence,
                                  .first_row = i - first,
                                  .rows = 1});
        step.ids.push_back(static_cast<TokenId>(i + 2));
        step.positions.push_back(
            static_cast<std::int32_t>(cache->length(batch.sequences[static_cast<std::size_t>(i)].sequence)));
        of.push_back(i - first);
      }
      run(step, of);
      if (first > 0) continue;
      for (std::size_t i = 0; i < step.positions.size(); ++i) ++step.positions[i];
      std::vector<TokenId> chosen(step.ids.size());
      program.run_greedily(step, *cache, 1, chosen, [] {});
      for (const TokenId id : chosen) all.push_back(static_cast<float>(id));
    }
    return all;
  }
  static Precision named(const char* name) {
    Precision precision = precision_from_name(name);
    if (precision.is_quantized()) set_dtype(precision, DType::bf16);
    return precision;
  }

  test::TemporaryFolder folder_;
};

TEST_F(CudaTunedPrograms, HaveTheBitsOfUsualLaunches) {
  for (const char* precision : {"bfloat16", "int8-dynamic", "nf4"})
    for (const char* name : {"base", "llama_grouped"}) {
      const Loaded usual = load(name, named(precision), {});
      const std::vector<float> wanted = logits_of(usual);
      const std::vector<std::string> usual_launches = usual.runtime->take_launches();
      for (const std::size_t nth : {1U, 2U, 3U}) {
        SCOPED_TRACE(std::string(name) + ", " + precision + ", candidate " + std::to_string(nth));
        TimerThatPrefers timer(nth);
        const Loaded tuned = load(name, named(precision), {.tune = Tune::force, .timer = &timer});
        tuned.model->program().tune();
        EXPECT_GE(timer.products.size(), 4U);
        EXPECT_GE(timer.launches, 2U) << "no matrix is measured alone: a cache would hold it";
        tuned.runtime->take_launches();
        EXPECT_EQ(logits_of(tuned), wanted);
        EXPECT_NE(tuned.runtime->take_launches(), usual_launches);
        EXPECT_NE(tuned.backend->tuning().find("not as usual"), std::string::npos) << tuned.backend->tuning();
      }
      EXPECT_EQ(usual.backend->tuning(), "");
    }
}

// As Program::tune() is without a test's timer: by graphs and events of the device.
TEST_F(CudaTunedPrograms, AreMeasuredByGraphsAndLeaveNothing) {
  const Loaded usual = load("base", named("int8-dynamic"), {}),
               tuned = load("base", named("int8-dynamic"), {.tune = Tune::once});
  const std::int64_t before = tuned.runtime->inner().live_bytes();
  tuned.model->program().tune();
  EXPECT_GT(tuned.runtime->inner().replays(), 0);
  EXPECT_EQ(tuned.runtime->inner().live_bytes(), before);
  EXPECT_EQ(tuned.runtime->memory_info().peak.value, before) << "copies count in no peak that is reported";
  EXPECT_EQ(logits_of(tuned), logits_of(usual));
  EXPECT_EQ(tuned.model->program().outlier_share(), 0);
}

TEST_F(CudaTunedPrograms, TakeForAutoTheKernelThatWasFaster) {
  for (const GemmKernel kernel : {GemmKernel::own, GemmKernel::warpgroups, GemmKernel::cublaslt}) {
    SCOPED_TRACE(static_cast<int>(kernel));
    TimerThatPrefersKernel timer(kernel);
    const CudaOptions automatic{.gemm = CudaGemm::automatic, .tune = Tune::force, .timer = &timer},
        forced{.gemm = CudaGemm::automatic, .forced_gemm = kernel};
    const Loaded tuned = load("base", named("bfloat16"), automatic),
                 wanted = load("base", named("bfloat16"), forced);
    tuned.model->program().tune();
    tuned.runtime->take_launches();
    const std::vector<float> got = logits_of(tuned, 4);
    EXPECT_EQ(got, logits_of(wanted, 4));
    EXPECT_EQ(tuned.runtime->take_launches(), wanted.runtime->take_launches());
    EXPECT_EQ(tuned.runtime->inner().products() > 0, kernel == GemmKernel::cublaslt);
  }
}

// A second process of an experiment has the first one's kernels, whatever it would have measured itself.
TEST_F(CudaTunedPrograms, TakeWhatTheFirstProcessFound) {
  TimerThatPrefersKernel first(GemmKernel::own), second(GemmKernel::cublaslt);
  const auto launches = [&](LaunchTimer& timer) {
    const Loaded loaded =
        load("base", named("bfloat16"), {.gemm = CudaGemm::automatic, .tune = Tune::once, .timer = &timer});
    loaded.model->program().tune();
    loaded.runtime->take_launches();
    logits_of(loaded, 4);
    return loaded.runtime->take_launches();
  };
  const std::vector<std::string> of_first = launches(first);
  EXPECT_EQ(launches(second), of_first);
  std::filesystem::remove_all(folder_ / "assay");
  EXPECT_NE(launches(second), of_first);
}

// Loading tells its time before tuning begins, and no step tunes.
TEST_F(CudaTunedPrograms, AreNotTunedWhileTheyRun) {
  TimerThatPrefers timer(1);
  const Loaded loaded = load("base", named("bfloat16"), {.tune = Tune::force, .timer = &timer});
  EXPECT_TRUE(timer.products.empty()) << "while it is loaded, which is timed";
  logits_of(loaded);
  EXPECT_TRUE(timer.products.empty());
  EXPECT_EQ(loaded.backend->tuning(), "");
  loaded.model->program().tune();
  EXPECT_FALSE(timer.products.empty());
  timer.products.clear();
  logits_of(loaded);
  loaded.model->program().tune();
  EXPECT_TRUE(timer.products.empty()) << "all is known";
}

TEST_F(CudaTunedPrograms, AreTunedByWhoeverLoadsThem) {
  TimerThatPrefers timer(1);
  const auto runtime = std::make_shared<WatchedRuntime>(device());
  const auto backend =
      make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime, {.tune = Tune::once, .timer = &timer});
  const LoadedModel loaded =
      load_model_and_tokenizer({test::model_fixture("base")}, {.precision = Preset::bfloat16},
                               {.shared_backend = backend, .needs_tokenizer = false});
  EXPECT_FALSE(timer.products.empty());
  EXPECT_NE(loaded.model->backend().tuning(), "");
}

}  // namespace
}  // namespace assay::cuda
