// A model whose phases take given times goes through case, run, sweep, rows, comparison, takeaway, table, CSV
// and plot; each figure is compared with one worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/assay.h"
#include "assay/report/csv.h"
#include "assay/report/figures.h"
#include "assay/report/result_tables.h"
#include "assay/results/takeaways.h"
#include "support/prose.h"
#include "support/scripted_model.h"

namespace assay {
namespace {

using test::kDeviation;
using test::kError;
using test::kT2;
using test::ScriptedModel;

std::string name_of_precision(const Case& spec) {
  return spec.configuration.label();
}

class ScriptedTradeoff : public ScriptedModel {
 protected:
  ScriptedTradeoff() {
    script_.run = [](const Case& spec, int process) {
      const std::string name = name_of_precision(spec);
      // float32: 0.4 + 4 * 0.4 = 2 s; int8 half of it; nf4 one and a half times.
      const double factor = name == "float32" ? 1 : name == "int8-dynamic" ? 0.5 : 1.5;
      const double own = factor * (name == "float32" ? 1 : std::exp(kDeviation[process]));
      Sample s = test::scripted_sample(0.4 * own, std::vector<double>(4, 0.4 * own));
      s.tokenize_s = s.first_tokenize_s = 0.05;
      s.detokenize_s = 0.02;
      s.sampling_s = 0.03;
      s.end_to_end_s = s.total_latency_s + 0.07;
      s.bytes = 8e9;
      s.flops = 5e9;
      s.roofline_s = 0.25 * factor;
      s.memory_bound_s = name == "nf4" ? 0.1 * factor : 0.2 * factor;
      s.roofline_gb_s = 32;
      s.roofline_gflops = 100;
      return s;
    };
    script_.facts = [](const RunConfig& configuration) {
      SessionFacts facts;
      facts.kernels = "avx2";
      facts.device = "cpu";
      facts.threads = 2;
      facts.model.id = "demo";
      const std::string name = configuration.label();
      facts.model.load_s = name == "float32" ? 1 : name == "int8-dynamic" ? 4 : 9;
      facts.model.resident_weights_bytes = (name == "float32" ? 16 : name == "int8-dynamic" ? 4 : 2) << 20;
      facts.model.memory_bytes = 17 << 20;
      facts.model.workspace_bytes = 1 << 20;
      if (name != "float32") {
        facts.model.coverage.quantized = 7;
        facts.model.coverage.weights_share = 0.75;
        facts.model.coverage.bits_per_weight = 6.5;
        facts.model.coverage.saturation = 0.125;
        facts.model.coverage.outlier_share = 0.0625;
        facts.model.head_computed_share = 0.25;
      }
      return facts;
    };
    script_.first_run = [](const Case& spec) {
      FirstRun first;
      first.seconds = 2;
      first.kv_cache_bytes = 1000;
      first.measured_memory_bytes = 2000;
      first.peak_rss_bytes = 4000;
      first.current_rss_bytes = 3000;
      first.texts = {"a text of " + spec.configuration.label()};
      first.prompt_ids = {{5, 6}};
      const std::string name = spec.configuration.label();
      first.ids = {name == "float32" ? std::vector<TokenId>{1, 2, 3, 4, 5, 6}
                   : name == "nf4"   ? std::vector<TokenId>{1, 2, 7, 7, 7, 7}
                                     : std::vector<TokenId>{1, 2, 3, 4, 5, 6}};
      // Above the rooflines by 0.3, 0.1 and 0.1; faster than its roofline counts as 0.
      first.profile.parts = {{"matrix multiplication", 0.5, 0.2},
                             {"attention", 0.2, 0.1},
                             {"the LM head", 0.1, 0.4},
                             {"synchronization", 0.1, 0}};
      return first;
    };
    options_.precisions = {"float32", "int8-dynamic", "nf4"};
    options_.prompts = {std::vector<TokenId>{5, 6}};
    options_.new_tokens = 5;
  }
  TradeoffOptions options_;
};

TEST_F(ScriptedTradeoff, RowsHoldTheirFigures) {
  const ExperimentResult result = run_quantization_tradeoff(context(), options_);
  ASSERT_EQ(result.rows.size(), 3U);
  const Row& row = *result.find("int8-dynamic");
  const auto value = [&](const char* tag) {
    const Value* found = row.find(tag);
    if (found == nullptr) ADD_FAILURE() << tag;
    return found == nullptr ? -1 : found->value;
  };
  const auto expect = [&](const char* tag, double expected) {
    EXPECT_NEAR(value(tag), expected, 1e-9 * std::abs(expected)) << tag;
  };
  expect("total_latency_s", 1);
  expect("tokens_per_sec", 5);
  expect("avg_latency_per_token_ms", 200);
  expect("time_to_first_token_s", 0.2);
  EXPECT_NEAR(value("time_to_first_token_from_text_s"), 0.25,
              1e-4);  // those of times that do not deviate together
  expect("prefill_latency_s", 0.2);
  expect("prefill_tokens_per_sec", 40);  // 8 in 0.2 s
  expect("decode_latency_s", 0.8);
  expect("decode_tokens_per_sec", 5);  // 4 tokens in 0.8 s: not the first
  expect("time_per_output_token_ms", 200);
  expect("step_latency_ms", 200);
  expect("tokenize_s", 0.05);
  expect("detokenize_s", 0.02);
  expect("sampling_s", 0.03);
  EXPECT_NEAR(value("end_to_end_s"), 1.07, 1e-4);
  expect("tokens_generated", 5);
  expect("prompt_tokens", 8);
  EXPECT_EQ(row.find("sequences"), nullptr) << "of one sequence there is nothing to share";
  expect("memory_bytes", 17 << 20);
  expect("resident_weights_bytes", 4 << 20);
  expect("workspace_bytes", 1 << 20);
  expect("kv_cache_bytes", 1000);
  expect("measured_memory_bytes", 2000);
  expect("working_memory_bytes", (5 << 20) + 1000);
  expect("peak_rss_bytes", 4000);
  expect("current_rss_bytes", 3000);
  expect("load_s", 4);
  expect("quantized_weights_percent", 75);
  expect("bits_per_weight", 6.5);
  expect("saturation_percent", 12.5);
  expect("outlier_columns_percent", 6.25);
  expect("head_computed_percent", 25);
  EXPECT_EQ(result.find("float32")->find("quantized_weights_percent"), nullptr);
  // The roofline allows 0.125 s of 1 s; 8 GB and 5 GFLOP in 1 s.
  expect("roofline_latency_s", 0.125);
  expect("percent_of_roofline", 12.5);
  expect("achieved_gb_s", 8);
  expect("achieved_gflops", 5);
  expect("roofline_gb_s", 32);
  expect("roofline_gflops", 100);
  expect("bytes_per_token", 1.6e9);
  expect("flops_per_token", 1e9);
  EXPECT_EQ(row.parameter("bound"), "memory");
  EXPECT_EQ(result.find("nf4")->parameter("bound"), "compute");
  EXPECT_EQ(row.parameter("largest_gap"), "matrix multiplication (60 % of the time above the roofline)");
  // It took 3 s longer to load and saves 0.2 s a token.
  expect("quantize_s", 3);
  expect("break_even_tokens", 15);
  EXPECT_EQ(result.find("nf4")->find("break_even_tokens"), nullptr) << "it never pays off";
  EXPECT_EQ(result.find("nf4")->find("quantize_s")->value, 8);
  EXPECT_EQ(result.find("float32")->find("quantize_s"), nullptr);
  EXPECT_TRUE(warnings_of_kind(row, WarningKind::roofline_disturbed).empty());
  EXPECT_TRUE(warnings_of_kind(row, WarningKind::drift).empty());
  EXPECT_TRUE(warnings_of_kind(row, WarningKind::too_few_runs).empty());
  EXPECT_TRUE(warnings_of_kind(row, WarningKind::outliers).empty());
}

TEST_F(ScriptedTradeoff, ComparisonsAndTextsFollow) {
  const ExperimentResult result = run_quantization_tradeoff(context(), options_);
  ASSERT_EQ(result.comparisons.size(), 2U);
  const Comparison& c = result.comparisons[0];
  EXPECT_EQ(c.subject, "int8-dynamic");
  EXPECT_EQ(c.baseline, "float32");
  EXPECT_NEAR(c.ratio, 0.5, 1e-12);
  EXPECT_NEAR(c.effect->error, kError, 1e-12);
  EXPECT_EQ(c.effect->degrees, 2);
  EXPECT_EQ(c.pairs, 9);
  EXPECT_EQ(c.processes, 3);
  EXPECT_EQ(c.verdict, Verdict::lower);
  EXPECT_EQ(result.comparisons[1].verdict, Verdict::higher);
  EXPECT_NEAR(result.comparisons[1].ratio, 1.5, 1e-12);
  // The best against the others: int8 beats both.
  ASSERT_EQ(result.other_comparisons.size(), 2U);
  EXPECT_EQ(result.other_comparisons[0].subject, "float32");
  EXPECT_EQ(result.other_comparisons[0].baseline, "int8-dynamic");
  EXPECT_NEAR(result.other_comparisons[0].ratio, 2, 1e-12);
  EXPECT_EQ(result.other_comparisons[0].chosen_among, 3);
  EXPECT_EQ(result.other_comparisons[1].subject, "nf4");
  EXPECT_NEAR(result.other_comparisons[1].ratio, 3, 1e-12);
  ASSERT_EQ(test::remarks_of(result).size(), 2U);
  EXPECT_EQ(test::remarks_of(result)[0], "int8-dynamic does not diverge from the baseline's text.");
  // 7 four times, of six ids.
  EXPECT_EQ(test::remarks_of(result)[1],
            "nf4 diverges from the baseline's text: prompt 1 after 2 tokens (a repeated passage makes up 67 "
            "% of it, more than in the baseline's).");
  ASSERT_EQ(result.texts.size(), 3U);
  EXPECT_EQ(result.texts[1].label, "int8-dynamic, prompt 1");
  EXPECT_EQ(result.texts[1].prompt, "ids 5 6");
  EXPECT_EQ(result.texts[1].text, "a text of int8-dynamic");
  EXPECT_EQ(result.texts[1].prompt_ids, (std::vector<int>{5, 6}));
  EXPECT_EQ(result.texts[2].ids, (std::vector<int>{1, 2, 7, 7, 7, 7}));
}

TEST_F(ScriptedTradeoff, AGainThatIsNotShownPaysForNothing) {
  script_.run = [](const Case& spec, int process) {
    const double own = name_of_precision(spec) == "float32" ? 1 : 0.99 * std::exp(20 * kDeviation[process]);
    return test::scripted_sample(0.4 * own, std::vector<double>(4, 0.4 * own));
  };
  const ExperimentResult result = run_quantization_tradeoff(context(), options_);
  EXPECT_EQ(result.comparisons[0].verdict, Verdict::cannot_tell);
  EXPECT_EQ(result.find("int8-dynamic")->find("break_even_tokens"), nullptr);
}

TEST_F(ScriptedTradeoff, GoesThroughTablesFilesAndPictures) {
  ResultSet results = results_of(context(), run_quantization_tradeoff(context(), options_));
  const std::vector<std::string> takeaways = test::takeaway_texts(results);
  EXPECT_EQ(takeaways[0],
            "Memory: the weights of nf4 take 2.0 MiB, 8.0x less than those of float32 (16.0 MiB). They "
            "average 6.5 bits per weight, because the embedding and the LM head are not quantized "
            "and every group of codes has a scale.");
  EXPECT_EQ(takeaways[1].rfind("Latency: int8-dynamic is the fastest, 2.00x [", 0), 0U) << takeaways[1];
  EXPECT_NE(takeaways[1].find("nf4, the smallest, is 3x ["), std::string::npos) << takeaways[1];
  EXPECT_NE(takeaways[1].find("and reaches 12 % of the roofline; in its profiled run most was lost to matrix "
                              "multiplication (60 % of the time above the roofline)."),
            std::string::npos)
      << takeaways[1];
  const report::Table table = report::tradeoff_table(results);
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0][0], "float32 (baseline)");
  EXPECT_EQ(table.rows[1][1], "17.00");
  EXPECT_EQ(table.rows[1][2], fmt::format("{:.4f}", (std::exp(-0.01) + 1 + std::exp(0.01)) / 3));
  results.run_id = "id";
  const std::string csv = report::results_csv(results);
  const double half = kT2 * kError;
  const std::string line = "id,trade-off,int8-dynamic,int8-dynamic,ok,total_latency_s,";
  const std::size_t at = csv.find(line);
  ASSERT_NE(at, std::string::npos) << csv.substr(0, 300);
  double cells[4] = {};
  ASSERT_EQ(std::sscanf(csv.c_str() + at + line.size(), "%lf,%lf,%lf,%lf", &cells[0], &cells[1], &cells[2],
                        &cells[3]),
            4);
  EXPECT_NEAR(cells[0], 1, 1e-12);
  EXPECT_NEAR(cells[1], std::exp(-half), 1e-9);
  EXPECT_NEAR(cells[2], std::exp(half), 1e-9);
  EXPECT_EQ(cells[3], 0.95);
  const std::string samples = report::samples_csv(results);
  EXPECT_NE(samples.find("id,trade-off,int8-dynamic,int8-dynamic,1,2,total,,1,s\r\n"), std::string::npos);
  EXPECT_NE(samples.find("id,trade-off,int8-dynamic,int8-dynamic,1,2,decode step,3,0.2,s\r\n"),
            std::string::npos);
  const auto figures = report::figures_of(results);
  const auto latency = std::find_if(figures.begin(), figures.end(),
                                    [](const auto& f) { return f.first == "latency_by_precision"; });
  ASSERT_NE(latency, figures.end());
  EXPECT_EQ(latency->second.categories, (std::vector<std::string>{"float32", "int8-dynamic", "nf4"}));
  const report::PlotPoint& point = latency->second.series[0].points[1];
  const double scale = latency->second.series[0].points[0].y / 2;  // that of the unit that the axis has
  EXPECT_NEAR(point.y, scale, 1e-9 * scale);
  EXPECT_NEAR(point.low, scale * std::exp(-half), 1e-9 * scale);
  EXPECT_NEAR(point.high, scale * std::exp(half), 1e-9 * scale);
}

}  // namespace
}  // namespace assay
