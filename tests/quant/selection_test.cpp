// Patterns of module names.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/quant/selection.h"

namespace assay {
namespace {

const std::string kModule = "transformer.h.1.mlp.c_fc";

TEST(Selection, PatternsAreOfTheWholeNameOrAPartOfIt) {
  EXPECT_TRUE(matches_pattern("h.1.", kModule));
  EXPECT_TRUE(matches_pattern("c_fc", kModule));
  EXPECT_FALSE(matches_pattern("h.1.", "transformer.h.11.mlp.c_fc"));
  EXPECT_TRUE(matches_pattern("*.c_fc", kModule));
  EXPECT_FALSE(matches_pattern("*.c_f", kModule));
  EXPECT_FALSE(matches_pattern("h.1.*", kModule));
  EXPECT_TRUE(matches_pattern("transformer.h.[01].mlp.c_??", kModule));
  EXPECT_TRUE(matches_pattern("transformer.h.[01].mlp.c_fc", kModule));
  EXPECT_FALSE(matches_pattern("transformer.h.[!01].mlp.c_fc", kModule));
}

TEST(Selection, ExcludeWinsOverInclude) {
  const ModuleSelection all{}, some{{"mlp"}, {"h.1."}};
  EXPECT_TRUE(all.selects(kModule));
  EXPECT_EQ(some.why_left_out(kModule), "matches exclude");
  EXPECT_EQ(some.why_left_out("transformer.h.0.attn.c_proj"), "matches no pattern of include");
  EXPECT_TRUE(some.selects("transformer.h.0.mlp.c_fc"));
}

TEST(Selection, APatternThatMatchesNothingIsAnError) {
  const std::vector<std::string> modules{kModule};
  EXPECT_NO_THROW((ModuleSelection{{"mlp"}, {"c_fc"}}.check(modules)));
  EXPECT_THROW((ModuleSelection{{"mpl"}, {}}.check(modules)), UsageError);
  EXPECT_THROW((ModuleSelection{{}, {"*.c_f"}}.check(modules)), UsageError);
  EXPECT_THROW((ModuleSelection{{}, {""}}.check(modules)), UsageError);
  EXPECT_THROW((ModuleSelection{{std::string(300, 'h')}, {}}.check(modules)), UsageError);
}

}  // namespace
}  // namespace assay
