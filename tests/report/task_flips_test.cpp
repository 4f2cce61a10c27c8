// What is said of the answers of a configuration beside the baseline's: worse, better, undecided, the same;
// of one and of several.
#include <gtest/gtest.h>

#include "assay/report/prose/prose.h"

namespace assay::report {
namespace {

using Sentences = std::vector<std::string>;

TaskFlips flips_of(const std::string& subject, std::int64_t to_wrong, std::int64_t to_right, double low,
                   double high, bool is_shown) {
  const double change = static_cast<double>(to_right - to_wrong) / 400;
  return {subject,  "float32", 400, to_wrong, to_right, change, low, high, is_shown ? 0.0012 : 0.42,
          is_shown, 0.045};
}
const TaskFlips kWorse = flips_of("nf4", 30, 6, -0.09, -0.03, true),
                kBetter = flips_of("int8", 6, 30, 0.03, 0.09, true),
                kUndecided = flips_of("fp4", 12, 8, -0.03, 0.01, false),
                kSame = flips_of("bfloat16", 0, 0, -0.01, 0.01, false);

std::string said_of(const TaskFlips& found) {
  const Sentences all = sentences_of(Finding(found));
  return all.size() == 1 ? all.front() : std::to_string(all.size());
}

TEST(TaskFlipsSaid, WhereTheConfigurationIsWorse) {
  EXPECT_EQ(
      said_of(kWorse),
      "nf4 flips 36 of 400 items of the task: 30 from right to wrong and 6 from wrong to right. Its "
      "accuracy changes by -6.0 points against float32 (95 % interval -9.0 to -3.0), which is more than "
      "chance (McNemar, p = 0.0012). With as many flips, 400 items show a change of 4.5 points nine "
      "times in ten.");
}

TEST(TaskFlipsSaid, WhereItIsBetter) {
  EXPECT_EQ(
      said_of(kBetter),
      "int8 flips 36 of 400 items of the task: 6 from right to wrong and 30 from wrong to right. Its "
      "accuracy changes by +6.0 points against float32 (95 % interval +3.0 to +9.0), which is more than "
      "chance (McNemar, p = 0.0012). With as many flips, 400 items show a change of 4.5 points nine "
      "times in ten.");
}

TEST(TaskFlipsSaid, WhereNothingTells) {
  EXPECT_EQ(
      said_of(kUndecided),
      "fp4 flips 20 of 400 items of the task: 12 from right to wrong and 8 from wrong to right. Its "
      "accuracy changes by -1.0 points against float32 (95 % interval -3.0 to +1.0), which may be chance "
      "(McNemar, p = 0.42). With as many flips, 400 items show a change of 4.5 points nine times in "
      "ten.");
  EXPECT_EQ(said_of(kSame), "bfloat16 answers all 400 items of the task as float32 does.");
}

TEST(TaskFlipsSaid, OfOneItemInTheSingular) {
  TaskFlips same = kSame, other = kUndecided;
  same.items = other.items = 1;
  EXPECT_EQ(said_of(same), "bfloat16 answers the 1 item of the task as float32 does.");
  EXPECT_NE(said_of(other).find("flips 20 of 1 item of the task"), std::string::npos) << said_of(other);
  EXPECT_NE(said_of(other).find("1 item shows a change"), std::string::npos) << said_of(other);
  const Sentences grouped = sentences_of(std::vector<Finding>(3, other));
  ASSERT_EQ(grouped.size(), 1U);
  EXPECT_NE(grouped[0].find("1 item shows a change"), std::string::npos) << grouped[0];
}

TEST(TaskFlipsSaid, OfSeveralWhatIsShownStandsAlone) {
  const TaskFlips other = flips_of("fp4-dq", 14, 6, -0.04, 0, false);
  const std::vector<Finding> all{kUndecided, kWorse, other, kBetter};
  EXPECT_EQ(
      sentences_of(all),
      (Sentences{said_of(kWorse), said_of(kBetter),
                 "No change of accuracy against float32 is shown for fp4 and fp4-dq: their 95 % intervals "
                 "lie between -4.0 and +1.0 points. With as many flips as fp4 has, 400 items show a change "
                 "of 4.5 points nine times in ten."}));
  // One alone has its own sentence, and so have all where all are shown.
  EXPECT_EQ(sentences_of(std::vector<Finding>{kWorse, kUndecided, kBetter}),
            (Sentences{said_of(kWorse), said_of(kBetter), said_of(kUndecided)}));
  TaskFlips third = kWorse;
  third.subject = "fp4";
  EXPECT_EQ(sentences_of(std::vector<Finding>{kWorse, third, kBetter}),
            (Sentences{said_of(kWorse), said_of(third), said_of(kBetter)}));
  // Nothing flips at all.
  TaskFlips a = kSame, b = kSame, c = kSame;
  a.subject = "a";
  b.subject = "b";
  a.detectable_change = b.detectable_change = c.detectable_change = 0;
  EXPECT_EQ(
      sentences_of(std::vector<Finding>{a, b, c}),
      Sentences{"No change of accuracy against float32 is shown for a, b and bfloat16: their 95 % intervals "
                "lie between -1.0 and +1.0 points."});
}

}  // namespace
}  // namespace assay::report
