// What a run had to do and what was read beside it, as figures: all from costs, times and bytes that the test
// makes up.
#include "assay/harness/run_costs.h"

#include <gtest/gtest.h>

#include "assay/assay.h"
#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

class RunCosts : public testing::Test {
 protected:
  static const Plan& plan() {
    static const LoadedModel loaded =
        load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, "float32", Device{});
    return loaded.model->program().plan();
  }
  // All steps of both batches, in order.
  std::vector<Cost> steps() const {
    std::vector<Cost> all;
    for (const BatchShape& shape : shapes_)
      for (const PhaseCosts& costs : step_costs(plan(), shape)) all.push_back(total_cost(costs));
    return all;
  }
  static double bytes_of(const Cost& cost) {
    return static_cast<double>(cost.weight_bytes.value + cost.kv_bytes.value);
  }
  const std::vector<BatchShape> shapes_{{{3, 5}, 3, true}, {{40}, 2, true}};
};

TEST_F(RunCosts, EqualIdsAloneHaveEqualHashes) {
  // FNV-1a of the words: one for each sequence, then its ids.
  const auto hash = [](const std::vector<std::uint64_t>& words) {
    std::uint64_t h = 14695981039346656037U;
    for (const std::uint64_t word : words) h = (h ^ word) * 1099511628211U;
    return fmt::format("{:016x}", h);
  };
  EXPECT_EQ(hash_of({}), "cbf29ce484222325");
  EXPECT_EQ(hash_of({{1, 2}, {3}}), hash({0xffffffffU, 1, 2, 0xffffffffU, 3}));
  EXPECT_NE(hash_of({{1, 2}, {3}}), hash_of({{1}, {2, 3}}));
  EXPECT_NE(hash_of({{1, 2}}), hash_of({{2, 1}}));
}

TEST_F(RunCosts, TheWorkingSetIsThatOfTheStepInTheMiddle) {
  const auto step = [](std::int64_t weights, std::int64_t kv) {
    PhaseCosts costs{};
    costs[0].weight_bytes = {weights};
    costs[1].kv_bytes = {kv};
    return costs;
  };
  EXPECT_EQ(working_set_of({step(1, 2)}).value, 3);
  EXPECT_EQ(working_set_of({step(1, 2), step(10, 20)}).value, 30);
  EXPECT_EQ(working_set_of({step(1, 2), step(10, 20), step(100, 200)}).value, 30);
  EXPECT_EQ(working_set_of({step(1, 2), step(10, 20), step(100, 200), step(7, 8)}).value, 300);
}

TEST_F(RunCosts, ASampleAddsUpItsSteps) {
  const std::vector<Cost> steps = this->steps();
  ASSERT_EQ(steps.size(), 5U);
  // Between the intensities of a prefill of 40 tokens and of the other steps.
  const double rate =
      (steps[3].flops.value / bytes_of(steps[3]) + steps[0].flops.value / bytes_of(steps[0])) / 2;
  const Roofline::Peaks peaks{
      .bytes_per_second = 2e9, .operations_per_second = 2e9 * rate, .round_trip = {3e-6}};
  double bytes = 0, flops = 0, memory_bound = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    bytes += bytes_of(steps[i]);
    flops += steps[i].flops.value;
    if (i != 3) memory_bound += bytes_of(steps[i]) / 2e9;
  }
  Sample sample;
  set_roofline(plan(), shapes_, peaks, sample);
  EXPECT_DOUBLE_EQ(sample.bytes, bytes);
  EXPECT_DOUBLE_EQ(sample.flops, flops);
  EXPECT_DOUBLE_EQ(sample.memory_bound_s, memory_bound);
  EXPECT_DOUBLE_EQ(sample.roofline_s, memory_bound + steps[3].flops.value / (2e9 * rate));
  EXPECT_DOUBLE_EQ(sample.roofline_gb_s, 2);
  EXPECT_DOUBLE_EQ(sample.roofline_gflops, 2 * rate);
  EXPECT_DOUBLE_EQ(sample.round_trip_us, 3);
}

TEST_F(RunCosts, ARunFasterThanItsRooflineIsMeasuredAgain) {
  double bytes = 0;
  for (const Cost& step : steps()) bytes += bytes_of(step);
  int measured = 0;
  Roofline::Peaks peaks;
  // A roofline of one second, which is measured again as `again` times as fast each time.
  const auto repeats = [&](double total_s, double again) {
    Sample sample;
    sample.total_latency_s = total_s;
    peaks = {.bytes_per_second = bytes, .operations_per_second = 1e30};
    measured = 0;
    repeat_impossible(plan(), shapes_, sample, peaks, [&] {
      ++measured;
      return Roofline::Peaks{.bytes_per_second = again * peaks.bytes_per_second,
                             .operations_per_second = 1e29};
    });
    EXPECT_EQ(sample.roofline_repeats, measured);
    return measured;
  };
  EXPECT_EQ(repeats(2, 2), 0);
  EXPECT_EQ(repeats(0.98, 2), 0) << "the run is 2 % faster";
  EXPECT_EQ(repeats(0.96, 2), 1);
  EXPECT_DOUBLE_EQ(peaks.bytes_per_second, 2 * bytes);
  EXPECT_EQ(peaks.operations_per_second, 1e30) << "the higher counts";
  EXPECT_EQ(repeats(0.4, 2), 2);
  EXPECT_EQ(repeats(0.01, 2), 3) << "no more than that";
  EXPECT_EQ(repeats(0.5, 0.5), 3);
  EXPECT_DOUBLE_EQ(peaks.bytes_per_second, bytes);
  // The operations bound it, and are measured as faster.
  double flops = 0;
  for (const Cost& step : steps()) flops += step.flops.value;
  Sample sample;
  sample.total_latency_s = 0.5;
  peaks = {.bytes_per_second = 1e30, .operations_per_second = flops};
  repeat_impossible(plan(), shapes_, sample, peaks, [&] {
    return Roofline::Peaks{.bytes_per_second = 1, .operations_per_second = 3 * flops};
  });
  EXPECT_EQ(sample.roofline_repeats, 1);
  EXPECT_DOUBLE_EQ(peaks.operations_per_second, 3 * flops);
  EXPECT_EQ(peaks.bytes_per_second, 1e30);
}

TEST_F(RunCosts, AProfileSplitsTheTimeByWhatItWasFor) {
  StepProfile profile;
  const auto part = [&](OpClass phase) -> StepProfile::Part& {
    return profile.parts[static_cast<std::size_t>(phase)];
  };
  part(OpClass::linear) = {{8}, {1}};
  part(OpClass::attention) = {{4}, {0.5}};
  part(OpClass::head) = {{2}, {0.25}};
  part(OpClass::embed) = {{0.5}, {0.125}};
  part(OpClass::norm) = {{0.25}, {0.0625}};
  const Roofline::Peaks peaks{.bytes_per_second = 1e9, .operations_per_second = 1e9};
  double allowed[kOpClasses] = {};
  for (const BatchShape& shape : shapes_)
    for (const PhaseCosts& costs : step_costs(plan(), shape))
      for (std::size_t i = 0; i < kOpClasses; ++i)
        allowed[i] += std::max(bytes_of(costs[i]), costs[i].flops.value) / 1e9;
  const auto roofline = [&](OpClass phase) { return allowed[static_cast<std::size_t>(phase)]; };
  // The parts take 14.75 s; what is left of 16 s belongs to none of them.
  const CaseProfile split = profile_of(profile, 16, plan(), shapes_, peaks);
  const struct {
    const char* phase;
    double seconds, roofline_s;
  } expected[] = {
      {"matrix multiplication", 7, roofline(OpClass::linear)},
      {"attention", 3.5, roofline(OpClass::attention)},
      {"the LM head", 1.75, roofline(OpClass::head)},
      {"other operations", 0.375 + 0.1875 + 1.25, roofline(OpClass::embed) + roofline(OpClass::norm)},
      {"synchronization", 1.9375, 0}};
  ASSERT_EQ(split.parts.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    SCOPED_TRACE(expected[i].phase);
    EXPECT_EQ(split.parts[i].phase, expected[i].phase);
    EXPECT_DOUBLE_EQ(split.parts[i].seconds, expected[i].seconds);
    EXPECT_DOUBLE_EQ(split.parts[i].roofline_s, expected[i].roofline_s);
  }
  // A run whose clock says less than its parts leaves nothing over.
  EXPECT_DOUBLE_EQ(profile_of(profile, 14, plan(), shapes_, peaks).parts[3].seconds, 0.5625);
}

TEST_F(RunCosts, MemoryIsThatOfTheProcessOrOfTheDevice) {
  MemoryReadings read{.anonymous = {1000},
                      .held_before = {300},
                      .held_by_probes = {50},
                      .kv_cache = {77},
                      .process = {.resident = {2000}, .peak = {2500}, .anonymous = {1}},
                      .highest = {2600},
                      .device = {}};
  FirstRun first;
  set_memory(first, read);
  EXPECT_EQ(first.measured_memory_bytes, 650);
  EXPECT_EQ(first.kv_cache_bytes, 77);
  EXPECT_EQ(first.peak_rss_bytes, 2600) << "the higher of two counts";
  EXPECT_EQ(first.current_rss_bytes, 2000);
  EXPECT_EQ(first.device_used_bytes, 0);
  read.highest = {};
  set_memory(first, read);
  EXPECT_EQ(first.peak_rss_bytes, 2500);
  read.device = DeviceMemory{.free = {400}, .total = {10000}, .allocated = {10}, .peak = {9000}};
  set_memory(first, read);
  EXPECT_EQ(first.measured_memory_bytes, 9000);
  EXPECT_EQ(first.device_used_bytes, 9600);
}

}  // namespace
}  // namespace assay
