// A plan in parts: layers of their own, all operations in order.
#include "assay/plan/sections.h"

#include <gtest/gtest.h>

#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "support/family_models.h"
#include "support/fixtures.h"

namespace assay {
namespace {

TEST(SectionsOf, ALayerOfEveryFamilyIsOne) {
  std::vector<std::string> models(std::begin(test::kFamilyModels), std::end(test::kFamilyModels));
  models.insert(models.end(), {"base", "llama_grouped"});
  for (const std::string& name : models) {
    SCOPED_TRACE(name);
    const ModelSpec spec = spec_from_source(ModelFolder(test::fixture_model(name)));
    const Plan whole = plan_forward(spec, precision_from_name("float32"));
    const std::vector<Section> sections = sections_of(whole);
    ASSERT_EQ(sections.size(), static_cast<std::size_t>(spec.layers));
    std::vector<std::string> names;
    for (const Section& section : sections) {
      const bool is_first = &section == &sections.front();
      EXPECT_EQ(section.states == kNone, is_first);
      EXPECT_EQ(section.plan.layers, 1);
      EXPECT_EQ(section.plan.ops.back().name, "probe");
      for (std::size_t i = is_first ? 0 : 1; i + 1 < section.plan.ops.size(); ++i)
        names.push_back(section.plan.ops[i].name);
      ASSERT_EQ(section.whole.size(), section.plan.weights.size());
      for (std::size_t id = 0; id < section.whole.size(); ++id)
        if (const WeightId at = section.whole[id]; at != kNone) {
          EXPECT_EQ(section.plan.weights[id].name, whole.weight(at).name);
        }
    }
    std::vector<std::string> all;
    for (const Op& op : whole.ops) all.push_back(op.name);
    EXPECT_EQ(names, all);
  }
}

}  // namespace
}  // namespace assay
