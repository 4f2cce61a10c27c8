// Bytes and FLOPs counted from the plan, against sums done by hand.
#include "assay/backend/plan.h"

#include <gtest/gtest.h>

#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "support/fixtures.h"

namespace assay {
namespace {

TEST(CostOf, GrowsWithRowsAndPastAsItShould) {
  // minimal: one layer, width 8, one head of 8, vocabulary 11.
  const ModelFolder folder(test::fixture_model("minimal"));
  const Plan plan = plan_forward(spec_from_folder(folder), precision_from_name("float32"));
  const Cost one = cost_of(plan, 1, 0, 1), later = cost_of(plan, 1, 3, 1), two = cost_of(plan, 2, 0, 1);
  // A key and a value of 8 float32 for each position, read once.
  EXPECT_EQ(one.kv_bytes.value, 2 * 8 * 4);
  EXPECT_EQ(later.kv_bytes.value, 4 * 2 * 8 * 4);
  // Three more keys: a product with the keys and one with the values, two FLOPs per element each.
  EXPECT_DOUBLE_EQ(later.flops.value - one.flops.value, 4.0 * 3 * 8);
  // A second row costs its matrices (12 * 8 * 8 weights), two more keys, an embedding and two norms; no
  // weight is read again but its rows of the tables.
  EXPECT_DOUBLE_EQ(two.flops.value - one.flops.value, 2.0 * 12 * 64 + 4.0 * 2 * 8 + 8 + 2 * 8.0 * 8);
  EXPECT_EQ(two.weight_bytes.value - one.weight_bytes.value, 2 * 8 * 4);
  // The head and its norm, for one row.
  EXPECT_DOUBLE_EQ(two.flops.value - cost_of(plan, 2, 0, 0).flops.value, 2.0 * 11 * 8 + 8.0 * 8);
  EXPECT_EQ(two.weight_bytes.value - cost_of(plan, 2, 0, 0).weight_bytes.value, (11 * 8 + 2 * 8) * 4);
}

}  // namespace
}  // namespace assay
