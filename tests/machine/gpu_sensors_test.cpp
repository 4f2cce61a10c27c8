// What is made of a GPU's sensors; no GPU is needed.
#include <gtest/gtest.h>

#include <unistd.h>

#include "assay/machine/gpu_sensors.h"

namespace assay {
namespace {

class FakeSensors : public GpuSensors {
 public:
  GpuIdentity identity() override { return {"fake", "1", 1980, 700}; }
  GpuReading read() override {
    ++readings;
    return reading;
  }
  std::optional<double> joules() override { return reading.joules; }
  std::vector<GpuProcess> processes() override { return running; }
  int readings = 0;
  GpuReading reading{.sm_mhz = 1980, .memory_mhz = 2619, .watts = 300, .celsius = 50, .joules = 1000.0};
  std::vector<GpuProcess> running{{getpid(), {1}}, {getppid(), {2}}};
};

TEST(GpuSensors, SayWhyThereAreNone) {
  std::string why;
  const auto sensors = open_nvml("ffffffff:ff:00.0", why);
  EXPECT_EQ(sensors == nullptr, !why.empty());
  if (sensors == nullptr) {
    EXPECT_NE(why.find("libnvidia-ml.so.1"), std::string::npos) << why;
  }
}

TEST(GpuSensors, CountOtherProcessesAlone) {
  FakeSensors sensors;
  EXPECT_TRUE(other_processes(sensors).empty());
  sensors.running.push_back({1, {3}});
  ASSERT_EQ(other_processes(sensors).size(), 1U);
  EXPECT_EQ(other_processes(sensors)[0].pid, 1);
  sensors.running.erase(sensors.running.begin());  // numbered otherwise: whose they are is not known
  EXPECT_TRUE(other_processes(sensors).empty());
}

TEST(GpuWatch, TellsWhatHappened) {
  FakeSensors sensors;
  const GpuWatch watch(&sensors);
  sensors.reading.is_slowed_by_power = true;
  sensors.running.push_back({1, {3}});
  GpuUse use = watch.use();
  EXPECT_EQ(use.highest_mhz, 1980);
  EXPECT_TRUE(use.was_slowed_by_power);
  EXPECT_FALSE(use.was_slowed_by_heat);
  EXPECT_EQ(use.others, 1);
  sensors.reading.sm_mhz = 1200;
  use += watch.use();
  EXPECT_EQ(use.lowest_mhz, 1200);
  EXPECT_EQ(use.highest_mhz, 1980);
  std::string why;
  EXPECT_FALSE(watch.joules(why));
  EXPECT_NE(why.find("shorter than 2 s"), std::string::npos);
}

// Each reading asks the driver for six numbers, beside every run.
TEST(GpuWatch, ReadsAllNumbersOnceARun) {
  FakeSensors sensors;
  const GpuWatch watch(&sensors);
  EXPECT_EQ(sensors.readings, 0);
  watch.use();
  std::string why;
  watch.joules(why);
  EXPECT_EQ(sensors.readings, 1);
}

TEST(GpuUse, CountsEveryReadingOfThePowerAlike) {
  GpuUse all;
  for (const double watts : {100.0, 100.0, 300.0}) all += GpuUse{.mean_watts = watts};
  EXPECT_NEAR(all.mean_watts, 500.0 / 3, 1e-9);
}

TEST(GpuWatch, TellsNothingWithoutSensors) {
  const GpuWatch watch(nullptr);
  EXPECT_EQ(watch.use().highest_mhz, 0);
  std::string why;
  EXPECT_FALSE(watch.joules(why));
  EXPECT_NE(why.find("does not tell"), std::string::npos);
}

}  // namespace
}  // namespace assay
