// Operations by kind: their costs are those of the step.
#include "assay/plan/operation_groups.h"

#include <gtest/gtest.h>

#include <set>

#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

TEST(OperationGroups, HoldEveryOperationOnceAndAllThatAStepCosts) {
  const Model model = Model::load(std::make_shared<const ModelFolder>(test::fixture_model("llama_grouped")),
                                  test::cpu_backend(Isa::scalar), precision_from_name("nf4"));
  const Plan& plan = model.program().plan();
  Cost all;
  std::set<std::size_t> seen;
  for (const OperationGroup& group : operation_groups(plan, 1, 40, 1)) {
    all += group.cost;
    for (const std::size_t i : group.operations) EXPECT_TRUE(seen.insert(i).second) << group.name;
    EXPECT_EQ(group.name.find_first_of("0123456789"), std::string::npos) << group.name;
    if (group.name == "lm_head") {
      EXPECT_EQ(group.kind, "matmul");
      EXPECT_EQ(group.operations.front(), plan.ops.size());
    } else if (group.kind == "matmul") {
      EXPECT_EQ(group.format, formats::kNf4) << group.name;
      EXPECT_EQ(group.operations.size(), static_cast<std::size_t>(plan.layers)) << group.name;
    }
  }
  EXPECT_EQ(seen.size(), plan.ops.size() + 1);
  const Cost want = cost_of(plan, 1, 40, 1);
  EXPECT_EQ(all.weight_bytes, want.weight_bytes);
  EXPECT_EQ(all.kv_bytes, want.kv_bytes);
  EXPECT_DOUBLE_EQ(all.flops.value, want.flops.value);
}

}  // namespace
}  // namespace assay
