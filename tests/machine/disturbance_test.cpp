// What the system tells of frequencies and throttling, from folders that look like its own.
#include "assay/machine/disturbance.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/temporary_folder.h"

namespace assay {
namespace {

class DisturbanceFiles : public testing::Test {
 protected:
  DisturbanceFiles() {
    std::filesystem::create_directories(processor() / "cpufreq");
    std::filesystem::create_directories(processor() / "thermal_throttle");
    write("thermal_throttle/core_throttle_count", "7");
    write("thermal_throttle/package_throttle_count", "9");
    write("cpufreq/scaling_cur_freq", "3000000");
    write_quota("throttled_usec 500000");
  }
  std::filesystem::path processor() const {
    return folder_.path() / ("cpu" + std::to_string(allowed_processors().front()));
  }
  void write(const std::string& name, const std::string& number) const {
    test::write_file(processor() / name, number + "\n");
  }
  void write_quota(const std::string& line) const {
    test::write_file(folder_ / "cpu.stat", "nr_periods 10\nnr_throttled 3\n" + line + "\n");
  }
  SystemFolders folders() const {
    return {folder_.path(), {folder_ / "cpu.stat"}, folder_.path() / "task", folder_.path() / "stat"};
  }
  test::TemporaryFolder folder_;
};

TEST_F(DisturbanceFiles, CountersThatStandStillCountNothing) {
  const DisturbanceWatch watch(folders());
  const Disturbance d = watch.so_far();
  EXPECT_EQ(d.throttle_events, 0);
  EXPECT_EQ(d.quota_wait_s, 0);
  EXPECT_EQ(d.lowest_mhz, 3000);
  EXPECT_EQ(d.highest_mhz, 3000);
}

TEST_F(DisturbanceFiles, CountThrottling) {
  const DisturbanceWatch watch(folders());
  write("thermal_throttle/core_throttle_count", "8");
  EXPECT_EQ(watch.so_far().throttle_events, 1);
}

TEST_F(DisturbanceFiles, CountWaitingForAQuota) {
  const DisturbanceWatch watch(folders());
  write_quota("throttled_usec 750000");
  EXPECT_DOUBLE_EQ(watch.so_far().quota_wait_s, 0.25);
  write_quota("throttled_time 900000000");  // the older kind counts in ns
  EXPECT_NEAR(watch.so_far().quota_wait_s, 0.4, 1e-12);
}

TEST_F(DisturbanceFiles, KeepTheLowestAndTheHighestFrequency) {
  Disturbance all = DisturbanceWatch(folders()).so_far();
  write("cpufreq/scaling_cur_freq", "2850000");
  all += DisturbanceWatch(folders()).so_far();
  write("cpufreq/scaling_cur_freq", "2000000");
  all += DisturbanceWatch(folders()).so_far();
  EXPECT_EQ(all.lowest_mhz, 2000);
  EXPECT_EQ(all.highest_mhz, 3000);
}

// However short a run is, what is counted exactly counts.
TEST_F(DisturbanceFiles, CountWaitingForAProcessorAndMovesToAnother) {
  std::filesystem::create_directories(folder_.path() / "task/1");
  const auto write_task = [&](const char* waited, const char* moves) {
    test::write_file(folder_.path() / "task/1/schedstat", std::string("900 ") + waited + " 4\n");
    test::write_file(folder_.path() / "task/1/sched",
                     std::string("se.exec_start : 1.0\nse.nr_migrations      :   ") + moves + "\n");
  };
  write_task("2000000", "5");
  const DisturbanceWatch watch(folders());
  write_task("502000000", "9");
  EXPECT_DOUBLE_EQ(watch.so_far().processor_wait_s, 0.5);
  EXPECT_EQ(watch.so_far().migrations, 4);
}

TEST_F(DisturbanceFiles, WatchThePausesBetweenRunsForStolenTime) {
  const auto write_stolen = [&](const char* ticks) {
    test::write_file(folder_.path() / "stat", std::string("cpu  1 2 3 4 5 6 7 ") + ticks + " 0 0\n");
  };
  write_stolen("100");
  DisturbanceWatch watch(folders());
  write_stolen("150");
  watch.begin_run();
  write_stolen("160");
  const Disturbance d = watch.so_far();
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_NEAR(d.stolen_cpu_s, 10 / per_second, 1e-9);
  EXPECT_NEAR(d.watched_stolen_cpu_s, 60 / per_second, 1e-9);
  EXPECT_GE(d.watched_s, d.seconds);
}

TEST_F(DisturbanceFiles, ASystemThatTellsNothingCountsNothing) {
  const Disturbance d = DisturbanceWatch({folder_.path() / "absent", {folder_ / "absent"}}).so_far();
  EXPECT_EQ(d.throttle_events, 0);
  EXPECT_EQ(d.highest_mhz, 0);
}

}  // namespace
}  // namespace assay
