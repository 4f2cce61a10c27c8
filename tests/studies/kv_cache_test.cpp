// The study of KV cache formats, found by its name and set by its options, as a command does.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/studies/registry.h"
#include "support/fixtures.h"
#include "support/prose.h"

namespace assay {
namespace {

class KvCacheStudy : public testing::Test {
 protected:
  KvCacheStudy() : local_({test::fixture_model("with_tokenizer").string()}, RunConfig{}, sweep()) {}
  static SweepOptions sweep() {
    SweepOptions sweep;
    sweep.repeats = 6;
    return sweep;
  }
  void set(const std::string& name, const OptionValue& value) {
    for (const StudyOption& option : study_.options)
      if (option.name == name) return option.set(options_, value);
    FAIL() << "no option " << name;
  }
  const Study& study_ = study_named("kv-cache");
  std::any options_ = study_.defaults;
  LocalExperiment local_;
};

TEST_F(KvCacheStudy, ComparesMemoryAndSpeedOfTheFormats) {
  set("length", std::int64_t{40});
  set("max-new-tokens", std::int64_t{8});
  const ExperimentResult result = study_.run(local_, options_);
  ASSERT_EQ(result.rows.size(), 3U);
  const char* labels[] = {"float32", "bfloat16", "int8"};
  std::vector<double> bytes;
  for (std::size_t i = 0; i < 3; ++i) {
    const Row& row = result.rows[i];
    EXPECT_EQ(row.label, labels[i]);
    ASSERT_EQ(row.status, RowStatus::ok) << row.reason;
    EXPECT_EQ(row.find("prompt_tokens")->value, 40);
    EXPECT_GT(row.find("decode_tokens_per_sec")->value, 0);
    bytes.push_back(row.find("kv_cache_bytes")->value);
  }
  EXPECT_LT(bytes[2], bytes[0]);
  EXPECT_EQ(result.comparisons.size(), 2U);
  ASSERT_EQ(test::remarks_of(result).size(), 2U);
  const std::string expected =
      fmt::format("int8 take {:.2f} times the memory of float32", bytes[2] / bytes[0]);
  EXPECT_NE(test::remarks_of(result)[1].find(expected), std::string::npos) << test::remarks_of(result)[1];
}

TEST_F(KvCacheStudy, TakesTheLongestPromptThatFits) {
  const std::vector<Case> cases = study_.cases(local_, options_);
  ASSERT_EQ(cases.size(), 3U);
  EXPECT_EQ(std::get<std::vector<TokenId>>(cases[0].prompts[0]).size(), 32U) << "64 less 32 new tokens";
  EXPECT_EQ(cases[2].configuration.kv_cache, KvFormat::int8);
}

TEST_F(KvCacheStudy, RefusesWhatCannotBe) {
  set("length", std::int64_t{33});
  try {
    study_.cases(local_, options_);
    ADD_FAILURE() << "33 and 32 tokens were taken for 64";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a prompt of 33 tokens and 32 new ones exceed the model's context of 64");
  }
  set("length", std::int64_t{4});
  set("kv-cache", std::vector<std::string>{"float32", "int3"});
  EXPECT_THROW(study_.cases(local_, options_), UsageError);
}

}  // namespace
}  // namespace assay
