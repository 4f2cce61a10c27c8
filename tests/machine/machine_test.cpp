// What a machine is said to be.
#include <gtest/gtest.h>

#include "assay/machine/machine.h"

namespace assay::test {
namespace {

TEST(Machine, TellsItsCores) {
  Machine machine;
  machine.cores = machine.processors_allowed = 4;
  EXPECT_EQ(cores_text(machine), "4");
  machine.processors_allowed = 8;
  EXPECT_EQ(cores_text(machine), "4, some with two threads or more: one of each is used");
  machine.cores = 14;
  machine.efficient_cores = 8;
  EXPECT_EQ(cores_text(machine),
            "6 fast and 8 efficient: threads run on all, and take work when they are free");
}

}  // namespace
}  // namespace assay::test
