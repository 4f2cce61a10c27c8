// Energy counters, from folders that look like the system's own.
#include "assay/machine/energy.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace assay {
namespace {

class EnergyCounters : public testing::Test {
 protected:
  void write(const std::string& domain, const std::string& microjoules) const {
    std::filesystem::create_directories(folder_.path() / domain);
    test::write_file(folder_.path() / domain / "energy_uj", microjoules + "\n");
    test::write_file(folder_.path() / domain / "max_energy_range_uj", "1000000000\n");
  }
  test::TemporaryFolder folder_;
};

TEST_F(EnergyCounters, ArePackagesWithoutTheirDomainsAndWrap) {
  write("intel-rapl:0", "5000000");
  write("intel-rapl:1", "999000000");
  write("intel-rapl:0:0", "1");  // the cores of package 0, which counts them
  const EnergyWatch watch(folder_.path());
  EXPECT_EQ(watch.why_not(), "");
  EXPECT_DOUBLE_EQ(watch.joules().value(), 0);
  write("intel-rapl:0", "7500000");
  write("intel-rapl:0:0", "900000");
  EXPECT_DOUBLE_EQ(watch.joules().value(), 2.5);
  write("intel-rapl:1", "3000000");  // 1 J to the end, and 3 more
  EXPECT_DOUBLE_EQ(watch.joules().value(), 6.5);
}

TEST_F(EnergyCounters, SayWhyThereAreNone) {
  EXPECT_FALSE(EnergyWatch(folder_.path()).joules());
  EXPECT_EQ(EnergyWatch(folder_.path()).why_not(), folder_.path().string() + " has no intel-rapl package");
  EXPECT_FALSE(EnergyWatch(folder_.path() / "absent").why_not().empty());
  write("intel-rapl:0", "no number");
  EXPECT_EQ(EnergyWatch(folder_.path()).why_not(), folder_ / "intel-rapl:0/energy_uj" + " cannot be read");
}

}  // namespace
}  // namespace assay
