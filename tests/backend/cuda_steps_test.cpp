// Decode steps of the CUDA backend: recorded or not, chosen by the device or not, the bits are the same.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/run/executor.h"
#include "assay/base/error.h"
#include "assay/generate/generator.h"
#include "assay/model/model.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/family_models.h"
#include "support/fixtures.h"

namespace assay {
namespace {

struct SteppedGpu {
  explicit SteppedGpu(const CudaOptions& options = {}, std::int64_t memory_bytes = std::int64_t{1} << 30) {
    cuda::EmulatedDevice device;
    device.facts.memory_bytes = memory_bytes;
    runtime = cuda::make_emulated_runtime(device);
    backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime, options);
  }
  Model model(const char* name, const char* precision = "float32") const {
    return Model::load(std::make_shared<const ModelFolder>(test::fixture_model(name)), backend,
                       precision_from_name(precision));
  }
  std::shared_ptr<cuda::EmulatedRuntime> runtime;
  std::shared_ptr<Backend> backend;
};

constexpr CudaOptions kPlain{.uses_graphs = false, .chooses_tokens = false};

std::vector<std::vector<TokenId>> ids_of(const GenerationTrace& trace) {
  std::vector<std::vector<TokenId>> all;
  for (const SequenceTrace& sequence : trace.sequences) all.push_back(sequence.ids);
  return all;
}

std::vector<std::vector<TokenId>> generated(const SteppedGpu& gpu, const Model& model,
                                            const GenerationOptions& options) {
  return ids_of(generate(*gpu.backend, model.program(), {{1, 2, 3}, {4, 5, 6, 7, 8}}, options));
}

TEST(CudaSteps, GiveTheSameTokensRecordedOrNotAndChosenByTheDeviceOrNot) {
  constexpr std::pair<const char*, const char*> kModels[] = {
      {"base", "float32"}, {"llama_grouped", "nf4"}, {"gemma2_capped", "llm-int8"}};
  for (const auto& [name, precision] : kModels) {
    const GenerationOptions options{.max_new_tokens = 19, .padding = Padding::left};
    const SteppedGpu plain(kPlain);
    const Model reference = plain.model(name, precision);
    const auto want = generated(plain, reference, options);
    EXPECT_EQ(plain.runtime->replays(), 0);
    for (const CudaOptions& how :
         {CudaOptions{.uses_graphs = true, .chooses_tokens = false},
          CudaOptions{.uses_graphs = false, .chooses_tokens = true}, CudaOptions{}}) {
      const SteppedGpu gpu(how);
      const Model model = gpu.model(name, precision);
      EXPECT_EQ(generated(gpu, model, options), want) << name << " " << precision;
      EXPECT_EQ(gpu.runtime->replays() > 0, how.uses_graphs);
    }
  }
}

// What precedes a recorded step is in the device's memory: other sequences, lengths and tokens than when it
// was recorded.
TEST(CudaSteps, AreReplayedForOtherSequencesAndLengths) {
  const SteppedGpu plain(kPlain), gpu;
  const Model reference = plain.model("llama_grouped"), model = gpu.model("llama_grouped");
  const GenerationOptions options{.max_new_tokens = 8};
  for (const std::vector<TokenId>& prompt :
       {std::vector<TokenId>{1, 2, 3}, std::vector<TokenId>(40, 7), {9}}) {
    const std::int64_t before = gpu.runtime->replays();
    EXPECT_EQ(ids_of(generate(*gpu.backend, model.program(), {prompt}, options)),
              ids_of(generate(*plain.backend, reference.program(), {prompt}, options)));
    EXPECT_GE(gpu.runtime->replays() - before, 6);
  }
}

TEST(CudaSteps, HaveTheLogitsOfStepsThatWereNotRecorded) {
  std::vector<std::vector<float>> logits[2];
  int i = 0;
  for (const CudaOptions& how : {kPlain, CudaOptions{}}) {
    const SteppedGpu gpu(how);
    const Model model = gpu.model("phi3_longrope");
    GenerationOptions options{.max_new_tokens = 6};
    options.on_logits = [&](std::size_t, std::span<const float> seen) {
      logits[i].emplace_back(seen.begin(), seen.end());
    };
    generate(*gpu.backend, model.program(), {{1, 2, 3}}, options);
    EXPECT_EQ(gpu.runtime->replays(), how.uses_graphs ? 4 : 0);
    ++i;
  }
  ASSERT_EQ(logits[0].size(), 6U);
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(CudaSteps, CrossPagesAndChunks) {
  const SteppedGpu plain(kPlain), gpu;
  const Model reference = plain.model("bloom_six"), model = gpu.model("bloom_six");
  const std::int64_t context = model.program().plan().context;
  const std::vector<TokenId> prompt(static_cast<std::size_t>(std::min<std::int64_t>(context - 20, 250)), 5);
  const GenerationOptions options{.max_new_tokens = 16};
  EXPECT_EQ(ids_of(generate(*gpu.backend, model.program(), {prompt}, options)),
            ids_of(generate(*plain.backend, reference.program(), {prompt}, options)));
}

// The last step embeds what a next one would begin with, behind the last position that has an embedding.
TEST(CudaSteps, GoToTheEndOfTheContext) {
  const SteppedGpu plain(kPlain), gpu;
  const Model reference = plain.model("base"), model = gpu.model("base");
  const std::vector<TokenId> prompt(static_cast<std::size_t>(model.program().plan().context - 21), 5);
  const GenerationOptions options{.max_new_tokens = 21};
  EXPECT_EQ(ids_of(generate(*gpu.backend, model.program(), {prompt}, options)),
            ids_of(generate(*plain.backend, reference.program(), {prompt}, options)));
}

TEST(CudaSteps, EndWhereASequenceDoes) {
  const SteppedGpu plain(kPlain), gpu;
  const Model reference = plain.model("base"), model = gpu.model("base");
  GenerationOptions options{.max_new_tokens = 20};
  const auto free = generated(plain, reference, options);
  options.end_tokens = {free[0][5]};
  std::vector<TokenId> streamed;
  const OnToken on_token = [&](std::size_t sequence, TokenId id) {
    if (sequence == 0) streamed.push_back(id);
  };
  const GenerationTrace trace =
      generate(*gpu.backend, model.program(), {{1, 2, 3}, {4, 5, 6, 7, 8}}, options, on_token);
  EXPECT_EQ(ids_of(trace), generated(plain, reference, options));
  EXPECT_EQ(trace.sequences[0].stop, StopReason::end_token);
  EXPECT_EQ(streamed, trace.sequences[0].ids);
  EXPECT_EQ(trace.step_end.size(), trace.decode.size() + 1);
  for (std::size_t i = 1; i < trace.step_end.size(); ++i) EXPECT_GE(trace.step_end[i], trace.step_end[i - 1]);
}

TEST(CudaSteps, ProfileEachOperationWhereStepsAreRecorded) {
  const SteppedGpu gpu;
  const Model model = gpu.model("base");
  model.program().begin_profile();
  generate(*gpu.backend, model.program(), {{1, 2, 3}}, {.max_new_tokens = 4});
  const StepProfile profile = model.program().end_profile();
  ASSERT_EQ(profile.operations.size(), model.program().plan().ops.size() + 1);
  double all = 0, by_phase = 0;
  for (const Seconds time : profile.operations) {
    EXPECT_GT(time.value, 0);
    all += time.value;
  }
  for (const StepProfile::Part& part : profile.parts) by_phase += part.time.value;
  EXPECT_NEAR(all, by_phase, 1e-9);
  EXPECT_EQ(gpu.runtime->replays(), 0);  // steps that are timed by operation run one by one, and are recorded
  generate(*gpu.backend, model.program(), {{1, 2, 3}}, {.max_new_tokens = 4});
  EXPECT_GE(gpu.runtime->replays(), 2);
}

TEST(CudaSteps, ShareARecordingUpToALength) {
  using cuda::recorded_length;
  EXPECT_EQ(recorded_length(1, 4096), 256);
  EXPECT_EQ(recorded_length(256, 4096), 256);
  EXPECT_EQ(recorded_length(257, 4096), 512);
  EXPECT_EQ(recorded_length(769, 4096), 1024);
  EXPECT_EQ(recorded_length(1025, 4096), 1536);
  EXPECT_EQ(recorded_length(2049, 4096), 3072);
  EXPECT_EQ(recorded_length(3073, 4096), 4096);
  EXPECT_EQ(recorded_length(2049, 2100), 2304);
}

TEST(CudaMemory, IsOneAllocationEachOfWhatWasPredicted) {
  const SteppedGpu gpu;
  const Model model = gpu.model("llama_grouped");
  Program& program = model.program();
  EXPECT_EQ(gpu.runtime->allocations(), 2);  // weights, workspace
  const auto new_tokens = std::int64_t{70};
  const PredictedMemory predicted = gpu.backend->predict(program.plan(), 3 + new_tokens - 1);
  gpu.backend->reset_peak_memory();
  generate(*gpu.backend, program, {{1, 2, 3}, {4, 5, 6}}, {.max_new_tokens = new_tokens});
  EXPECT_EQ(gpu.runtime->allocations(), 3);  // and one for all pages
  const MemoryReport& own = predicted.program;
  EXPECT_EQ(gpu.backend->memory()->peak.value,
            (own.weights + own.packing + own.workspace).value + 2 * predicted.kv_cache.value);
  program.trim();
  EXPECT_EQ(gpu.runtime->allocations(), 2);
}

TEST(CudaMemory, GrowsInLargeStepsWhereNothingIsReserved) {
  const std::shared_ptr<cuda::EmulatedRuntime> runtime = cuda::make_emulated_runtime();
  const cuda::CacheLayout layout{cuda::CacheFormat::float32, 1, 1, 64};
  cuda::PagePool pool(runtime, layout);
  std::vector<cuda::PagePool::Page> pages;
  for (int i = 0; i < 64; ++i) pages.push_back(pool.take());
  EXPECT_EQ(runtime->allocations(), 7);  // 1, 1, 2, 4, 8, 16, 32
  EXPECT_EQ(runtime->live_bytes(), 64 * layout.page_bytes());
  for (std::size_t i = 0; i < pages.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_GE(std::abs(pages[i].address - pages[j].address), layout.page_bytes());
  pool.trim();
  EXPECT_EQ(runtime->allocations(), 7);
  for (std::size_t i = 32; i < 64; ++i) pool.give_back(pages[i]);
  pool.trim();
  EXPECT_EQ(runtime->live_bytes(), 32 * layout.page_bytes());
  pool.reserve(3);
  EXPECT_EQ(runtime->live_bytes(), 35 * layout.page_bytes());
  pool.reserve(2);
  EXPECT_EQ(runtime->live_bytes(), 35 * layout.page_bytes());
}

TEST(CudaMemory, SaysBeforeAGenerationThatItIsTooSmall) {
  const SteppedGpu measured;
  const std::int64_t taken = [&] {
    const Model model = measured.model("llama_grouped");
    return measured.runtime->live_bytes();
  }();
  const SteppedGpu gpu({}, taken + 100'000);
  const Model model = gpu.model("llama_grouped");
  const std::vector<std::vector<TokenId>> prompts(40, {1, 2, 3});
  try {
    generate(*gpu.backend, model.program(), prompts, {.max_new_tokens = 80});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not enough GPU memory for the keys and values of 40 sequences"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(ids_of(generate(*gpu.backend, model.program(), {{1, 2, 3}}, {.max_new_tokens = 2}))[0].size(),
            2U);
}

TEST(CudaFault, IsAnErrorOfItsOwnFromThenOn) {
  const SteppedGpu gpu;
  const Model model = gpu.model("base");
  gpu.runtime->fail_next_launch();
  EXPECT_THROW(generate(*gpu.backend, model.program(), {{1, 2, 3}}, {.max_new_tokens = 2}), DeviceFault);
  EXPECT_THROW(gpu.backend->synchronize(), DeviceFault);
}

}  // namespace
}  // namespace assay
