// Which of the two smallest configurations diverges less: the sentence where it is shown, where the other one
// is better, and where nothing tells.
#include <gtest/gtest.h>

#include "assay/results/takeaways.h"
#include "support/prose.h"

namespace assay {
namespace {

std::string said_of(const KlComparison& comparison) {
  ResultSet results;
  results.findings.emplace_back(comparison);
  const std::vector<std::string> all = test::takeaway_texts(results);
  return all.size() == 1 ? all.front() : std::to_string(all.size());
}

TEST(DivergenceTakeaway, SaysWhichIsBetter) {
  const KlComparison nf4_better{"nf4", "fp4", "float32", 0.0123, 0.02, 0.0071, 0.0082, true, false, 300};
  EXPECT_EQ(
      said_of(nf4_better),
      "Divergence from float32, of the two smallest: nf4 diverges less than fp4 (KL 0.0123 and 0.0200 nats "
      "per token; difference [0.0071, 0.0082]).");
  const KlComparison reversed{"fp4", "nf4", "float32", 0.0123, 0.02, 0.0071, 0.0082, true, false, 300};
  EXPECT_EQ(
      said_of(reversed),
      "Divergence from float32, of the two smallest: fp4 diverges less than nf4 (KL 0.0123 and 0.0200 nats "
      "per token; difference [0.0071, 0.0082]).");
}

TEST(DivergenceTakeaway, SaysWhereNothingTells) {
  KlComparison undecided{"nf4", "fp4", "float32", 0.019, 0.02, -0.001, 0.003, false, false, 52000};
  EXPECT_EQ(
      said_of(undecided),
      "Divergence from float32, of the two smallest: nf4 and fp4 are not told apart (KL 0.0190 and 0.0200 "
      "nats per token); a text of about 52000 tokens would probably tell.");
  undecided.tokens_needed = 0;
  EXPECT_EQ(
      said_of(undecided),
      "Divergence from float32, of the two smallest: nf4 and fp4 are not told apart (KL 0.0190 and 0.0200 "
      "nats per token).");
  undecided.is_decided = undecided.is_within_floor = true;
  EXPECT_EQ(
      said_of(undecided),
      "Divergence from float32, of the two smallest: nf4 and fp4 are not distinguishable from the noise "
      "floor (KL 0.0190 and 0.0200 nats per token).");
}

TEST(DivergenceTakeaway, IsNoneWhereNothingWasMeasured) {
  EXPECT_TRUE(test::takeaway_texts(ResultSet{}).empty());
}

}  // namespace
}  // namespace assay
