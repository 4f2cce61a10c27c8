// Cases and runs as JSON, as journals keep them and workers answer: every field has its place, and a damaged
// one is refused by its path.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/harness/case_json.h"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

// No two fields are equal, so that one in another's place is seen.
Sample full_sample() {
  Sample s;
  s.total_latency_s = 0.5;
  s.end_to_end_s = 0.625;
  s.tokenize_s = 0.02;
  s.prefill_s = 0.125;
  s.sampling_s = 0.03;
  s.detokenize_s = 0.04;
  s.first_token_s = 0.25;
  s.step_s = {0.1, 0.2};
  s.sequences = 2;
  s.batches = 1;
  s.prompt_tokens = 8;
  s.computed_prompt_tokens = 9;
  s.new_tokens = 6;
  s.ids_hash = "abc";
  s.bytes = 1e9;
  s.flops = 2e9;
  s.roofline_s = 0.35;
  s.roofline_gb_s = 10.5;
  s.roofline_gflops = 20.5;
  s.round_trip_us = 1.5;
  s.memory_bound_s = 0.15;
  s.roofline_repeats = 3;
  s.first_tokenize_s = 0.01;
  s.energy_j = 3.5;
  s.energy_why_not = "no counter";
  s.gpu = GpuUse{1200, 1980, 61, 300, true, false, 2};
  s.disturbance = {.seconds = 0.75,
                   .involuntary_switches = 4,
                   .stolen_cpu_s = 0.0625,
                   .other_cpu_s = 0.375,
                   .processor_wait_s = 0.875,
                   .minor_faults = 7,
                   .major_faults = 11,
                   .migrations = 13,
                   .watched_s = 4.5,
                   .watched_stolen_cpu_s = 0.3125,
                   .throttle_events = 5,
                   .quota_wait_s = 0.1875,
                   .lowest_mhz = 2000,
                   .highest_mhz = 3000};
  return s;
}

constexpr const char* kSample = R"({
  "total_latency_s": 0.5, "end_to_end_s": 0.625, "tokenize_s": 0.02, "prefill_s": 0.125, "sampling_s": 0.03,
  "detokenize_s": 0.04, "first_token_s": 0.25, "step_s": [0.1, 0.2], "counts": [2, 1, 8, 9, 6],
  "first_tokenize_s": 0.01, "energy_j": 3.5, "energy_why_not": "no counter",
  "gpu": [1200.0, 1980.0, 61.0, 300.0, true, false, 2], "roofline_repeats": 3, "ids_hash": "abc",
  "roofline": [1e9, 2e9, 0.35, 10.5, 20.5, 0.15, 1.5],
  "disturbance": [0.75, 4, 0.0625, 0.375, 5, 0.1875, 2000.0, 3000.0, 4.5, 0.3125, 0.875, 11, 7, 13]})";

TEST(SampleJson, EveryFieldHasItsPlace) {
  EXPECT_EQ(to_json(full_sample()), OrderedJson::parse(kSample));
  const OrderedJson json = OrderedJson::parse(kSample);
  const Sample back = sample_from_json(json);
  EXPECT_EQ(to_json(back).dump(), to_json(full_sample()).dump());
  EXPECT_EQ(back.sampling_s, 0.03);
  EXPECT_EQ(back.end_to_end_s, 0.625);
  EXPECT_EQ(back.computed_prompt_tokens, 9);
  EXPECT_EQ(back.round_trip_us, 1.5);
  EXPECT_EQ(back.memory_bound_s, 0.15);
  EXPECT_EQ(back.energy_j, 3.5);
  EXPECT_EQ(back.energy_why_not, "no counter");
  ASSERT_TRUE(back.gpu);
  EXPECT_EQ(back.gpu->lowest_mhz, 1200);
  EXPECT_TRUE(back.gpu->was_slowed_by_heat);
  EXPECT_EQ(back.gpu->others, 2);
  EXPECT_EQ(back.disturbance.throttle_events, 5);
  EXPECT_EQ(back.disturbance.migrations, 13);
  EXPECT_EQ(back.disturbance.watched_stolen_cpu_s, 0.3125);
}

TEST(SampleJson, ZeroIsAValueAndNothingIsNone) {
  Sample zero;
  zero.gpu = GpuUse{};
  zero.energy_j = 0;
  zero.step_s = {0};
  const OrderedJson json = to_json(zero);
  EXPECT_EQ(to_json(sample_from_json(json)).dump(), json.dump());
  EXPECT_EQ(json["gpu"].dump(), "[0.0,0.0,0.0,0.0,false,false,0]");
  const OrderedJson none = to_json(Sample{});
  EXPECT_TRUE(none["gpu"].is_null());
  EXPECT_TRUE(none["energy_j"].is_null());
  EXPECT_FALSE(sample_from_json(none).gpu);
  EXPECT_FALSE(sample_from_json(none).energy_j);
}

// Every number of a run, beyond what a run can have.
TEST(SampleJson, WhatNoRunTakesIsRefused) {
  std::vector<std::pair<std::string, OrderedJson>> damages;
  for (const char* time : {"total_latency_s", "end_to_end_s", "tokenize_s", "prefill_s", "sampling_s",
                           "detokenize_s", "first_token_s", "first_tokenize_s", "step_s/1"}) {
    damages.emplace_back(std::string("/") + time, -0.5);
    damages.emplace_back(std::string("/") + time, 1.1e9);
  }
  for (int i = 0; i < 7; ++i) {
    damages.emplace_back(fmt::format("/roofline/{}", i), -0.5);
    damages.emplace_back(fmt::format("/roofline/{}", i), 1.1e30);
  }
  for (int i = 0; i < 5; ++i) damages.emplace_back(fmt::format("/counts/{}", i), -1);
  for (int i = 0; i < 4; ++i) {
    damages.emplace_back(fmt::format("/gpu/{}", i), -0.5);
    damages.emplace_back(fmt::format("/gpu/{}", i), 1.1e30);
  }
  for (int i : {0, 8, 9, 10}) {
    damages.emplace_back(fmt::format("/disturbance/{}", i), -0.5);
    damages.emplace_back(fmt::format("/disturbance/{}", i), 1.1e9);
  }
  for (int i : {11, 12, 13}) damages.emplace_back(fmt::format("/disturbance/{}", i), -1);
  damages.emplace_back("/energy_j", -1);
  damages.emplace_back("/energy_j", 1.1e30);
  damages.emplace_back("/gpu/6", -1);
  damages.emplace_back("/roofline_repeats", -1);
  damages.emplace_back("/tokenize_s", nullptr);
  for (const auto& [pointer, value] : damages) {
    OrderedJson json = to_json(full_sample());
    json[OrderedJson::json_pointer(pointer)] = value;
    EXPECT_THROW(sample_from_json(json), Error) << pointer << " " << value;
  }
}

FirstRun full_first_run() {
  FirstRun f;
  f.prompt_ids = {{1, 2}, {3}};
  f.ids = {{4}, {5, 6}};
  f.texts = {"one", "two"};
  f.profile.parts = {{"attention", 0.5, 0.25}, {"other operations", -0.125, 0.75}};
  f.kv_cache_bytes = 0.5;
  f.measured_memory_bytes = -2000;
  f.peak_rss_bytes = 0.25;
  f.current_rss_bytes = 0.375;
  f.device_used_bytes = 0.625;
  f.seconds = 0.875;
  return f;
}

TEST(FirstRunJson, EveryFieldHasItsPlace) {
  const OrderedJson json = to_json(full_first_run());
  EXPECT_EQ(json, OrderedJson::parse(R"({
    "prompt_ids": [[1, 2], [3]], "ids": [[4], [5, 6]], "texts": ["one", "two"],
    "profile": [{"phase": "attention", "seconds": 0.5, "roofline_s": 0.25},
                {"phase": "other operations", "seconds": -0.125, "roofline_s": 0.75}],
    "kv_cache_bytes": 0.5, "measured_memory_bytes": -2000.0, "rss_bytes": [0.25, 0.375],
    "device_used_bytes": 0.625, "seconds": 0.875})"));
  EXPECT_EQ(to_json(first_run_from_json(json)), json);
  const OrderedJson zero = to_json(FirstRun{});
  EXPECT_EQ(to_json(first_run_from_json(zero)), zero);
  OrderedJson earlier = json;  // versions without GPUs did not write it
  earlier.erase("device_used_bytes");
  EXPECT_EQ(first_run_from_json(earlier).device_used_bytes, 0);
  OrderedJson part = json;
  part["profile"][0]["roofline_s"] = 0;
  EXPECT_EQ(first_run_from_json(part).profile.parts[0].roofline_s, 0);
}

TEST(FirstRunJson, WhatNoRunTakesIsRefused) {
  const std::pair<const char*, double> damages[] = {{"/kv_cache_bytes", -0.5},
                                                    {"/kv_cache_bytes", 1.1e30},
                                                    {"/measured_memory_bytes", 1.1e30},
                                                    {"/measured_memory_bytes", -1.1e30},
                                                    {"/rss_bytes/0", -0.5},
                                                    {"/rss_bytes/0", 1.1e30},
                                                    {"/rss_bytes/1", -0.5},
                                                    {"/rss_bytes/1", 1.1e30},
                                                    {"/device_used_bytes", -0.5},
                                                    {"/device_used_bytes", 1.1e30},
                                                    {"/seconds", -0.5},
                                                    {"/seconds", 1.1e9},
                                                    {"/profile/0/seconds", 1.1e9},
                                                    {"/profile/0/seconds", -1.1e9},
                                                    {"/profile/0/roofline_s", -0.5},
                                                    {"/profile/0/roofline_s", 1.1e9}};
  for (const auto& [pointer, value] : damages) {
    OrderedJson json = to_json(full_first_run());
    json[OrderedJson::json_pointer(pointer)] = value;
    EXPECT_THROW(first_run_from_json(json), Error) << pointer << " " << value;
  }
}

TEST(CaseJson, EveryFieldHasItsPlace) {
  Case spec;
  spec.scenario = Scenario::padding;
  spec.label = "a label";
  spec.configuration.precision = preset_from_name("nf4");
  spec.prompts = {"text", std::vector<TokenId>{1, 2, 3}};
  spec.batch_size = 2;
  spec.new_tokens = 7;
  spec.uses_cache = false;
  spec.padding = Padding::left;
  spec.truncation = Truncation::right;
  OrderedJson json = to_json(spec);
  EXPECT_EQ(json["prompts"].dump(), R"(["text",[1,2,3]])");
  EXPECT_EQ(json["configuration"]["precision"], "nf4");
  const OrderedJson configuration = json["configuration"];
  json.erase("configuration");
  json.erase("prompts");
  EXPECT_EQ(json.dump(),
            R"({"scenario":"padding","label":"a label","batch_size":2,"new_tokens":7,"cache":false,)"
            R"("padding":"left","truncate":"right"})");
  const OrderedJson whole = to_json(spec);
  const Case back = case_from_json(whole);
  EXPECT_EQ(to_json(back), whole);
  EXPECT_EQ(back.prompts, spec.prompts);
  EXPECT_EQ(back.configuration, spec.configuration);
  EXPECT_EQ(back.key(), "padding | a label | " + spec.configuration.key());
}

// A case without them is written without a key for them, so that earlier builds and journals know it.
TEST(CaseJson, RandomPromptsAreThereWhereTheyAre) {
  Case spec;
  EXPECT_FALSE(to_json(spec).contains("random_prompts"));
  EXPECT_FALSE(case_from_json(to_json(spec)).random_prompts);
  const std::string key = spec.key();
  spec.random_prompts = RandomPrompts{.sequences = 3, .tokens = 5, .depth = 7};
  const OrderedJson json = to_json(spec);
  EXPECT_EQ(json["random_prompts"].dump(), R"({"sequences":3,"tokens":5,"depth":7})");
  const Case back = case_from_json(json);
  EXPECT_EQ(to_json(back), json);
  EXPECT_EQ(back.sequences(), 3);
  EXPECT_EQ(spec.key(), key);
  for (const auto& [name, value] : {std::pair("sequences", 0), {"tokens", 0}, {"depth", -1}}) {
    OrderedJson bad = json;
    bad["random_prompts"][name] = value;
    EXPECT_THROW(case_from_json(bad), Error) << name;
  }
}

TEST(CaseJson, CountsAreNoLessThanACaseHas) {
  const OrderedJson json = to_json(Case{});
  ASSERT_NO_THROW(case_from_json(json));
  for (const auto& [name, value] : {std::pair("new_tokens", 0), {"new_tokens", -3}, {"batch_size", -1}}) {
    OrderedJson bad = json;
    bad[name] = value;
    EXPECT_THROW(case_from_json(bad), Error) << name << ' ' << value;
  }
}

TEST(Sample, DecodesForTheSumOfItsSteps) {
  EXPECT_DOUBLE_EQ(full_sample().decode_s(), 0.1 + 0.2);
  EXPECT_EQ(Sample{}.decode_s(), 0);
}

}  // namespace
}  // namespace assay
