// The exercises' functions, called as the exercises call them.
#include <gtest/gtest.h>

#include "assay/assay.h"
#include "assay/base/error.h"
#include "support/fixtures.h"

namespace assay {
namespace {

TEST(ResolveDtype, LabelsAreHonest) {
  const Device cpu;
  EXPECT_EQ(resolve_dtype("float32", cpu).label, "float32");
  EXPECT_EQ(resolve_dtype("FP32", cpu).label, "float32");
  const ResolvedDtype half = resolve_dtype("Float16", cpu);
  EXPECT_EQ(half.label, "float32 (forced on CPU)");
  EXPECT_EQ(half.precision.name, "float32");
  const ResolvedDtype brain = resolve_dtype("bf16", cpu);
  EXPECT_EQ(brain.label, "bfloat16");
  EXPECT_EQ(brain.precision.kv_cache, KvFormat::bfloat16);
  try {
    resolve_dtype("flot16", cpu);
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(),
                 "unknown precision 'flot16': expected one of float32, float16, bfloat16, int8-dynamic, "
                 "int8-static, llm-int8, nf4, fp4, nf4-dq, fp4-dq, int4-g128; the nearest is float16");
  }
}

TEST(LoadModelAndTokenizer, TriesCandidatesInOrder) {
  const std::string good = test::fixture_model("with_tokenizer").string();
  const LoadedModel loaded =
      load_model_and_tokenizer({"/nonexistent/model", good, "demo"}, "float32", Device{});
  EXPECT_EQ(loaded.id, good);
  EXPECT_EQ(loaded.load_line(), "Loaded: " + good + " | device=cpu | dtype=float32");
  try {
    load_model_and_tokenizer({"/nonexistent/one", "no/such-model"}, "float32", Device{});
    FAIL();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("/nonexistent/one"), std::string::npos);
    EXPECT_NE(text.find("no/such-model"), std::string::npos);
  }
  EXPECT_THROW(load_model_and_tokenizer({}, "float32", Device{}), UsageError);
}

TEST(LoadModelAndTokenizer, AFolderWithoutATokenizerServesIdsAlone) {
  const std::string base = test::fixture_model("base").string();
  EXPECT_THROW(load_model_and_tokenizer({base}, "float32", Device{}), Error);
  LoadOptions options;
  options.needs_tokenizer = false;
  const LoadedModel loaded = load_model_and_tokenizer({base}, "float32", Device{}, options);
  EXPECT_EQ(time_generate(loaded, std::vector<TokenId>{1, 2, 3}).tokens_generated, 50);
  EXPECT_THROW(time_generate(loaded, "text"), Error);
}

TEST(TimeGenerate, GivesItsKeys) {
  const LoadedModel loaded =
      load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, "float32", Device{});
  TimeOptions options;
  options.max_new_tokens = 20;
  const TimedGeneration t = time_generate(loaded, "a text", options);
  EXPECT_EQ(t.tokens_generated, 20);
  EXPECT_EQ(t.ids.size(), 20u);
  EXPECT_GT(t.total_latency_s, 0);
  EXPECT_NEAR(t.tokens_per_sec, 20 / t.total_latency_s, 1e-6 * t.tokens_per_sec);
  EXPECT_NEAR(t.avg_latency_per_token_ms, 1000 * t.total_latency_s / 20, 1e-9);
  ASSERT_EQ(t.token_times_s.size(), 20u);
  EXPECT_EQ(t.token_times_s.front(), t.time_to_first_token_s);
  EXPECT_LE(t.token_times_s.back(), t.total_latency_s);
  EXPECT_GT(t.prefill_tokens_per_sec, 0);
  EXPECT_GT(t.decode_tokens_per_sec, 0);
  options.uses_cache = false;
  EXPECT_EQ(time_generate(loaded, "a text", options).ids, t.ids);
  const TextAndTime text = generate_text_and_time(loaded, "a text", options);
  EXPECT_EQ(text.text, t.text);
  EXPECT_GT(text.latency_s, 0);
}

TEST(GetModelMemoryFootprint, IsThatOfTransformers) {
  const LoadedModel loaded =
      load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, "float32", Device{});
  const ModelSpec& s = loaded.model->spec();
  const std::int64_t d = s.hidden;
  EXPECT_EQ(get_model_memory_footprint(*loaded.model).value,
            4 * ((s.vocab + s.context) * d + s.layers * (12 * d * d + 13 * d) + 2 * d));
}

TEST(RunBaseline, FillsARowPerPromptAndKeepsFailuresAsRows) {
  const LoadedModel loaded =
      load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, "float32", Device{});
  BaselineOptions options;
  options.prompts = {"one", std::string(500, 'x')};  // the second exceeds the context of 64
  options.corpus = test::fixture_model("with_tokenizer") / "prompt.txt";
  options.max_new_tokens = 10;
  const ResultSet results = run_baseline(loaded, options);
  ASSERT_EQ(results.rows.size(), 3u);
  EXPECT_EQ(results.rows[0].status, "ok");
  EXPECT_EQ(results.rows[0].find("total_latency_s")->samples.size(), 3u);
  EXPECT_EQ(results.rows[1].status, "error");
  EXPECT_NE(results.rows[1].reason.find("exceed the model's context of 64"), std::string::npos);
  EXPECT_EQ(results.rows[1].find("total_latency_s"), nullptr);
  EXPECT_GT(results.rows[2].find("perplexity")->value, 1);
  EXPECT_EQ(results.status, "complete");
  EXPECT_EQ(results.texts.size(), 1u);
  options.should_stop = [] { return true; };
  EXPECT_EQ(run_baseline(loaded, options).status, "interrupted");
}

}  // namespace
}  // namespace assay
