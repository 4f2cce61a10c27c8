// A run as JSON, as journals keep it and workers answer: it survives, and a damaged one is refused by its
// path.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/case_json.h"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

Sample full_sample() {
  Sample s;
  s.total_latency_s = 0.5;
  s.step_s = {0.1, 0.2};
  s.tokenize_s = 0.02;
  s.first_tokenize_s = 0.01;
  s.energy_j = 3.5;
  s.energy_why_not = "no counter";
  s.gpu = GpuUse{1200, 1980, 61, 300, true, false, 2};
  s.roofline_repeats = 2;
  s.disturbance.seconds = 0.5;
  s.disturbance.watched_s = 4;
  s.disturbance.watched_stolen_cpu_s = 0.25;
  s.disturbance.processor_wait_s = 0.125;
  s.disturbance.minor_faults = 7;
  s.disturbance.major_faults = 1;
  s.disturbance.migrations = 3;
  return s;
}

TEST(SampleJson, NothingIsLost) {
  const OrderedJson json = to_json(full_sample());
  EXPECT_EQ(to_json(sample_from_json(json)).dump(), json.dump());
  const Sample back = sample_from_json(json);
  EXPECT_EQ(back.energy_j, 3.5);
  EXPECT_EQ(back.energy_why_not, "no counter");
  ASSERT_TRUE(back.gpu);
  EXPECT_EQ(back.gpu->lowest_mhz, 1200);
  EXPECT_TRUE(back.gpu->was_slowed_by_heat);
  EXPECT_EQ(back.gpu->others, 2);
  EXPECT_FALSE(sample_from_json(to_json(Sample{})).gpu);
  EXPECT_EQ(back.disturbance.migrations, 3);
  EXPECT_EQ(back.disturbance.watched_stolen_cpu_s, 0.25);
  EXPECT_FALSE(sample_from_json(to_json(Sample{})).energy_j);
}

TEST(SampleJson, WhatNoRunTakesIsRefused) {
  const std::pair<const char*, OrderedJson> damages[] = {
      {"/total_latency_s", -0.5}, {"/total_latency_s", 1e300}, {"/step_s/1", -1},
      {"/counts/4", -1},          {"/roof/0", -1.0},           {"/energy_j", -1},
      {"/disturbance/10", -1},    {"/tokenize_s", nullptr}};
  for (const auto& [pointer, value] : damages) {
    OrderedJson json = to_json(full_sample());
    json[OrderedJson::json_pointer(pointer)] = value;
    EXPECT_THROW(sample_from_json(json), Error) << pointer;
  }
  OrderedJson json = to_json(FirstRun{});
  EXPECT_NO_THROW(first_run_from_json(json));
  json["kv_cache_bytes"] = 1e300;
  EXPECT_THROW(first_run_from_json(json), Error);
}

}  // namespace
}  // namespace assay
