// The text of the file that keeps what tuning has measured.
#include <gtest/gtest.h>

#include "assay/backend/cpu/run/tuning.h"

namespace assay::cpu {
namespace {

TEST(TuningText, IsReadAsItWasWritten) {
  Tuning tuning{.constants = usual_constants(), .gain = 2, .grouped_gain = 1.25, .many_rows_gain = 1.5};
  tuning.constants.fetch = {768, 3072, true};
  tuning.constants.grouped_fetch = {512, 1024, true};
  const std::string text = with_tuning("no JSON", "k", tuning);
  const auto kept = tuning_in(text, "k");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->constants, tuning.constants);
  EXPECT_EQ(kept->gain, 2);
  EXPECT_EQ(kept->grouped_gain, 1.25);
  EXPECT_EQ(kept->many_rows_gain, 1.5);
  EXPECT_FALSE(tuning_in(text, "l"));
  EXPECT_TRUE(tuning_in(with_tuning(text, "l", *kept), "k")) << "an entry beside it";
}

}  // namespace
}  // namespace assay::cpu
