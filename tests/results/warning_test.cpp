// Warnings: their sentences, their form in files, and those that follow from counters.
#include "assay/results/warning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/machine/disturbance.h"
#include "assay/machine/gpu_sensors.h"
#include "assay/results/results_json.h"
#include "support/prose.h"

namespace assay {
namespace {

TEST(Warning, NamesProblemAndRemedy) {
  EXPECT_EQ(sentence_of({WarningKind::cpu_frequency, "the frequency varied"}),
            "the frequency varied; repeat with a fixed frequency governor");
  EXPECT_EQ(sentence_of({WarningKind::other, "as it was"}), "as it was");
  EXPECT_EQ(roofline_warning(123.4).text, "the measurement reached at least 123 % of the roofline");
}

TEST(Warning, SurvivesJsonAndReadsEarlierFiles) {
  const std::vector<Warning> warnings = {{WarningKind::drift, "slower"},
                                         {WarningKind::steal, "stolen", 12.5, 5}};
  const nlohmann::ordered_json json = to_json(warnings);
  EXPECT_EQ(json[0]["kind"], "drift");
  EXPECT_EQ(json[0]["text"], "slower");
  EXPECT_EQ(json[1]["value"], 12.5);
  EXPECT_EQ(json[1]["limit"], 5);
  EXPECT_EQ(json[0]["remedy"], "repeat after the machine has settled");
  EXPECT_EQ(warnings_from_json(json), warnings);
  const nlohmann::ordered_json earlier = {"a sentence"};
  EXPECT_EQ(warnings_from_json(earlier), (std::vector<Warning>{{WarningKind::other, "a sentence"}}));
  for (const nlohmann::ordered_json& wrong : {nlohmann::ordered_json{7}, nlohmann::ordered_json("x")})
    EXPECT_THROW(warnings_from_json(wrong), Error);
}

TEST(WarningsOfGpus, NameWhatDisturbedThem) {
  EXPECT_TRUE(warnings_of(GpuUse{}).empty());
  EXPECT_TRUE(warnings_of(GpuUse{.lowest_mhz = 1900, .highest_mhz = 1980}).empty());
  const std::vector<Warning> all = warnings_of(GpuUse{.lowest_mhz = 1200,
                                                      .highest_mhz = 1980,
                                                      .highest_celsius = 90,
                                                      .mean_watts = 700,
                                                      .was_slowed_by_heat = true,
                                                      .was_slowed_by_power = true,
                                                      .others = 1});
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].kind, WarningKind::gpu_throttling);
  EXPECT_EQ(all[2].kind, WarningKind::gpu_frequency);
  EXPECT_EQ(sentence_of(all[3]),
            "1 other process used the GPU during the runs; end them (see nvidia-smi) or use another GPU, and "
            "repeat");
}

TEST(WarningsOfDisturbance, AreAsHighAsTheLastStepThatWasPassed) {
  Disturbance d;
  d.seconds = 10;
  d.stolen_cpu_s = 0.3;           // 1.5 % of two processors
  d.other_cpu_s = 6;              // 30 %
  d.involuntary_switches = 3000;  // 300 a second
  d.quota_wait_s = 0.1;           // 0.5 %
  d.lowest_mhz = 2000;
  d.highest_mhz = 2150;
  const std::vector<Warning> expected = {
      {WarningKind::steal, "the hypervisor withheld more than 1 % of the processors' time during the runs",
       1.5, 1},
      {WarningKind::other_processes,
       "other processes used more than 25 % of the processors' time during the runs", 30, 10},
      {WarningKind::context_switches, "the scheduler interrupted the runs more than 200 times a second",
       (3000 - 3 * std::sqrt(3000.0)) / 10, 200}};  // three deviations below what was counted
  EXPECT_EQ(warnings_of(d, 2), expected);
  // The kernel's counters of ticks are too coarse for less time.
  d.seconds = 0.1;
  d.quota_wait_s = 0;
  d.involuntary_switches = 20;  // 200 a second, within what chance gives
  EXPECT_TRUE(warnings_of(d, 2).empty());
  EXPECT_TRUE(warnings_of({}, 2).empty());
}

// A row of the demo computes for a few milliseconds.
TEST(WarningsOfDisturbance, NeedNoLongRun) {
  Disturbance d;
  d.seconds = 0.02;
  d.watched_s = 2;
  d.watched_stolen_cpu_s = 0.5;  // an eighth of two processors
  d.processor_wait_s = 0.01;     // a quarter of them
  d.involuntary_switches = 30;   // 1500 a second, 680 at least
  d.migrations = 20;
  d.major_faults = 1;
  std::vector<WarningKind> kinds;
  for (const Warning& warning : warnings_of(d, 2)) kinds.push_back(warning.kind);
  EXPECT_EQ(kinds, (std::vector<WarningKind>{WarningKind::steal, WarningKind::other_processes,
                                             WarningKind::context_switches, WarningKind::migrations,
                                             WarningKind::page_faults}));
  EXPECT_NE(warnings_of(d, 2)[0].text.find("more than 5 %"), std::string::npos);
  EXPECT_NE(warnings_of(d, 2)[1].text.find("more than 20 %"), std::string::npos);
}

TEST(WarningsOfDisturbance, TellOfHeatQuotaAndFrequency) {
  Disturbance d;
  d.seconds = 1;
  d.throttle_events = 1;
  d.quota_wait_s = 0.11;
  d.lowest_mhz = 2000;
  d.highest_mhz = 3010;
  std::vector<WarningKind> kinds;
  for (const Warning& warning : warnings_of(d, 1)) kinds.push_back(warning.kind);
  EXPECT_EQ(kinds, (std::vector<WarningKind>{WarningKind::throttling, WarningKind::cpu_quota,
                                             WarningKind::cpu_frequency}));
  EXPECT_NE(warnings_of(d, 1)[1].text.find("more than 10 %"), std::string::npos);
  EXPECT_NE(warnings_of(d, 1)[2].text.find("more than 50 %"), std::string::npos);
}

}  // namespace
}  // namespace assay
