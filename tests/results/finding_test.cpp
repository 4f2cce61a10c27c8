// Findings of every kind survive their files, and unknown ones are refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/results/finding_json.h"
#include "support/prose.h"

namespace assay {
namespace {

Comparison slower(const std::string& subject, const std::string& baseline) {
  Comparison c;
  c.scenario = Scenario::batches;
  c.subject = subject;
  c.baseline = baseline;
  c.metric = "total_latency_s";
  c.ratio = 1.5;
  c.verdict = Verdict::higher;
  c.processes = 5;
  return c;
}

std::vector<Finding> one_of_each() {
  NoiseFinding noise{{0.01, 0.02, 0.005, 5, 3, 0.03}, 0.04};
  const TextDivergence text{"nf4", {{3, 8, 0.75, 0.25}, {8, 8, 0, 0}}};
  return {noise,
          text,
          LengthTrend{{slower("b", "a")}},
          StepFit{false, {1, 0.5, 0.25}, 0.75},
          StepCrossing{5, 2, 9},
          CacheWithoutGain{slower("off", "on")},
          PaddingOverhead{10, 40, slower("padded left", "no padding")},
          SlowerBatch{slower("batch 4", "batch 1")},
          KvCacheSaving{"int8", "float32", 0.25, slower("int8", "float32")},
          EdgeDifference{slower("code", "typical"), "decode", 80, 40, 20},
          ThreadChoice{"2 threads", true, {}},
          TaskFlips{"nf4", "float32", 200, 8, 3, -0.025, -0.06, 0.01, 0.23, true, 0.05},
          KlComparison{"nf4", "fp4", "float32", 0.01, 0.02, 0.008, 0.012, true, false, 300},
          StatedFinding{"As it was said."}};
}

TEST(Findings, AreReadAsTheyAreWritten) {
  const std::vector<Finding> all = one_of_each();
  ASSERT_EQ(all.size(), std::variant_size_v<Finding>);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].index(), i);
    const nlohmann::ordered_json json = to_json(all[i]);
    const Finding back = finding_from_json(JsonReader(json, "f"));
    EXPECT_EQ(back.index(), i);
    EXPECT_EQ(to_json(back).dump(), json.dump());
    EXPECT_EQ(report::sentences_of(back), report::sentences_of(all[i]));
  }
}

TEST(Findings, OfUnknownKindsAreRefused) {
  const nlohmann::ordered_json json{{"kind", "guess"}};
  try {
    finding_from_json(JsonReader(json, "f"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "f: kind: this program knows no finding of this kind");
  }
}

TEST(Findings, AreWholeSentences) {
  const std::vector<Finding> all = one_of_each();
  EXPECT_EQ(
      report::sentences_of(all[1])[0],
      "nf4 diverges from the baseline's text: prompt 1 after 3 tokens (a repeated passage makes up 75 % "
      "of it, more than in the baseline's), prompt 2 not at all.");
  EXPECT_EQ(report::sentences_of(all[5])[0], "The KV cache does not help: off is 1.5x slower than on.");
  EXPECT_EQ(report::sentences_of(all[7])[0],
            "The same prompts take longer in a larger batch: batch 4 is 1.5x slower than batch 1.");
}

TEST(Prose, NamesFactorsNumbersAndLists) {
  Comparison c = slower("a", "b");
  EXPECT_EQ(report::factor_of(c), "1.5x slower");
  c.ratio = 0.63;
  EXPECT_EQ(report::factor_of(c), "1.59x faster");
  c.metric = "tokens_per_sec";
  EXPECT_EQ(report::factor_of(c), "1.59x slower");
  EXPECT_EQ(report::with_commas(4470272), "4,470,272");
  EXPECT_EQ(report::with_commas(999), "999");
  EXPECT_EQ(report::with_commas(-1000), "-1,000");
  const std::vector<std::string> labels = {"a", "b", "c", "d", "e", "f"};
  const auto first = [&](std::size_t n) { return report::joined(std::span(labels).first(n)); };
  EXPECT_EQ(first(0), "");
  EXPECT_EQ(first(2), "a and b");
  EXPECT_EQ(first(4), "a, b, c and d");
  EXPECT_EQ(first(5), "a, b, c, d and 1 other");
  EXPECT_EQ(first(6), "a, b, c, d and 2 others");
  EXPECT_EQ(report::joined(std::vector<std::string>{"nf4, KV cache int8", "fp4"}),
            "nf4, KV cache int8; and fp4");
}

// Three precisions or more of a kind have a common name.
TEST(Prose, NamesPrecisionsByTheirKind) {
  using Labels = std::vector<std::string>;
  EXPECT_EQ(report::joined(Labels{"int8-static+head:int8", "llm-int8+head:int8"}),
            "int8-static+head:int8 and llm-int8+head:int8");
  EXPECT_EQ(report::joined(Labels{"nf4", "fp4", "nf4-dq"}), "the 4-bit precisions (nf4, fp4 and nf4-dq)");
  EXPECT_EQ(report::joined(Labels{"fp4", "fp4-dq", "fp4+head:fp4"}),
            "the fp4 precisions (fp4, fp4-dq and fp4+head:fp4)");
  EXPECT_EQ(report::joined(Labels{"bfloat16", "int8-dynamic+head:int8", "int8-static+head:int8",
                                  "llm-int8+head:int8", "nf4"}),
            "bfloat16, the int8 precisions with a quantized LM head (int8-dynamic+head:int8, "
            "int8-static+head:int8 and llm-int8+head:int8) and nf4");
  // A long list of a kind is cut, and what is cut is counted by configurations.
  Labels many;
  for (int i = 0; i < 11; ++i) many.push_back("int4-g" + std::to_string(16 << i));
  EXPECT_TRUE(report::joined(many).ends_with(" and 3 others)")) << report::joined(many);
  EXPECT_EQ(report::joined(Labels{"a", "b", "c", "d", "nf4", "fp4", "nf4-dq"}), "a, b, c, d and 3 others");
}

}  // namespace
}  // namespace assay
