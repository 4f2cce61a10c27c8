// Names of configurations in files of earlier versions become those that users type.
#include "assay/results/earlier_names.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/results/results_json.h"

namespace assay {
namespace {

TEST(EarlierNames, OfAQuantizedLmHead) {
  EXPECT_EQ(current_name("nf4, lm_head int8"), "nf4+head:int8");
  EXPECT_EQ(current_name("nf4, dtype bfloat16, lm_head fp4, KV cache int8"),
            "nf4+head:fp4, dtype bfloat16, KV cache int8");
  EXPECT_EQ(current_name("nf4, lm_head nf4, prompt 1"), "nf4+head:nf4, prompt 1");
  EXPECT_EQ(current_name("gpt2: nf4, lm_head nf4"), "gpt2: nf4+head:nf4");
  EXPECT_EQ(current_name("the whole study (nf4; nf4, lm_head nf4; fp4, lm_head fp4)"),
            "the whole study (nf4; nf4+head:nf4; fp4+head:fp4)");
  for (const char* as_it_is : {"nf4", "", "bfloat16, lm_head search int8", "as stored, lm_head int8",
                               "nf4, lm_head", "nf4, lm_head int88", "nf4+head:int8, dtype bfloat16"})
    EXPECT_EQ(current_name(as_it_is), as_it_is);
}

TEST(EarlierNames, AreRenamedInEveryPartOfAFile) {
  const std::string old = "nf4, lm_head int8", now = "nf4+head:int8";
  ResultSet results;
  results.created = "2026";
  Row row;
  row.label = old;
  row.parameters = {{"configuration", old}, {"precision", old}};
  row.setting.precision = "nf4";
  results.rows = {row};
  Comparison c;
  c.subject = c.baseline = old;
  c.metric = "total_latency_s";
  results.comparisons = results.other_comparisons = {c};
  results.texts = {{old + ", prompt 1", "p", "t", {}, {}, Scenario::tradeoff, old}};
  AuditRow audit;
  audit.configuration = old;
  results.audit = {audit};
  results.left_out = {{"lengths", old, "", "", 0}};
  results.findings = {TextDivergence{old, {}}, KlComparison{old, old, old, 0, 0, 0, 0, true, false, 0},
                      KvCacheSaving{old, old, 1, c}, LengthTrend{{c}},
                      StatedFinding{"said of " + old + " then"}};
  const nlohmann::ordered_json json = to_json(results);
  ASSERT_NE(json.dump().find(old), std::string::npos);
  const ResultSet read = results_from_json(json, "f");
  EXPECT_EQ(to_json(read).dump().find("lm_head int8\""), std::string::npos) << to_json(read).dump(1);
  EXPECT_EQ(read.rows[0].label, now);
  EXPECT_EQ(read.rows[0].parameter("configuration"), now);
  EXPECT_EQ(read.comparisons[0].subject, now);
  EXPECT_EQ(read.texts[0].generated_by, now);
  EXPECT_EQ(std::get<KlComparison>(read.findings[1]).other, now);
  EXPECT_EQ(std::get<KvCacheSaving>(read.findings[2]).decode_step->baseline, now);
}

}  // namespace
}  // namespace assay
