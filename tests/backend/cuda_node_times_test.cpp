// Launches that are repeated in a recording, and the times that differences of graphs give them.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "assay/backend/cuda/run/node_times.h"
#include "assay/backend/cuda/run/recording.h"
#include "assay/base/format.h"
#include "support/timed_runtime.h"

namespace assay::cuda {
namespace {

using testing_support::TimedGraph;
using testing_support::TimedLaunch;
using testing_support::TimedRuntime;

struct Numbered {
  std::int32_t number = 0;
};
void nothing_of(Numbered) {}
void nothing_else_of(Numbered) {}
constexpr Kernel<Numbered> kOne{.name = "one", .entry = nothing_of},
    kOther{.name = "other", .entry = nothing_else_of};

int number_of(const TimedLaunch& launch) {
  Numbered args;
  std::memcpy(&args, launch.args.data(), sizeof args);
  return args.number;
}
std::vector<int> numbers_of(const TimedGraph& graph) {
  std::vector<int> numbers;
  for (const TimedLaunch& launch : graph) numbers.push_back(number_of(launch));
  return numbers;
}

// Launches 0, 1, ... of a graph, of which each is a part of its own.
struct RecordedNumbers {
  std::shared_ptr<TimedRuntime> runtime =
      std::make_shared<TimedRuntime>([](const TimedLaunch& launch) { return 1 << number_of(launch); });
  StepRecorder recorder{runtime};

  std::unique_ptr<Graph> record(int count) {
    Recording recording(recorder);
    for (int i = 0; i < count; ++i) {
      recorder.begins(static_cast<std::size_t>(i));
      launch(recorder, kOne, {.grid_x = 2, .block = 32}, Numbered{i});
    }
    return recording.end();
  }
};

TEST(CudaStepRecorder, RepeatsTheLaunchOfANumberAndNoOther) {
  constexpr int kCount = 5;
  for (int n = 0; n < kCount; ++n)
    for (const int times : {1, 2, 7}) {
      RecordedNumbers numbers;
      numbers.record(kCount);
      const auto place = static_cast<std::size_t>(n);
      numbers.recorder.repeat(repeats_of({.launches = {place}}, static_cast<std::size_t>(times)));
      numbers.record(kCount);
      std::vector<int> expected;
      for (int i = 0; i < kCount; ++i)
        for (int k = 0; k < (i == n ? 1 + times : 1); ++k) expected.push_back(i);
      ASSERT_EQ(numbers.runtime->recorded.size(), 2U);
      EXPECT_EQ(numbers_of(numbers.runtime->recorded[0]), (std::vector<int>{0, 1, 2, 3, 4}));
      EXPECT_EQ(numbers_of(numbers.runtime->recorded[1]), expected);
      for (const TimedLaunch& launch : numbers.runtime->recorded[1]) {
        EXPECT_EQ(launch.name, "one");
        EXPECT_EQ(launch.shape.grid_x, 2U);
      }
      numbers.recorder.repeat({});
      numbers.record(kCount);
      EXPECT_EQ(numbers.runtime->recorded[2].size(), 5U);
    }
}

TEST(CudaStepRecorder, RepeatsNothingThatIsNotRecorded) {
  RecordedNumbers numbers;
  numbers.record(3);
  numbers.recorder.repeat({{.behind = 0, .launch = 0}});
  const std::uint64_t begin = numbers.recorder.record();
  launch(numbers.recorder, kOne, {.block = 32}, Numbered{2});
  EXPECT_EQ(numbers.recorder.between(begin, numbers.recorder.record()).value, 4);
  EXPECT_EQ(numbers.recorder.launches().size(), 3U);
}

TEST(CudaStepRecorder, RefusesAStepWithOtherLaunches) {
  RecordedNumbers numbers;
  numbers.record(3);
  EXPECT_THROW(numbers.record(2), std::logic_error);
  EXPECT_EQ(numbers.record(3) == nullptr, false);
}

TEST(CudaStepRecorder, RepeatsCopiesFillsAndProductsOfTheLibrary) {
  const std::shared_ptr<EmulatedRuntime> runtime = make_emulated_runtime();
  StepRecorder recorder(runtime);
  const auto memory = runtime->allocate(library_workspace_bytes(runtime->facts()) + 1024);
  const GemmProblem product{.x = memory,
                            .w = memory + 256,
                            .rows = 1,
                            .outputs = 1,
                            .inputs = 1,
                            .x_stride = 1,
                            .w_stride = 1,
                            .arithmetic = Arithmetic::float32,
                            .adds = true,
                            .out = (memory + 512).as<float>(),
                            .out_stride = 1,
                            .workspace = {memory + 1024, library_workspace_bytes(runtime->facts())}};
  const auto record = [&] {
    Recording recording(recorder);
    recorder.gemm_library().multiply(product);
    recorder.fill(memory + 768, 1, 4);
    recorder.copy(memory + 772, memory + 768, 4);
    return recording.end();
  };
  record();
  ASSERT_EQ(recorder.launches().size(), 3U);
  recorder.repeat(repeats_of({.launches = {0}}, 3));
  const auto graph = record();
  for (const float one : {1.0F}) {
    runtime->upload(memory, std::as_bytes(std::span(&one, 1)));
    runtime->upload(memory + 256, std::as_bytes(std::span(&one, 1)));
    const float zero = 0;
    runtime->upload(memory + 512, std::as_bytes(std::span(&zero, 1)));
  }
  runtime->replay(*graph);
  EXPECT_EQ(runtime->products(), 4);
  float out = 0;
  runtime->download(std::as_writable_bytes(std::span(&out, 1)), memory + 512);
  EXPECT_EQ(out, 4);
  runtime->free(memory);
}

// Repeats beside each launch as "behind<launch".
std::string text_of(const std::vector<StepRecorder::Repeat>& repeats) {
  std::string text;
  for (const auto& [behind, launch] : repeats) text += fmt::format("{}<{} ", behind, launch);
  return text;
}

TEST(CudaNodeTimes, RepeatLaunchesFarFromWhereTheStepMakesThem) {
  const NodeGroup layers{.launches = {1, 3, 5, 7}};
  EXPECT_EQ(text_of(repeats_of(layers, 1)), "1<5 3<7 5<1 7<3 ");
  EXPECT_EQ(text_of(repeats_of(layers, 3)), "1<3 1<5 1<7 3<5 3<7 3<1 5<7 5<1 5<3 7<1 7<3 7<5 ");
  EXPECT_EQ(text_of(repeats_of({.launches = {4}}, 2)), "4<4 4<4 ");
  EXPECT_EQ(text_of(repeats_of({.launches = {9}, .elsewhere = {0, 2, 4, 6}}, 1)), "4<9 ");
  EXPECT_EQ(text_of(repeats_of({.launches = {9}, .elsewhere = {0, 2, 4, 6}}, 3)), "2<9 4<9 6<9 ");
  // Whatever the number, each launch is repeated as often as every other: their sum is what is measured.
  for (const std::size_t each : {1U, 2U, 5U, 9U}) {
    std::vector<std::size_t> made(8);
    for (const StepRecorder::Repeat& repeat : repeats_of(layers, each)) ++made[repeat.launch];
    EXPECT_EQ(made, (std::vector<std::size_t>{0, each, 0, each, 0, each, 0, each}));
  }
}

// Two layers of two operations, of which the first has two kernels, and what is apart behind them.
TEST(CudaNodeTimes, AreSharedByKernelShapeAndKind) {
  const auto shape = [](std::uint32_t blocks) { return LaunchShape{.grid_x = blocks, .block = 32}; };
  const std::vector<StepRecorder::Launch> launches{
      {.part = 0, .kernel = &kOne, .shape = shape(1)},   {.part = 0, .kernel = &kOther, .shape = shape(1)},
      {.part = 1, .kernel = &kOther, .shape = shape(1)}, {.part = 2, .kernel = &kOne, .shape = shape(1)},
      {.part = 2, .kernel = &kOther, .shape = shape(2)}, {.part = 3, .kernel = &kOther, .shape = shape(1)},
      {.part = 4, .kernel = &kOther, .shape = shape(1)}, {.part = 5, .kernel = &kOne, .shape = shape(1)}};
  const auto kind_of = [](std::size_t part) { return part < 4 ? std::to_string(part % 2) : "end"; };
  const std::vector<NodeGroup> groups = node_groups(launches, kind_of, 4);
  std::vector<std::vector<std::size_t>> of_launches, elsewhere;
  for (const NodeGroup& group : groups) {
    of_launches.push_back(group.launches);
    elsewhere.push_back(group.elsewhere);
  }
  EXPECT_EQ(of_launches, (std::vector<std::vector<std::size_t>>{{0, 3}, {1}, {2, 5}, {4}, {6}, {7}}));
  EXPECT_EQ(elsewhere, (std::vector<std::vector<std::size_t>>{{}, {}, {}, {}, {1, 2, 4, 5}, {}}));
  for (const NodeGroup& group : node_groups(launches, kind_of, kNoPart)) EXPECT_TRUE(group.elsewhere.empty());
}

TEST(CudaNodeTimes, AreDifferencesByTheirNumber) {
  const NodeGroup layers{.launches = {1, 3, 5, 7}};
  std::vector<std::size_t> asked;
  const auto at = [&](double one) {
    return [&asked, one](const std::vector<StepRecorder::Repeat>& repeats) {
      asked.push_back(repeats.size());
      return Seconds{one * static_cast<double>(repeats.size())};
    };
  };
  EXPECT_DOUBLE_EQ(node_time(layers, at(3e-6)).value, 3e-6);
  EXPECT_EQ(asked, (std::vector<std::size_t>{4}));
  asked.clear();
  // 3.6 us are little beside what a clock resolves: as many as make 10.
  EXPECT_DOUBLE_EQ(node_time(layers, at(0.9e-6)).value, 0.9e-6);
  EXPECT_EQ(asked, (std::vector<std::size_t>{4, 12}));
  asked.clear();
  EXPECT_DOUBLE_EQ(node_time({.launches = {1}}, at(2.1e-6)).value, 2.1e-6);
  EXPECT_EQ(asked, (std::vector<std::size_t>{1, 5}));
  asked.clear();
  EXPECT_DOUBLE_EQ(node_time({.launches = {9}, .elsewhere = {2, 4}}, at(2e-6)).value, 2e-6);
  EXPECT_EQ(asked, (std::vector<std::size_t>{1, 4})) << "not so many that a cache holds what it reads";
  asked.clear();
  EXPECT_EQ(node_time({.launches = {1}}, at(-1e-6)).value, 0);
  EXPECT_EQ(asked, (std::vector<std::size_t>{1, 32}));
}

}  // namespace
}  // namespace assay::cuda
