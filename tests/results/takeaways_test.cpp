// Takeaways follow from rows by rule: planted results give known sentences, and none where a rule has no
// rows.
#include "assay/results/takeaways.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace assay {
namespace {

Row tradeoff_row(const std::string& label, double megabytes, double latency) {
  Row row;
  row.scenario = "trade-off";
  row.label = label;
  row.set("resident_weights_bytes", megabytes * 1024 * 1024);
  row.set("total_latency_s", latency);
  row.set("tokens_per_sec", 50 / latency);
  row.set("percent_of_roof", 40);
  row.parameters = {{"largest_gap", "matrix products (70 % of the time above the roof)"}};
  return row;
}

Comparison compared(const std::string& subject, const std::string& metric, double ratio, double half,
                    Verdict verdict) {
  Comparison c;
  c.subject = subject;
  c.baseline = "float32";
  c.metric = metric;
  c.ratio = ratio;
  c.interval = Interval{ratio - half, ratio + half, 0.95};
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
  const std::string text = joined(takeaways_of(planted()));
  for (const char* words :
       {"nf4 holds the weights in 80.0 MB, 5.0 times less than float32 (400.0 MB)",
        "int8 is faster than float32: 0.3 x", "The smallest, nf4, takes 1.67 times as long as int8",
        "matrix products",
        "the least is lost by bfloat16 1 x [0.999, 1.001], no loss beyond the margin; the most by nf4 1.12 x",
        "small device int8 (120.0 MB, perplexity at most 1.025 x)", "server int8", "best quality bfloat16"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
}

TEST(Takeaways, ClaimNothingThatWasNotTested) {
  ResultSet results = planted();
  results.comparisons[1] = compared("int8", "total_latency_s", 0.98, 0.1, Verdict::cannot_tell);
  EXPECT_NE(joined(takeaways_of(results)).find("int8 against float32: cannot tell"), std::string::npos);
  // Without perplexities nothing is recommended for its quality.
  results.comparisons.clear();
  EXPECT_EQ(joined(takeaways_of(results)).find("best quality"), std::string::npos);
  EXPECT_TRUE(takeaways_of({}).empty());
}

TEST(Takeaways, ASmallDeviceGetsNothingWithTooGreatALoss) {
  ResultSet results = planted();
  results.comparisons[4] = compared("int8", "perplexity", 1.04, 0.02, Verdict::higher);  // up to 1.06
  EXPECT_NE(joined(takeaways_of(results)).find("small device bfloat16"), std::string::npos);
}

TEST(Takeaways, RecommendByLabel) {
  ResultSet results = planted();
  const auto recommended = recommendation_of(results);
  ASSERT_TRUE(recommended);
  EXPECT_EQ(recommended->small_device, "int8");
  EXPECT_EQ(recommended->server, "int8");
  EXPECT_EQ(recommended->best_quality, "bfloat16");
  results.comparisons.clear();  // no quality, no recommendation by it
  EXPECT_EQ(recommendation_of(results)->small_device, "");
  EXPECT_EQ(recommendation_of(results)->server, "int8");
  EXPECT_FALSE(recommendation_of({}));
}

TEST(Takeaways, SayWhatTheCacheSaves) {
  ResultSet results;
  Comparison c = compared("cache off, 128 tokens", "total_latency_s", 8, 0.5, Verdict::higher);
  c.baseline = "cache on, 128 tokens";
  results.comparisons = {c};
  EXPECT_EQ(joined(takeaways_of(results)),
            "The cache: without it, a prompt of 128 tokens and its new ones take 8 x [7.5, 8.5] as long.\n");
}

}  // namespace
}  // namespace assay
