// The profile of a greedy step by differences of its graph: every operation has its nodes and their time, and
// nothing is left behind.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/run/executor.h"
#include "assay/backend/devices.h"
#include "assay/base/error.h"
#include "assay/generate/generator.h"
#include "assay/model/model.h"
#include "support/family_like_plans.h"
#include "support/fixtures.h"
#include "support/outlier_model.h"
#include "support/temporary_folder.h"
#include "support/timed_runtime.h"

namespace assay {
namespace {

using cuda::testing_support::TimedGraph;
using cuda::testing_support::TimedLaunch;
using cuda::testing_support::TimedRuntime;

Model model_of(const std::filesystem::path& folder, const std::shared_ptr<cuda::Runtime>& runtime,
               const char* precision, const CudaOptions& options = {}) {
  return Model::load(std::make_shared<const ModelFolder>(folder),
                     make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime, options),
                     precision_from_name(precision));
}
Model model_on(const std::shared_ptr<cuda::Runtime>& runtime, const char* name, const char* precision,
               const CudaOptions& options = {}) {
  return model_of(test::fixture_model(name), runtime, precision, options);
}

// Sequences of these lengths, and the batch of a token more of each.
struct Sequences {
  Sequences(Program& program, std::vector<std::int64_t> lengths) : cache(program.make_cache()) {
    Batch prompt;
    for (const std::int64_t length : lengths) {
      const int sequence = cache->add_sequence();
      const auto row = static_cast<std::int64_t>(prompt.ids.size());
      prompt.sequences.push_back({.sequence = sequence, .first_row = row, .rows = length});
      for (std::int64_t i = 0; i < length; ++i) {
        prompt.ids.push_back(static_cast<TokenId>((3 + 2 * i) % 10));
        prompt.positions.push_back(static_cast<std::int32_t>(i));
      }
      next.sequences.push_back(
          {.sequence = sequence, .first_row = static_cast<std::int64_t>(next.ids.size()), .rows = 1});
      next.ids.push_back(7);
      next.positions.push_back(static_cast<std::int32_t>(length));
    }
    program.run(prompt, *cache);
  }
  std::unique_ptr<KvCache> cache;
  Batch next;
};

// Some hundred nanoseconds, of every kernel and shape others.
double seconds_of(const TimedLaunch& launch) {
  const std::size_t blocks = launch.shape.grid_x * 31 + launch.shape.grid_y * 7 + launch.shape.grid_z;
  return static_cast<double>(3 + (std::hash<std::string>()(launch.name) + blocks) % 97) * 1e-7;
}
double sum_of(const TimedGraph& graph, std::size_t first, std::size_t count) {
  double sum = 0;
  for (std::size_t i = first; i < first + count; ++i) sum += seconds_of(graph[i]);
  return sum;
}

void expect_exact(const GraphProfile& profile, const Plan& plan, const TimedGraph& step, double of_graph) {
  const GpuNodes nodes = nodes_on_gpu(plan, 1, 256);
  ASSERT_EQ(profile.operations.size(), plan.ops.size() + 1);
  auto at = static_cast<std::size_t>(nodes.of_tables);
  double all = 0;
  for (std::size_t i = 0; i < profile.operations.size(); ++i) {
    SCOPED_TRACE(i < plan.ops.size() ? plan.ops[i].name : "lm_head");
    const GraphProfile::Part& part = profile.operations[i];
    ASSERT_EQ(part.nodes, nodes.of_operations[i]);
    EXPECT_NEAR(part.time.value, sum_of(step, at, static_cast<std::size_t>(part.nodes)), 1e-12);
    at += static_cast<std::size_t>(part.nodes);
    all += part.time.value;
  }
  EXPECT_EQ(profile.choice.nodes, nodes.of_tables + 2);
  EXPECT_NEAR(profile.choice.time.value,
              sum_of(step, 0, static_cast<std::size_t>(nodes.of_tables)) + sum_of(step, at, 2), 1e-12);
  EXPECT_EQ(at + 2, step.size());
  EXPECT_NEAR(profile.step.value, all + profile.choice.time.value + of_graph, 1e-12);
}

// A device whose launches take known times gives back those, whatever a graph itself takes, and though some
// replays are disturbed.
TEST(CudaGraphProfile, IsWhatTheNodesOfEachOperationTake) {
  for (const char* name : {"base", "llama_grouped", "gemma2_capped", "qwen3_heads"})
    for (const char* precision : {"float32", "bfloat16", "int8-dynamic", "nf4", "llm-int8"}) {
      SCOPED_TRACE(std::string(name) + " " + precision);
      const auto runtime = std::make_shared<TimedRuntime>(seconds_of);
      runtime->graph_seconds = 7e-6;
      const Model model = model_on(runtime, name, precision);
      Sequences sequences(model.program(), {5});
      runtime->disturbance = [](int replay) { return replay % 8 == 5 ? 1e-3 : 0; };
      const auto profile = model.program().profile_graph(sequences.next, *sequences.cache);
      ASSERT_TRUE(profile);
      ASSERT_FALSE(runtime->recorded.empty());
      expect_exact(*profile, model.program().plan(), runtime->recorded.front(), runtime->graph_seconds);
    }
}

TEST(CudaGraphProfile, MeasuresEachKernelOfAnOperationOnce) {
  const auto runtime = std::make_shared<TimedRuntime>([](const TimedLaunch&) { return 1e-3; });
  const Model model = model_on(runtime, "llama_grouped", "bfloat16");
  Sequences sequences(model.program(), {5});
  ASSERT_TRUE(model.program().profile_graph(sequences.next, *sequences.cache));
  // Queries, keys and values; attention, its output, gate and up, down; the head; angles; and the choice. The
  // first multiplication has a kernel in front, as no one left the moments of its norm.
  const std::size_t step = runtime->recorded.front().size(), layers = 2;
  for (std::size_t i = 1; i < runtime->recorded.size(); ++i) {
    const std::size_t more = runtime->recorded[i].size() - step;
    EXPECT_TRUE(more == 1 || more == layers) << more;
  }
  EXPECT_LE(runtime->recorded.size() - 1, 14U);
}

TEST(CudaGraphProfile, IsOfStepsThatAreReplayedAlone) {
  for (const CudaOptions& options :
       {CudaOptions{.uses_graphs = false}, CudaOptions{.chooses_tokens = false}}) {
    const auto runtime = std::make_shared<TimedRuntime>(seconds_of);
    const Model model = model_on(runtime, "base", "float32", options);
    Sequences sequences(model.program(), {5});
    EXPECT_FALSE(model.program().profile_graph(sequences.next, *sequences.cache));
    EXPECT_EQ(sequences.cache->length(0), 5);
    model.program().begin_profile();
    EXPECT_FALSE(model.program().profile_graph(sequences.next, *sequences.cache));
  }
}

// The tokens and the share of outliers of a generation of six steps, with a profile in front of it or
// without.
struct Generated {
  std::vector<TokenId> ids;
  double outliers = 0;
  bool operator==(const Generated&) const = default;
};
Generated generated(Program& program, cuda::EmulatedRuntime& runtime,
                    const std::vector<std::int64_t>& lengths, bool profiles) {
  Sequences sequences(program, lengths);
  const std::int64_t allocations = runtime.allocations(), bytes = sequences.cache->bytes().value;
  if (profiles) {
    const auto profile = program.profile_graph(sequences.next, *sequences.cache);
    EXPECT_TRUE(profile && profile->step.value > 0);
    EXPECT_EQ(sequences.cache->length(0), lengths[0]);
    EXPECT_EQ(sequences.cache->bytes().value, bytes);
    EXPECT_EQ(runtime.allocations(), allocations);
  }
  Generated result{.ids = std::vector<TokenId>(6 * lengths.size()), .outliers = program.outlier_share()};
  program.run_greedily(sequences.next, *sequences.cache, 6, result.ids, [] {});
  return result;
}

// Numbers of the repeated step are others; those of the next ones are not, and no kernel leaves its memory. A
// repeat may read early what the launch in front adds to, where the kernels of the format do.
TEST(CudaGraphProfile, LeavesTheModelAsItWas) {
  struct Profiled {
    const char *name, *precision;
    std::vector<std::int64_t> lengths;
  };
  for (const auto& [name, precision, lengths] : {Profiled{"base", "float32", {5}},
                                                 {"base", "bfloat16", {4, 2, 7}},
                                                 {"llama_grouped", "nf4", {5}},
                                                 {"llama_grouped", "int8-dynamic", {5}},
                                                 {"gemma2_capped", "llm-int8", {5}},
                                                 {"phi3_longrope", "bfloat16", {5}}}) {
    SCOPED_TRACE(std::string(name) + " " + precision);
    Generated results[2];
    for (const bool profiles : {false, true}) {
      cuda::EmulatedDevice device;
      device.overlaps_kernels = precision == std::string("float32");
      const std::shared_ptr<cuda::EmulatedRuntime> runtime = cuda::make_emulated_runtime(device);
      const Model model = model_on(runtime, name, precision, {.graph_rounds = 1});
      results[profiles ? 1 : 0] = generated(model.program(), *runtime, lengths, profiles);
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

// Lists of outliers are indices, and how many there were is told later.
TEST(CudaGraphProfile, CountsNoOutliers) {
  const test::TemporaryFolder folder;
  test::plant_outliers(test::fixture_model("base"), folder / "outliers", 20);
  Generated results[2];
  for (const bool profiles : {false, true}) {
    cuda::EmulatedDevice device;
    device.overlaps_kernels = false;
    const std::shared_ptr<cuda::EmulatedRuntime> runtime = cuda::make_emulated_runtime(device);
    const Model model = model_of(folder / "outliers", runtime, "llm-int8", {.graph_rounds = 1});
    results[profiles ? 1 : 0] = generated(model.program(), *runtime, {5}, profiles);
  }
  EXPECT_GT(results[0].outliers, 0);
  EXPECT_EQ(results[0], results[1]);
}

// Attention of a step is one kernel here, whose blocks count each other: over two chunks of keys.
TEST(CudaGraphProfile, LeavesTheCountersOfAttentionAsTheyWere) {
  test::HandWrittenPlan plan = test::written({.name = "qwen3",
                                              .head_dim = 64,
                                              .qk_norm = test::QkNorm::by_head,
                                              .rotary_pairs = 32,
                                              .is_gated = true,
                                              .kv_format = KvFormat::bfloat16});
  plan.plan.context = 600;
  Generated results[2];
  for (const bool profiles : {false, true}) {
    const std::shared_ptr<cuda::EmulatedRuntime> runtime = cuda::make_emulated_runtime();
    const auto backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime, {.graph_rounds = 1});
    const std::unique_ptr<Program> program = backend->prepare(plan.plan, plan);
    results[profiles ? 1 : 0] = generated(*program, *runtime, {270}, profiles);
  }
  EXPECT_EQ(results[0], results[1]);
}

// Its own position is the last of a page, the first of another one, or behind the context.
TEST(CudaGraphProfile, TakesAPositionMoreAndGivesItBack) {
  const auto runtime = std::make_shared<TimedRuntime>(seconds_of);
  const Model model = model_on(runtime, "llama_grouped", "bfloat16");
  Program& program = model.program();
  for (const std::int64_t length : {std::int64_t{63}, std::int64_t{64}, program.plan().context - 1}) {
    Sequences sequences(program, {length});
    const std::int64_t bytes = sequences.cache->bytes().value;
    EXPECT_TRUE(program.profile_graph(sequences.next, *sequences.cache));
    EXPECT_EQ(sequences.cache->length(0), length);
    EXPECT_EQ(sequences.cache->bytes().value, bytes);
  }
  Sequences whole(program, {program.plan().context});
  EXPECT_THROW(program.profile_graph(whole.next, *whole.cache), Error);
  EXPECT_EQ(whole.cache->length(0), program.plan().context);
}

// A kernel that fails leaves neither the position nor a recording that is not ended.
TEST(CudaGraphProfile, LeavesNothingBehindWhereADeviceFails) {
  const std::shared_ptr<cuda::EmulatedRuntime> runtime = cuda::make_emulated_runtime();
  const Model model = model_on(runtime, "base", "float32");
  Sequences sequences(model.program(), {5});
  runtime->fail_next_launch();
  EXPECT_THROW(model.program().profile_graph(sequences.next, *sequences.cache), DeviceFault);
  EXPECT_EQ(sequences.cache->length(0), 5);
}

}  // namespace
}  // namespace assay
