// Takeaways follow from rows by rule: planted results give known sentences, and none where a rule has no
// rows.
#include "assay/results/takeaways.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace assay {
namespace {

Row tradeoff_row(const std::string& label, double megabytes, double latency) {
  Row row;
  row.scenario = Scenario::tradeoff;
  row.label = label;
  row.set("resident_weights_bytes", megabytes * 1024 * 1024);
  row.set("total_latency_s", latency);
  row.set("tokens_per_sec", 50 / latency);
  row.set("percent_of_roof", 40);
  row.parameters = {{"largest_gap", "synchronization (70 % of the time above the roofline)"}};
  return row;
}

Comparison compared(const std::string& subject, const std::string& metric, double ratio, double half,
                    Verdict verdict) {
  Comparison c;
  c.subject = subject;
  c.baseline = "float32";
  c.metric = metric;
  c.ratio = ratio;
  c.interval = statistics::Interval{ratio - half, ratio + half, 0.95};
  c.verdict = verdict;
  c.pairs = 10;
  set_sentence(c);
  return c;
}

ResultSet planted() {
  ResultSet results;
  results.rows = {tradeoff_row("float32", 400, 1.0), tradeoff_row("bfloat16", 200, 0.6),
                  tradeoff_row("int8", 120, 0.3), tradeoff_row("nf4", 80, 0.5)};
  results.comparisons = {compared("bfloat16", "total_latency_s", 0.6, 0.01, Verdict::lower),
                         compared("int8", "total_latency_s", 0.3, 0.01, Verdict::lower),
                         compared("nf4", "total_latency_s", 0.5, 0.01, Verdict::lower),
                         compared("bfloat16", "perplexity", 1.0, 0.001, Verdict::no_difference),
                         compared("int8", "perplexity", 1.02, 0.005, Verdict::higher),
                         compared("nf4", "perplexity", 1.12, 0.02, Verdict::higher)};
  return results;
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string all;
  for (const std::string& sentence : sentences) all += sentence + "\n";
  return all;
}

TEST(Takeaways, SayWhatThePlantedResultsHold) {
  ResultSet results = planted();
  results.rows[3].set("bits_per_weight", 6.4);
  EXPECT_EQ(
      joined(takeaways_of(results)),
      "Memory: the weights of nf4 take 80.0 MB, 5.0 times less than those of float32 (400.0 MB). They "
      "average 6.4 bits per weight, because the embedding, which is also the LM head, is not quantized "
      "and every group of codes has a scale.\n"
      "Latency: int8 is faster than float32: latency ratio 0.3 [0.29, 0.31]. nf4, the smallest, takes 1.67 "
      "times as long as int8: it runs at 40 % of the roofline, and its largest loss is synchronization "
      "(70 % of the time above the roofline).\n"
      "Quality against float32: the smallest loss is that of bfloat16 (perplexity ratio 1 [0.999, 1.001], "
      "no loss beyond the margin); the largest is that of nf4 (perplexity ratio 1.12 [1.1, 1.14]).\n");
}

TEST(Takeaways, OfNoFasterPrecision) {
  ResultSet results = planted();
  results.rows.resize(1);
  results.rows.push_back(tradeoff_row("nf4", 80, 2.0));
  EXPECT_NE(joined(takeaways_of(results)).find("Latency: no precision was faster than float32 (1000.0 ms)."),
            std::string::npos);
}

TEST(Takeaways, ClaimNothingThatWasNotTested) {
  ResultSet results = planted();
  results.comparisons[1] = compared("int8", "total_latency_s", 0.98, 0.1, Verdict::cannot_tell);
  EXPECT_NE(joined(takeaways_of(results)).find("int8 against float32 is undecided"), std::string::npos);
  // Without perplexities nothing is recommended for its quality.
  results.comparisons.clear();
  EXPECT_NE(joined(takeaways_of(results)).find("int8 had the lowest, but no test compared it with float32"),
            std::string::npos);
  EXPECT_EQ(joined(recommendation_of(results)->sentences),
            "For a server, choose int8: it generates 167 tokens/s.\n");
  EXPECT_TRUE(takeaways_of({}).empty());
}

TEST(Takeaways, RecommendByLabel) {
  ResultSet results = planted();
  auto recommended = recommendation_of(results);
  ASSERT_TRUE(recommended);
  EXPECT_EQ(recommended->small_device, "int8");
  EXPECT_EQ(recommended->server, "int8");
  EXPECT_EQ(recommended->best_quality, "bfloat16");
  EXPECT_EQ(
      joined(recommended->sentences),
      "For a small device, choose int8: its weights take 120.0 MB, and its perplexity is at most 1.025 "
      "times the baseline's.\n"
      "For a server, choose int8: it generates 167 tokens/s, and its perplexity is at most 1.025 times the "
      "baseline's.\n"
      "For best quality, choose bfloat16: it is the fastest whose perplexity shows no loss.\n");
  results.comparisons[3] = compared("bfloat16", "perplexity", 1.01, 0.001, Verdict::higher);
  recommended = recommendation_of(results);
  EXPECT_EQ(recommended->best_quality, "float32");
  EXPECT_EQ(
      recommended->sentences[2],
      "For best quality, choose float32, the baseline: no faster precision is shown to keep its quality.");
  results.comparisons.clear();  // no quality, no recommendation by it
  EXPECT_EQ(recommendation_of(results)->small_device, "");
  EXPECT_EQ(recommendation_of(results)->server, "int8");
  EXPECT_FALSE(recommendation_of({}));
}

TEST(Takeaways, ASmallDeviceGetsNothingWithTooGreatALoss) {
  ResultSet results = planted();
  results.comparisons[4] = compared("int8", "perplexity", 1.04, 0.02, Verdict::higher);  // up to 1.06
  EXPECT_EQ(recommendation_of(results)->small_device, "bfloat16");
}

TEST(Takeaways, SayWhatCacheAndBatchesGain) {
  ResultSet results;
  Comparison c = compared("cache off, 128 tokens", "total_latency_s", 8, 0.5, Verdict::higher);
  c.baseline = "cache on, 128 tokens";
  results.comparisons = {c};
  EXPECT_EQ(
      joined(takeaways_of(results)),
      "KV cache: without it, a prompt of 128 tokens and its new tokens take 8 times as long [7.5, 8.5].\n");
  results.comparisons.clear();
  for (const double size : {1.0, 8.0}) {
    Row row;
    row.scenario = Scenario::batches;
    row.label = size == 1 ? "batch 1" : "batch 8";
    row.set("tokens_per_sec", size == 1 ? 100 : 400);
    row.set("tokens_per_sec_per_sequence", size == 1 ? 100 : 50);
    results.rows.push_back(row);
  }
  EXPECT_EQ(
      joined(takeaways_of(results)),
      "Batching: batch 8 generates 400 tokens/s, 4.0 times as many as batch 1 (100); each of its sequences "
      "runs at 0.50 times the speed.\n");
}

}  // namespace
}  // namespace assay
