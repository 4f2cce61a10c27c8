// Takeaways follow from rows by rule: planted results give known sentences, and none where a rule has no
// rows.
#include "assay/results/takeaways.h"
#include "support/comparisons.h"
#include "support/prose.h"

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
  row.set("percent_of_roofline", 40);
  row.parameters = {{"largest_gap", "synchronization (70 % of the time above the roofline)"}};
  return row;
}

Comparison compared(Scenario scenario, const std::string& subject, const std::string& baseline,
                    const std::string& metric, double ratio, double half, Verdict verdict) {
  Comparison c = test::comparison_of(subject, baseline, ratio, verdict,
                                     {.scenario = scenario,
                                      .metric = metric,
                                      .interval = statistics::Interval{ratio - half, ratio + half, 0.95},
                                      .margin = 0.02,
                                      .processes = 10});
  c.pairs = 10;
  if (verdict == Verdict::cannot_tell) c.more_needed = 10;
  return c;
}
Comparison latency(const std::string& subject, double ratio, double half, Verdict verdict,
                   const std::string& baseline = "float32") {
  return compared(Scenario::tradeoff, subject, baseline, "total_latency_s", ratio, half, verdict);
}
Comparison quality(const std::string& subject, double ratio, double half, Verdict verdict) {
  return compared(Scenario::perplexity, subject, "float32", "perplexity", ratio, half, verdict);
}

// int8 is the fastest, and beats all others.
ResultSet planted() {
  ResultSet results;
  results.rows = {tradeoff_row("float32", 400, 1.0), tradeoff_row("bfloat16", 200, 0.6),
                  tradeoff_row("int8", 120, 0.3), tradeoff_row("nf4", 80, 0.5)};
  results.comparisons = {
      latency("bfloat16", 0.6, 0.01, Verdict::lower), latency("int8", 0.3, 0.01, Verdict::lower),
      latency("nf4", 0.5, 0.01, Verdict::lower),      quality("bfloat16", 1.0, 0.001, Verdict::no_difference),
      quality("int8", 1.02, 0.005, Verdict::higher),  quality("nf4", 1.12, 0.02, Verdict::higher)};
  results.other_comparisons = {latency("nf4", 1.67, 0.05, Verdict::higher, "int8"),
                               latency("bfloat16", 2, 0.05, Verdict::higher, "int8"),
                               latency("float32", 3.33, 0.1, Verdict::higher, "int8")};
  return results;
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string all;
  for (const std::string& sentence : sentences) all += sentence + "\n";
  return all;
}
// The sentence that begins so, without the rest.
std::string takeaway(const ResultSet& results, const std::string& begin) {
  for (const std::string& sentence : test::takeaway_texts(results))
    if (sentence.rfind(begin, 0) == 0) return sentence;
  return "";
}

TEST(Takeaways, SayWhatThePlantedResultsHold) {
  ResultSet results = planted();
  results.rows[3].set("bits_per_weight", 6.4);
  EXPECT_EQ(joined(test::takeaway_texts(results)),
            "Memory: the weights of nf4 take 80.0 MiB, 5.0x less than those of float32 (400.0 MiB). They "
            "average 6.4 bits per weight, because the embedding and the LM head are not quantized "
            "and every group of codes has a scale.\n"
            "Latency: int8 is the fastest, 3.33x [3.23, 3.45] faster than float32. nf4, the smallest, "
            "is 1.67x [1.62, 1.72] slower than int8 and reaches 40 % of the roofline; in its profiled run "
            "most was lost to synchronization (70 % of the time above the roofline).\n"
            "Quality against float32: bfloat16 (perplexity ratio 1.0000 [0.9990, 1.0010], no loss beyond the "
            "margin) loses least; nf4 (perplexity ratio 1.120 [1.100, 1.140]) loses most.\n");
}

TEST(Takeaways, MemoryOfEqualsIsTied) {
  ResultSet results = planted();
  results.rows[2] = tradeoff_row("int8", 80, 0.3);
  EXPECT_EQ(takeaway(results, "Memory"),
            "Memory: the weights of int8 and nf4 take 80.0 MiB each, 5.0x less than those of float32 "
            "(400.0 MiB).");
  for (Row& row : results.rows) row = tradeoff_row(row.label, 80, 1);
  EXPECT_EQ(takeaway(results, "Memory"), "") << "nobody is smaller than the baseline";
}

TEST(Takeaways, TheFastestBeatsTheOthersOrIsTied) {
  ResultSet results = planted();
  results.other_comparisons[0] = latency("nf4", 1.01, 0.05, Verdict::cannot_tell, "int8");
  EXPECT_EQ(takeaway(results, "Latency"),
            "Latency: which of int8 and nf4 is the fastest is undecided. int8 is 3.33x [3.23, 3.45] faster "
            "than float32.");
  // Equality within the margin is a tie.
  results.other_comparisons[0] = latency("nf4", 1.005, 0.005, Verdict::no_difference, "int8");
  EXPECT_NE(takeaway(results, "Latency").find("int8 and nf4 tie for the fastest."), std::string::npos);
  // So is the baseline, of which nothing is then said; but not where its own comparisons say otherwise.
  results.other_comparisons[2] = latency("float32", 1.01, 0.05, Verdict::cannot_tell, "int8");
  EXPECT_EQ(takeaway(results, "Latency").find("float32 is the fastest"), std::string::npos);
  for (Comparison& c : results.comparisons)
    if (c.metric == "total_latency_s") c.verdict = Verdict::cannot_tell;
  EXPECT_EQ(
      takeaway(results, "Latency"),
      "Latency: which of int8, nf4 and float32 is the fastest is undecided (int8 and nf4 are tied). None "
      "is shown to be faster than float32.");
  // Reversed: the baseline wins.
  results = planted();
  results.rows.resize(1);
  results.rows.push_back(tradeoff_row("nf4", 80, 2.0));
  results.other_comparisons = {latency("nf4", 2, 0.1, Verdict::higher)};
  EXPECT_EQ(takeaway(results, "Latency")
                .rfind("Latency: float32 is the fastest (1000.0 ms). nf4, the "
                       "smallest, is 2.00x [1.90, 2.10] slower than float32",
                       0),
            0u);
  // Undecidable: too few processes for a test.
  results.other_comparisons = {latency("nf4", 2, 0.1, Verdict::too_few)};
  EXPECT_EQ(takeaway(results, "Latency"), "");
}

TEST(Takeaways, AnyConfigurationMayLoseLeast) {
  ResultSet results = planted();
  results.comparisons[3] = quality("bfloat16", 1.12, 0.02, Verdict::higher);
  results.comparisons[5] = quality("nf4", 0.97, 0.005, Verdict::lower);
  EXPECT_EQ(
      takeaway(results, "Quality"),
      "Quality against float32: nf4 (perplexity ratio 0.970 [0.965, 0.975], lower than the baseline) loses "
      "least; bfloat16 (perplexity ratio 1.120 [1.100, 1.140]) loses most.");
}

TEST(Takeaways, TheLeastLossIsUndecidedWhereIntervalsMeet) {
  ResultSet results = planted();
  results.comparisons[3] = quality("bfloat16", 1.0, 0.02, Verdict::cannot_tell);
  EXPECT_EQ(takeaway(results, "Quality"),
            "Quality against float32: which of bfloat16 and int8 loses least is undecided; "
            "nf4 (perplexity ratio 1.120 [1.100, 1.140]) loses most.");
  results.comparisons[4] = quality("int8", 1.11, 0.02, Verdict::higher);
  EXPECT_NE(takeaway(results, "Quality").find("which of nf4 and int8 loses most is undecided."),
            std::string::npos);
  for (std::size_t i = 3; i < 6; ++i) results.comparisons[i].interval.reset();
  EXPECT_EQ(takeaway(results, "Quality"), "");
}

TEST(Takeaways, ClaimNothingThatWasNotTested) {
  ResultSet results = planted();
  results.comparisons.clear();
  results.other_comparisons.clear();
  EXPECT_EQ(takeaway(results, "Latency"), "");
  EXPECT_FALSE(recommendation_of(results));
  EXPECT_TRUE(takeaways_of({}).empty());
}

TEST(Takeaways, RecommendByLabel) {
  ResultSet results = planted();
  auto recommended = recommendation_of(results);
  ASSERT_TRUE(recommended);
  EXPECT_EQ(recommended->small_device, "int8");
  EXPECT_EQ(recommended->server, "") << "no batch was measured";
  EXPECT_EQ(recommended->best_quality, "bfloat16");
  EXPECT_EQ(
      joined(test::recommendation_texts(results)),
      "For a small device, choose int8: its weights take 120.0 MiB, and its perplexity is at most 1.025 "
      "times the baseline's (bound: 1.05 times). nf4 takes 80.0 MiB, but its perplexity may be 1.14 times "
      "the baseline's.\n"
      "For best quality, choose bfloat16: its perplexity shows no loss, and it is 1.667x [1.639, 1.695] "
      "faster than float32.\n");
  // Reversed: it loses; undecided: it may lose. Neither keeps the quality.
  for (const Verdict verdict : {Verdict::higher, Verdict::cannot_tell}) {
    results.comparisons[3] = quality("bfloat16", 1.01, 0.001, verdict);
    recommended = recommendation_of(results);
    EXPECT_EQ(recommended->best_quality, "float32");
    EXPECT_EQ(test::recommendation_texts(results).back(),
              "For best quality, choose float32, the baseline: no faster precision is shown to keep its "
              "quality.");
  }
  // It keeps the quality, but is not shown to be faster.
  results = planted();
  results.comparisons[0] = latency("bfloat16", 0.9, 0.2, Verdict::cannot_tell);
  EXPECT_EQ(recommendation_of(results)->best_quality, "float32");
  EXPECT_FALSE(recommendation_of({}));
}

TEST(Takeaways, RecommendNothingByTheSpeedOfTooFewProcesses) {
  ResultSet results = planted();
  for (Comparison& c : results.comparisons)
    if (c.metric == "total_latency_s") c.verdict = Verdict::too_few;
  for (Comparison& c : results.other_comparisons) c.verdict = Verdict::too_few;
  const auto recommended = recommendation_of(results);
  ASSERT_TRUE(recommended);  // sizes and perplexities need no processes
  EXPECT_EQ(recommended->small_device, "int8");
  EXPECT_EQ(recommended->server, "");
  EXPECT_EQ(recommended->best_quality, "");
  EXPECT_EQ(test::recommendation_texts(results).size(), 1u);
}

TEST(Takeaways, ASmallDeviceGetsNothingWithTooGreatALoss) {
  ResultSet results = planted();
  results.comparisons[4] = quality("int8", 1.04, 0.02, Verdict::higher);  // up to 1.06
  EXPECT_EQ(recommendation_of(results)->small_device, "bfloat16");
}

TEST(Takeaways, SayWhatTheCacheGains) {
  ResultSet results;
  Row& row = results.rows.emplace_back();
  row.scenario = Scenario::cache;
  row.label = "cache off, 128 tokens";
  row.setting.cache = false;
  row.set("prompt_tokens", 128);
  const auto with = [&](Verdict verdict) {
    results.comparisons = {compared(Scenario::cache, "cache off, 128 tokens", "cache on, 128 tokens",
                                    "total_latency_s", 8, 0.5, verdict)};
    return takeaway(results, "KV cache");
  };
  EXPECT_EQ(with(Verdict::higher),
            "KV cache: without it, generating after a prompt of 128 tokens is 8.0x [7.5, 8.5] slower.");
  EXPECT_EQ(with(Verdict::lower).rfind("KV cache: cache off, 128 tokens is 8.0x [7.5, 8.5] ", 0), 0u);
  EXPECT_NE(with(Verdict::cannot_tell).find("is undecided"), std::string::npos);
}

Row batch_row(const std::string& label, double seconds, double token_ms) {
  Row row;
  row.scenario = Scenario::batches;
  row.label = label;
  row.parameters = {{"configuration", "float32"}};
  row.set("total_latency_s", seconds);
  Value rate{100 / seconds, statistics::Interval{99 / seconds, 101 / seconds, 0.95}, {}};
  row.set("tokens_per_sec", rate);
  row.set("time_per_output_token_ms",
          Value{token_ms, statistics::Interval{0.9 * token_ms, 1.1 * token_ms, 0.95}, {}});
  return row;
}

ResultSet batches() {
  ResultSet results = planted();
  for (Row& row : std::vector<Row>{batch_row("batch 1", 1, 10), batch_row("batch 4", 0.5, 20),
                                   batch_row("batch 8", 0.25, 40)})
    results.rows.push_back(row);
  const auto batch = [](const char* subject, const char* baseline, double ratio, Verdict verdict) {
    return compared(Scenario::batches, subject, baseline, "total_latency_s", ratio, 0.01, verdict);
  };
  results.comparisons.push_back(batch("batch 4", "batch 1", 0.5, Verdict::lower));
  results.comparisons.push_back(batch("batch 8", "batch 1", 0.25, Verdict::lower));
  results.other_comparisons.push_back(batch("batch 4", "batch 8", 2, Verdict::higher));
  results.other_comparisons.push_back(batch("batch 1", "batch 8", 4, Verdict::higher));
  return results;
}

TEST(Takeaways, SayWhatBatchesGain) {
  ResultSet results = batches();
  EXPECT_EQ(takeaway(results, "Batching"),
            "Batching: batch 8 has the highest throughput, 400 [396, 404] tokens/s, and is "
            "4.00x [3.85, 4.17] faster than batch 1.");
  Comparison& against_4 = results.other_comparisons[3];
  against_4.verdict = Verdict::cannot_tell;
  EXPECT_TRUE(
      takeaway(results, "Batching")
          .starts_with("Batching: which of batch 8 and batch 4 has the highest throughput is undecided; "
                       "batch 8 generates 400"))
      << takeaway(results, "Batching");
  against_4.verdict = Verdict::no_difference;
  EXPECT_TRUE(takeaway(results, "Batching")
                  .starts_with("Batching: batch 8 and batch 4 tie for the highest throughput; batch 8 "
                               "generates 400"));
  // Reversed: batches of one are the best, and nothing is faster than they are.
  results = batches();
  results.rows[4] = batch_row("batch 1", 0.1, 10);
  results.comparisons.back().verdict = results.comparisons[results.comparisons.size() - 2].verdict =
      Verdict::higher;
  for (std::size_t i = 3; i < 5; ++i) {
    results.other_comparisons[i].subject = i == 3 ? "batch 4" : "batch 8";
    results.other_comparisons[i].baseline = "batch 1";
  }
  EXPECT_EQ(takeaway(results, "Batching"),
            "Batching: batch 1 has the highest throughput, 1000 [990, 1010] tokens/s.");
  for (Comparison& c : results.other_comparisons) c.verdict = Verdict::too_few;
  EXPECT_EQ(takeaway(results, "Batching"), "");
}

TEST(Takeaways, AServerIsRecommendedByBatchesWithinTheBound) {
  ResultSet results = batches();
  EXPECT_EQ(recommendation_of(results)->server, "float32");
  EXPECT_EQ(test::recommendation_texts(results)[1],
            "For a server, choose batch 8 of float32: it generates 400 [396, 404] tokens/s, and a "
            "token takes "
            "at most 44 ms (bound: 100 ms). Other precisions were not measured in batches.");
  // Nothing is recommended where a file lacks its rate.
  std::erase_if(results.rows[6].values, [](const auto& value) { return value.first == "tokens_per_sec"; });
  EXPECT_EQ(recommendation_of(results)->server, "");
  // The batch of the highest throughput keeps its users waiting, and none of the others was tested for best.
  results.rows[6] = batch_row("batch 8", 0.25, 120);
  EXPECT_EQ(recommendation_of(results)->server, "");
  // Another batch that is shown to equal it, and one that is not shown to be slower.
  results = batches();
  results.other_comparisons[3].verdict = Verdict::no_difference;
  EXPECT_NE(test::recommendation_texts(results)[1].find("choose batch 8 of float32 (tied with batch 4): "),
            std::string::npos);
  results.other_comparisons[4].verdict = Verdict::cannot_tell;
  EXPECT_NE(test::recommendation_texts(results)[1].find(
                "choose batch 8 of float32 (tied with batch 4, undecided against batch 1): "),
            std::string::npos);
}

TEST(MoreProcesses, NamesWhatWouldTellTheRest) {
  ResultSet results = planted();
  EXPECT_FALSE(more_processes_of(results));
  results.comparisons[0] = latency("bfloat16", 1.01, 0.1, Verdict::cannot_tell);
  results.comparisons[0].more_needed = 8;
  results.comparisons[0].seconds_each = 10;
  results.comparisons[1] = latency("int8", 1.01, 0.1, Verdict::cannot_tell);
  results.comparisons[1].more_needed = kNotInReach;
  results.comparisons[5] = quality("nf4", 1.01, 0.02, Verdict::cannot_tell);
  const auto more = more_processes_of(results);
  ASSERT_TRUE(more);
  EXPECT_EQ(more->undecided, 3);
  EXPECT_EQ(more->comparisons, 8) << "int8 and float32 are compared both ways";
  EXPECT_EQ(more->processes, 18);
  EXPECT_EQ(more->decided, 1);
  EXPECT_EQ(more->seconds, 180);
  EXPECT_EQ(
      sentence_of(*more),
      "Undecided: 3 of 8 comparisons. 1 comparison of perplexity needs a longer text. 18 processes would "
      "probably decide 1 of the others, in about 3 min.");
  results.command = "assay tradeoff demo --processes 5 -o out";
  EXPECT_NE(sentence_of(*more_processes_of(results))
                .find("in about 3 min: assay tradeoff demo -o out --processes 18"),
            std::string::npos)
      << sentence_of(*more_processes_of(results));
  results.comparisons[0].more_needed = 500;
  EXPECT_EQ(sentence_of(*more_processes_of(results)),
            "Undecided: 3 of 8 comparisons. 1 comparison of perplexity needs a longer text. 10 times as many "
            "processes would not decide the others.");
}

}  // namespace
}  // namespace assay
