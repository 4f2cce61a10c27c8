// The exercises' functions, called as the exercises call them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "assay/assay.h"
#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/results/results_json.h"
#include "assay/session/resolve.h"
#include "assay/studies/precisions.h"
#include "support/fixtures.h"
#include "support/prose.h"
#include "support/temporary_folder.h"

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
    const std::string said = e.what();
    EXPECT_TRUE(said.starts_with("precision: expected one of float32, float16, bfloat16, int8-dynamic, "));
    EXPECT_TRUE(said.ends_with("q3_k, q2_k, found 'flot16'; the nearest is float16"));
  }
}

TEST(ResolveDtype, Float16IsFloat16OnAGpu) {
  const Device gpu{Device::Kind::cuda, 0};
  const ResolvedDtype half = resolve_dtype("fp16", gpu);
  EXPECT_EQ(half.label, "float16");
  EXPECT_EQ(half.precision.weights, formats::kFloat16);
  EXPECT_EQ(half.precision.lm_head, formats::kFloat16);
  EXPECT_EQ(half.precision.dtype, formats::kFloat16);
  EXPECT_EQ(half.precision.kv_cache, KvFormat::float16);
  EXPECT_EQ(resolve_dtype("auto", gpu).precision.weights, formats::kFloat32);
  // Beside quantized weights everything else; what was asked for the cache stays.
  Precision nf4 = precision_from_name("nf4");
  nf4.kv_cache = KvFormat::int8;
  use_float16(nf4);
  EXPECT_EQ(nf4.weights, formats::kNf4);
  EXPECT_EQ(nf4.dtype, formats::kFloat16);
  EXPECT_EQ(nf4.kv_cache, KvFormat::int8);
}

TEST(Baseline, IsFloat16OnAGpuAndFloat32OnACpu) {
  EXPECT_EQ(baseline_preset(Device{}), Preset::float32);
  EXPECT_EQ(baseline_preset({Device::Kind::cuda, 0}), Preset::float16);
  EXPECT_EQ(default_precisions(Device{}).front(), "float32");
  EXPECT_EQ(default_precisions({Device::Kind::cuda, 0}).front(), "float16");
  EXPECT_EQ(default_precisions({Device::Kind::cuda, 0}).size(), default_precisions(Device{}).size());
}

TEST(ResolveDtype, AnAutomaticDeviceIsOneThatIsThere) {
  const Device any = device_from_name("auto"), chosen = chosen_device(any);
  EXPECT_EQ(any.text(), "auto");
  EXPECT_NE(chosen, any);
  EXPECT_EQ(chosen_device({Device::Kind::cuda, 3}), (Device{Device::Kind::cuda, 3}));
  EXPECT_EQ(resolve_dtype("float16", any).label, resolve_dtype("float16", chosen).label);
  // What only a CPU can do asks for it.
  RunConfig config;
  config.device = any;
  EXPECT_EQ(device_of(config), chosen);
  config.isa = Isa::scalar;
  EXPECT_EQ(device_of(config), Device{});
  config.isa.reset();
  config.cpu_mask = {0};
  EXPECT_EQ(device_of(config), Device{});
  config.device = Device{Device::Kind::cuda, 0};
  EXPECT_EQ(device_of(config), *config.device);
}

// Formats of GPUs are errors on a CPU, not other numbers.
TEST(LoadModelAndTokenizer, FormatsOfGpusAreRefusedOnACpu) {
  const std::string good = test::fixture_model("with_tokenizer").string();
  RunConfig config = run_config_from_text("float32");
  config.float32_matmul = Float32Matmul::tf32;
  EXPECT_THROW(load_model_and_tokenizer({good}, config), Error);
  const auto folder = std::make_shared<const ModelFolder>(test::fixture_model("base"));
  Precision half = precision_from_name("float32");
  use_float16(half);
  EXPECT_THROW(Model::load(folder, test::cpu_backend(Isa::scalar), half), Error);
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

// An experiment on the small model: exactly `repeats` runs, so that tests are short.
SweepOptions sweep_of(std::int64_t repeats) {
  SweepOptions sweep;
  sweep.repeats = repeats;
  return sweep;
}
const std::string& model() {
  static const std::string path = test::fixture_model("with_tokenizer").string();
  return path;
}

void expect_metrics(const Row& row, std::size_t samples) {
  ASSERT_EQ(row.status, RowStatus::ok) << row.label << ": " << row.reason;
  for (const char* tag :
       {"total_latency_s", "tokens_per_sec", "avg_latency_per_token_ms", "time_to_first_token_s",
        "prefill_latency_s", "decode_latency_s", "tokenize_s", "detokenize_s", "end_to_end_s"}) {
    ASSERT_NE(row.find(tag), nullptr) << row.label << " " << tag;
    EXPECT_EQ(row.find(tag)->samples.size(), samples) << tag;
  }
  EXPECT_GT(row.find("total_latency_s")->value, 0);
  if (row.find("sequences") == nullptr) {
    for (std::size_t i = 0; i < samples; ++i)
      EXPECT_NEAR(row.find("time_per_output_token_ms")->samples[i],
                  1e3 * row.find("decode_latency_s")->samples[i] / (row.find("tokens_generated")->value - 1),
                  1e-9);
  }
  EXPECT_GT(row.find("tokens_generated")->value, 0);
  EXPECT_GT(row.find("memory_bytes")->value, 0);
  EXPECT_GT(row.find("percent_of_roofline")->value, 0);
}

TEST(RunForVariedLengths, GivesARowPerLength) {
  const LocalExperiment experiment(load_model_and_tokenizer({model()}, "float32", Device{}), sweep_of(3));
  LengthsOptions options;
  options.lengths = {4, 16, 500, 0, 4};  // 500 exceeds the context of 64, 0 is the longest that fits
  options.base = "abc def ";
  options.new_tokens = 8;
  const ExperimentResult result = run_for_varied_lengths(experiment, options);
  ASSERT_EQ(result.rows.size(),
            3u);  // the same length twice is measured once, and 500 is the longest that fits
  const double expected[] = {4, 16, 56};
  for (std::size_t i = 0; i < 3; ++i) {
    expect_metrics(result.rows[i], 3);
    EXPECT_EQ(result.rows[i].find("prompt_tokens")->value, expected[i]);
    EXPECT_EQ(result.rows[i].find("tokens_generated")->value, 8);
  }
  const auto has = [](const Row& row, const std::string& word) {
    return std::any_of(row.warnings.begin(), row.warnings.end(),
                       [&](const Warning& warning) { return warning.text.find(word) != std::string::npos; });
  };
  EXPECT_TRUE(has(result.rows[0], "measured once"));
  EXPECT_TRUE(has(result.rows[0], "too few"));
  EXPECT_FALSE(result.rows[0].find("total_latency_s")->interval);
  EXPECT_EQ(result.rows[0].find("total_latency_s")->statistic, "mean");
  ASSERT_EQ(test::remarks_of(result).size(), 1u);
  EXPECT_EQ(test::remarks_of(result)[0],
            "From one prompt length to the next, latency has too few processes for a verdict in 2 of 2 "
            "comparisons.");
  options.lengths = {-1};
  EXPECT_THROW(run_for_varied_lengths(experiment, options), UsageError);
  options.lengths = {4};
  options.new_tokens = 64;
  EXPECT_THROW(run_for_varied_lengths(experiment, options), Error);
}

TEST(RunVariedPrecision, MeasuresEqualNamesOnce) {
  const LocalExperiment experiment({model()}, RunConfig{}, sweep_of(6));
  PrecisionsOptions options;
  options.precisions = {"float32", "float16", "bf16", "nf4", "nf4+head"};
  options.prompt = "a text";
  options.new_tokens = 6;
  const ExperimentResult result = run_varied_precision(experiment, options);
  ASSERT_EQ(result.rows.size(), 4u);
  EXPECT_EQ(result.rows[0].label, "float32");
  EXPECT_NE(
      result.rows[0].warnings.back().text.find("measured once for float16 too, which resolves to the same"),
      std::string::npos);
  EXPECT_EQ(result.rows[3].label, "nf4+head:nf4");
  for (const Row& row : result.rows) expect_metrics(row, 6);
  EXPECT_LT(result.rows[3].find("resident_weights_bytes")->value,
            result.rows[2].find("resident_weights_bytes")->value);
  ASSERT_EQ(result.comparisons.size(), 3u);
  EXPECT_EQ(result.comparisons[0].subject, "bfloat16");
  EXPECT_EQ(result.comparisons[0].baseline, "float32");
  EXPECT_EQ(result.comparisons[0].pairs, 6);
  options.precisions = {"float33"};
  EXPECT_THROW(run_varied_precision(experiment, options), UsageError);
  options.precisions = {"float32+head"};
  EXPECT_THROW(run_varied_precision(experiment, options), UsageError);
}

TEST(AblateCacheAndPadding, GivesRowsFitsAndAnAudit) {
  const LocalExperiment experiment(load_model_and_tokenizer({model()}, "float32", Device{}), sweep_of(6));
  AblationOptions options;
  options.lengths = {8, 16};
  options.base = "abc def ";
  options.new_tokens = 16;
  options.padded_prompts = {"a", "a longer text of more tokens", "b c"};
  const ExperimentResult result = ablate_cache_and_padding(experiment, options);
  for (const char* label : {"cache on, 8 tokens", "cache off, 8 tokens", "cache on, 16 tokens",
                            "cache off, 16 tokens", "no padding", "padded left", "padded right"}) {
    ASSERT_NE(result.find(label), nullptr) << label;
    expect_metrics(*result.find(label), 6);
  }
  EXPECT_EQ(result.find("no padding")->find("padding_waste_percent")->value, 0);
  const Row& left = *result.find("padded left");
  EXPECT_GT(left.find("padding_waste_percent")->value, 20);
  EXPECT_GT(left.find("padded_tokens_per_sec")->value, left.find("real_tokens_per_sec")->value);
  EXPECT_EQ(left.find("computed_prompt_tokens")->value,
            result.find("padded right")->find("computed_prompt_tokens")->value);
  ASSERT_EQ(result.audit.size(), 5u);
  for (const AuditRow& row : result.audit) {
    EXPECT_EQ(row.verdict, AuditVerdict::equal) << row.what << ": " << row.first_divergence;
    EXPECT_EQ(row.largest_difference, 0);
  }
  ASSERT_NE(result.find("cache on"), nullptr);  // the steps, for plots
  EXPECT_EQ(result.find("cache on")->find("step_latency_ms")->samples.size(), 30u);
}

TEST(MeasureBatched, CountsALastBatchAsWhatItIs) {
  const LocalExperiment experiment(load_model_and_tokenizer({model()}, "float32", Device{}), sweep_of(3));
  BatchedOptions options;
  options.prompts = {"a", "b c", "d e f", "g", "h i j k l"};
  options.batch_sizes = {1, 4, 8};
  options.new_tokens = 5;
  const ExperimentResult result = measure_batched(experiment, options);
  ASSERT_EQ(result.rows.size(), 3u);
  for (const Row& row : result.rows) {
    expect_metrics(row, 3);
    EXPECT_EQ(row.find("sequences")->value, 5);
    EXPECT_EQ(row.find("tokens_generated")->value, 25);
    EXPECT_GT(row.find("tokens_per_sec_per_sequence")->value, 0);
    EXPECT_GT(row.find("step_latency_ms")->value, 0);
  }
  EXPECT_EQ(result.rows[2].label, "batch 5");  // there are no more prompts
  EXPECT_NE(fmt::format("{}", fmt::join(sentences_of(result.rows[1].warnings), "; "))
                .find("the last batch holds 1 of 4"),
            std::string::npos);
  EXPECT_NE(fmt::format("{}", fmt::join(sentences_of(result.rows[2].warnings), "; "))
                .find("a batch of 8 was asked for, but there are 5"),
            std::string::npos);
  options.batch_sizes = {0};
  EXPECT_THROW(measure_batched(experiment, options), UsageError);
}

TEST(ProbeEdgePrompts, GivesARowPerPrompt) {
  const LocalExperiment experiment(load_model_and_tokenizer({model()}, "float32", Device{}), sweep_of(3));
  EdgeOptions options;
  options.new_tokens = 4;
  options.more = {{"mine", "a prompt"}, {"empty", ""}};
  const ExperimentResult result = probe_edge_prompts(experiment, options);
  ASSERT_EQ(result.rows.size(), 11u);
  std::vector<std::string> labels;
  for (const Row& row : result.rows) labels.push_back(row.label);
  for (const char* label : {"typical", "very short", "very long", "multi-line", "repetitive", "only blanks",
                            "rare Unicode", "digits", "code", "mine"})
    EXPECT_NE(std::find(labels.begin(), labels.end(), label), labels.end()) << label;
  expect_metrics(*result.find("very long"), 3);
  EXPECT_EQ(result.find("very long")->find("prompt_tokens")->value, 60);
  EXPECT_EQ(result.rows.back().status, RowStatus::error);
  EXPECT_NE(result.rows.back().reason.find("empty"), std::string::npos);
}

TEST(RunForVariedThreads, RecommendsANumber) {
  const LocalExperiment experiment({model()}, RunConfig{}, sweep_of(6));
  ThreadsOptions options;
  options.threads = {1, 2};
  options.prompt = "a";
  options.new_tokens = 4;
  const ExperimentResult result = run_for_varied_threads(experiment, options);
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_TRUE(test::remarks_of(result).empty()) << "one process recommends nothing";
}

TEST(RunQuantizationTradeoff, KeepsFailuresAsRowsAndTexts) {
  const LocalExperiment experiment({model()}, RunConfig{}, sweep_of(3));
  TradeoffOptions options;
  options.precisions = {"float32", "int8", "fp4"};
  options.prompts = {"one", "two"};
  options.new_tokens = 6;
  const ExperimentResult result = run_quantization_tradeoff(experiment, options);
  ASSERT_EQ(result.rows.size(), 3u);
  for (const Row& row : result.rows) {
    expect_metrics(row, 3);
    EXPECT_NE(row.find("load_s"), nullptr);
  }
  EXPECT_EQ(result.texts.size(), 6u);
  EXPECT_EQ(result.texts[0].label, "float32, prompt 1");
  options.prompts = {std::string(500, 'x')};
  const ExperimentResult failed = run_quantization_tradeoff(experiment, options);
  ASSERT_EQ(failed.rows.size(), 3u);
  for (const Row& row : failed.rows) {
    EXPECT_EQ(row.status, RowStatus::error);
    EXPECT_NE(row.reason.find("context of 64"), std::string::npos);
    EXPECT_EQ(row.find("total_latency_s"), nullptr);
  }
}

TEST(RepetitionShare, OfTheEnd) {
  EXPECT_EQ(repetition_share({}), 0);
  EXPECT_EQ(repetition_share({1, 2, 3, 4}), 0);
  EXPECT_EQ(repetition_share({1, 1, 1, 1}), 1);
  EXPECT_EQ(repetition_share({9, 8, 1, 2, 1, 2, 1, 2}), 0.75);
}

TEST(ComparePpplx, SumsLossesOverTokens) {
  const LoadedModel a = load_model_and_tokenizer({model()}, "float32", Device{});
  const LoadedModel b = load_model_and_tokenizer({model()}, "fp4", Device{});
  const std::vector<std::string> sentences = {"a first sentence", "b", "and another one, longer than that"};
  const auto compared = compare_ppplx({{"float32", &a}, {"fp4", &b}}, sentences);
  ASSERT_EQ(compared.size(), 2u);
  EXPECT_EQ(compared[0].first, "float32");
  double sum = 0, tokens = 0;
  for (const std::string& sentence : sentences) {
    const auto ids = a.tokenizer->encode(sentence);
    if (ids.size() < 2) continue;
    const Score one = score(a.model->program(), ids, {});
    sum += one.loss * static_cast<double>(one.tokens_scored);
    tokens += static_cast<double>(one.tokens_scored);
  }
  EXPECT_DOUBLE_EQ(compared[0].second.loss, sum / tokens);
  EXPECT_DOUBLE_EQ(compared[0].second.ppx, std::exp(sum / tokens));
  EXPECT_NE(compared[1].second.loss, compared[0].second.loss);
  for (const auto& [label, own] : compared) {
    const bool is_bad = !uniform_warning(own.ppx, a.model->spec().vocab).empty();
    EXPECT_EQ(std::count_if(own.warnings.begin(), own.warnings.end(),
                            [](const Warning& w) { return w.kind == WarningKind::worse_than_uniform; }),
              is_bad ? 1 : 0)
        << label << " " << own.ppx;
  }
  EXPECT_THROW(compare_ppplx({{"float32", &a}}, {"b"}), Error);
}

// A model that knows less than nothing: another tokenizer's, or wrong weights.
TEST(UniformWarning, FromThePerplexityOfAGuessOn) {
  EXPECT_EQ(uniform_warning(299.9, 300), "");
  for (const double perplexity : {300.0, 1e6})
    EXPECT_NE(uniform_warning(perplexity, 300).find("no better than guessing among the 300 tokens"),
              std::string::npos);
  const LoadedModel loaded = load_model_and_tokenizer({model()}, "float32", Device{});
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < 200; ++id) ids.push_back((id * 7919) % 300);
  const CorpusScore bad = score_ids(loaded, ids);
  ASSERT_GT(bad.score.perplexity, 300);
  ASSERT_EQ(bad.warnings.size(), 1u);
  EXPECT_NE(bad.warnings.front().text.find("the tokenizer may be another model's"), std::string::npos);
  const LoadedModel demo = load_model_and_tokenizer({test::demo_model().string()}, "float32", Device{});
  EXPECT_TRUE(score_ids(demo, demo.tokenizer->encode("Once upon a time there was a girl.")).warnings.empty());
}

TEST(UniformWarning, StandsInTheRow) {
  const test::TemporaryFolder folder;
  std::string words;  // far from what the model was fitted to: it was not
  for (int i = 0; i < 60; ++i) words += fmt::format("{} zq{} ", i * 7919 % 97, i);
  test::write_file(folder.path() / "text.txt", words);
  const LocalExperiment experiment({model()}, RunConfig{}, sweep_of(3));
  const ExperimentResult result =
      compare_perplexity(experiment, {.configurations = {RunConfig{}}, .corpus = folder.path() / "text.txt"});
  ASSERT_EQ(result.rows.size(), 1u);
  ASSERT_GT(result.rows[0].find("perplexity")->value, 300);
  ASSERT_FALSE(result.rows[0].warnings.empty());
  EXPECT_NE(result.rows[0].warnings.back().text.find("no better than guessing among the 300 tokens"),
            std::string::npos);
}

SuiteOptions small_exercise() {
  SuiteOptions options;
  options.precisions = {"float32", "int8"};
  options.prompts = {"one", std::string(500, 'x')};  // the second exceeds the context of 64
  options.new_tokens = 5;
  options.batch_prompts = {"a", "b c d"};
  options.studies["lengths"] = LengthsOptions{.lengths = {8, 16}};
  options.studies["ablation"] = AblationOptions{.lengths = {8}, .padded_prompts = {"a", "b c d"}};
  options.studies["batches"] = BatchedOptions{.prompts = {}, .batch_sizes = {1, 2}};
  options.studies["perplexity"] =
      PerplexityOptions{.corpus = test::fixture_model("with_tokenizer") / "prompt.txt"};
  return options;
}

TEST(RunQuantizationExercise, RunsEverythingInItsOrder) {
  const LocalExperiment experiment({model()}, RunConfig{}, sweep_of(6));
  const ResultSet results = run_quantization_exercise(experiment, small_exercise());
  EXPECT_EQ(results.status, RunStatus::complete);
  std::vector<Scenario> scenarios;
  for (const Row& row : results.rows)
    if (scenarios.empty() || scenarios.back() != row.scenario) scenarios.push_back(row.scenario);
  using enum Scenario;
  EXPECT_EQ(scenarios,
            (std::vector<Scenario>{baseline, tradeoff, lengths, cache, padding, step_times, batches,
                                   batched_precisions, perplexity, divergence, edge_prompts}));
  EXPECT_EQ(results.rows[1].status, RowStatus::error);
  EXPECT_NE(results.rows[1].reason.find("exceed the model's context of 64"), std::string::npos);
  EXPECT_FALSE(results.noise) << "one process has none";
  EXPECT_GE(test::takeaway_texts(results).size(), 2u);
  EXPECT_LE(test::takeaway_texts(results).size(), 5u);
  for (const Row& row : results.rows) {
    if (row.scenario != Scenario::tradeoff) continue;
    EXPECT_NE(row.find("perplexity"), nullptr) << "speed, memory and quality in one row";
  }
  // Nothing is lost on the way through the file.
  EXPECT_EQ(to_json(results_from_json(to_json(results), "r")).dump(), to_json(results).dump());
  const report::Table tradeoff = report::tradeoff_table(results);
  EXPECT_EQ(
      std::vector<std::string>(tradeoff.head.begin(), tradeoff.head.begin() + 4),
      (std::vector<std::string>{"Float Precision", "Memory (MB)", "Avg Latency (s)", "Prompt 1 Output"}));
  EXPECT_EQ(tradeoff.rows.size(), 2u);
  EXPECT_EQ(tradeoff.rows[0][0], "float32 (baseline)");
  const report::Table table = report::build_results_table(results);
  // Without the series for plots, and what rows of the trade-off show of quality.
  EXPECT_EQ(table.rows.size(), results.rows.size() - 2 - 3);
}

TEST(RunQuantizationExercise, StopsWhereItIsTold) {
  SweepOptions sweep = sweep_of(3);
  int asked = 0;
  sweep.should_stop = [&] { return ++asked > 40; };
  const LocalExperiment experiment({model()}, RunConfig{}, sweep);
  EXPECT_EQ(run_quantization_exercise(experiment, small_exercise()).status, RunStatus::interrupted);
  SuiteOptions options = small_exercise();
  options.skipped = {"nonsense"};
  EXPECT_THROW(run_quantization_exercise(experiment, options), UsageError);
}

}  // namespace
}  // namespace assay
