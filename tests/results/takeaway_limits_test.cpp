// Takeaways and recommendations word by word, where each of their conditions just holds and just does not.
#include <gtest/gtest.h>

#include "assay/results/takeaways.h"
#include "support/comparisons.h"
#include "support/prose.h"

namespace assay {
namespace {

using Sentences = std::vector<std::string>;

Row weighing(const std::string& label, double megabytes, double seconds) {
  Row row;
  row.scenario = Scenario::tradeoff;
  row.label = label;
  if (megabytes > 0) row.set("resident_weights_bytes", megabytes * 1024 * 1024);
  row.set("total_latency_s", seconds);
  return row;
}
Comparison judged_as(Scenario scenario, const std::string& subject, const std::string& baseline, double ratio,
                     double low, double high, Verdict verdict, const char* metric = "total_latency_s") {
  return test::comparison_of(subject, baseline, ratio, verdict,
                             {.scenario = scenario,
                              .metric = metric,
                              .interval = statistics::Interval{low, high, 0.95},
                              .processes = 5});
}
Comparison speed_of(const std::string& subject, const std::string& baseline, double ratio, Verdict verdict) {
  return judged_as(Scenario::tradeoff, subject, baseline, ratio, ratio / 2, ratio * 2, verdict);
}
Comparison loss_against(const std::string& subject, double ratio, double low, double high, Verdict verdict) {
  return judged_as(Scenario::perplexity, subject, "base", ratio, low, high, verdict, "perplexity");
}
std::string said(const ResultSet& results, const std::string& topic) {
  for (const std::string& sentence : test::takeaway_texts(results))
    if (sentence.starts_with(topic)) return sentence;
  return "";
}

TEST(TakeawayLimits, OfMemory) {
  ResultSet results;
  results.rows = {weighing("base", 4, 1), weighing("unknown", 0, 1), weighing("a", 2, 1), weighing("b", 1, 1),
                  weighing("c", 1.25, 1)};
  EXPECT_EQ(said(results, "Memory"),
            "Memory: the weights of b take 1.0 MiB, 4.0x less than those of base (4.0 MiB).");
  results.rows[3].set("bits_per_weight", 5);
  const std::string begin =
      "Memory: the weights of b take 1.0 MiB, 4.0x less than those of base (4.0 MiB). They average "
      "5.0 bits per weight, because ";
  EXPECT_EQ(said(results, "Memory"), begin +
                                         "the embedding and the LM head are not quantized and every group of "
                                         "codes has a scale.");
  ResultSet stored = results;
  stored.rows[3].parameters.emplace_back("precision", "q4_1 (as stored)");
  EXPECT_EQ(said(stored, "Memory").find("because"), std::string::npos) << "a file may quantize its embedding";
  for (const char* head : {"int8", "nf4", "fp4"}) {
    results.rows[3].setting.lm_head = head;
    EXPECT_NE(said(results, "Memory")
                  .find("because positions, norms and biases are not quantized and every group of codes "
                        "has a scale."),
              std::string::npos)
        << head;
  }
  results.rows[0] = weighing("base", 1, 1);
  EXPECT_EQ(said(results, "Memory"), "") << "none is smaller than the baseline";
  results.rows = {weighing("base", 4, 1)};
  EXPECT_EQ(said(results, "Memory"), "");
  results.rows = {weighing("base", 0, 1), weighing("a", 0, 1)};
  EXPECT_EQ(said(results, "Memory"), "") << "sizes are not known";
}

TEST(TakeawayLimits, CountFinishedRowsOfTheTradeOff) {
  ResultSet results;
  results.rows = {weighing("failed", 9, 1), weighing("elsewhere", 8, 1), weighing("base", 4, 1),
                  weighing("a", 2, 1), weighing("untimed", 1, 1)};
  results.rows[0].status = RowStatus::error;
  results.rows[1].scenario = Scenario::precisions;
  results.rows[4].values.pop_back();
  EXPECT_EQ(said(results, "Memory"),
            "Memory: the weights of a take 2.0 MiB, 2.0x less than those of base (4.0 MiB).");
}

TEST(TakeawayLimits, OfLatency) {
  ResultSet results;
  results.rows = {weighing("base", 4, 0.25), weighing("a", 2, 0.5), weighing("b", 3, 0.125)};
  results.rows[1].set("percent_of_roofline", 40);
  results.other_comparisons = {speed_of("base", "b", 2, Verdict::higher),
                               speed_of("a", "b", 4, Verdict::higher)};
  results.comparisons = {speed_of("b", "base", 0.5, Verdict::lower)};
  EXPECT_EQ(said(results, "Latency"),
            "Latency: b is the fastest, 2.0x [1.0, 4.0] faster than base. a, the smallest, is "
            "4.0x [2.0, 8.0] slower than b and reaches 40 % of the roofline.");
  results.rows[1].parameters = {{"largest_gap", "waiting"}};
  EXPECT_TRUE(
      said(results, "Latency").ends_with("of the roofline; in its profiled run most was lost to waiting."));
  // Two that are smallest are none that could be named.
  results.rows[1].set("resident_weights_bytes", 3 * 1024.0 * 1024);
  EXPECT_EQ(said(results, "Latency"), "Latency: b is the fastest, 2.0x [1.0, 4.0] faster than base.");
  results.rows[1].set("resident_weights_bytes", 2 * 1024.0 * 1024);
  // Where it is not shown to be slower, or to be faster than the baseline, nothing is said of that.
  results.other_comparisons[1].verdict = Verdict::cannot_tell;
  EXPECT_EQ(said(results, "Latency"),
            "Latency: which of b and a is the fastest is undecided. b is 2.0x [1.0, 4.0] faster than base.");
  results.comparisons[0].verdict = Verdict::cannot_tell;
  EXPECT_EQ(said(results, "Latency"), "Latency: which of b and a is the fastest is undecided.");
  results.other_comparisons[1].verdict = Verdict::no_difference;
  EXPECT_EQ(said(results, "Latency"), "Latency: b and a tie for the fastest.");
  results.other_comparisons[0].verdict = Verdict::cannot_tell;
  EXPECT_EQ(
      said(results, "Latency"),
      "Latency: which of b, a and base is the fastest is undecided (b and a are tied). None is shown to "
      "be faster than base.");
  results.other_comparisons[0].verdict = Verdict::higher;
  results.comparisons.clear();
  results.other_comparisons[1].verdict = Verdict::higher;
  results.other_comparisons[1].interval.reset();
  EXPECT_EQ(said(results, "Latency").substr(0, 63),
            "Latency: b is the fastest. a, the smallest, is 4x slower than b");
  // The baseline itself.
  results.rows = {weighing("base", 4, 0.25), weighing("a", 2, 0.5)};
  results.other_comparisons = {speed_of("a", "base", 2, Verdict::no_difference)};
  EXPECT_EQ(said(results, "Latency"),
            "Latency: base and a tie for the fastest. None is shown to be faster than base.");
  results.other_comparisons[0].verdict = Verdict::higher;
  EXPECT_TRUE(said(results, "Latency")
                  .starts_with("Latency: base is the fastest (250.0 ms). a, the smallest, is 2.0x "));
}

TEST(TakeawayLimits, OfQuality) {
  ResultSet results;
  const auto with = [&](Verdict verdict) {
    results.comparisons = {loss_against("a", 1.23456, 1.2, 1.3, verdict)};
    return said(results, "Quality");
  };
  const std::string one = "Quality against base: a (perplexity ratio 1.23 [1.20, 1.30]";
  EXPECT_EQ(with(Verdict::higher), one + ").");
  EXPECT_EQ(with(Verdict::no_difference), one + ", no loss beyond the margin).");
  EXPECT_EQ(with(Verdict::lower), one + ", lower than the baseline).");
  EXPECT_EQ(with(Verdict::cannot_tell), one + ", undecided).");
  // The least and the largest loss, or those whose intervals touch theirs.
  results.comparisons = {loss_against("b", 1.2, 1.15, 1.25, Verdict::higher),
                         loss_against("a", 1.1, 1.05, 1.125, Verdict::higher),
                         loss_against("c", 1.5, 1.375, 1.75, Verdict::higher),
                         speed_of("d", "base", 9, Verdict::higher)};
  EXPECT_EQ(said(results, "Quality"),
            "Quality against base: a (perplexity ratio 1.10 [1.05, 1.12]) loses least; "
            "c (perplexity ratio 1.50 [1.38, 1.75]) loses most.");
  results.comparisons[0].interval = statistics::Interval{1.125, 1.375, 0.95};
  EXPECT_EQ(said(results, "Quality"),
            "Quality against base: which of a and b loses least is undecided; which of c and b loses most is "
            "undecided.");
  results.comparisons[0].interval = statistics::Interval{1.126, 1.374, 0.95};
  EXPECT_EQ(said(results, "Quality").find("undecided"), std::string::npos);
  results.comparisons[2].interval.reset();
  EXPECT_EQ(said(results, "Quality"),
            "Quality against base: a (perplexity ratio 1.10 [1.05, 1.12]) loses least; "
            "b (perplexity ratio 1.20 [1.13, 1.37]) loses most.");
}

// The two intervals leave ratios of 1.99 / 2 to 2.02 / 1.99: a tie within 1.6 %, and undecided within 1.5 %.
TEST(TakeawayLimits, LossesTieWithinTheMargin) {
  ResultSet results;
  results.comparisons = {loss_against("a", 1.995, 1.99, 2, Verdict::higher),
                         loss_against("b", 2.01, 1.99, 2.02, Verdict::higher),
                         loss_against("c", 4, 3.9, 4.1, Verdict::higher)};
  for (Comparison& c : results.comparisons) c.margin = 0.016;
  EXPECT_TRUE(said(results, "Quality").starts_with("Quality against base: a and b tie for losing least; c ("))
      << said(results, "Quality");
  for (Comparison& c : results.comparisons) c.margin = 0.015;
  EXPECT_TRUE(said(results, "Quality")
                  .starts_with("Quality against base: which of a and b loses least is undecided; c ("));
}

TEST(TakeawayLimits, OfTheCache) {
  ResultSet results;
  for (const int tokens : {16, 64, 128}) {
    Row& row = results.rows.emplace_back();
    row.scenario = Scenario::cache;
    row.label = "off " + std::to_string(tokens);
    row.setting.cache = tokens == 128;
    row.set("prompt_tokens", tokens);
  }
  results.comparisons = {judged_as(Scenario::cache, "off 16", "on", 2, 1.5, 2.5, Verdict::higher),
                         judged_as(Scenario::cache, "off 64", "on", 4, 3, 5, Verdict::higher),
                         judged_as(Scenario::cache, "off 128", "on", 8, 7, 9, Verdict::higher)};
  EXPECT_EQ(said(results, "KV cache"),
            "KV cache: without it, generating after a prompt of 64 tokens is 4.0x [3.0, 5.0] slower.");
  results.comparisons[1].interval.reset();
  EXPECT_EQ(said(results, "KV cache"), "KV cache: off 64 is 4x slower than on.");
  results.comparisons.erase(results.comparisons.begin(), results.comparisons.begin() + 2);
  EXPECT_EQ(said(results, "KV cache"), "");
}

Row batch_of(const std::string& label, double seconds, double token_ms,
             const std::string& configuration = "nf4") {
  Row row;
  row.scenario = Scenario::batches;
  row.label = label;
  row.parameters = {{"configuration", configuration}};
  row.set("total_latency_s", seconds);
  row.set("tokens_per_sec",
          Value{100 / seconds, statistics::Interval{90 / seconds, 110 / seconds, 0.95}, {}});
  row.set("time_per_output_token_ms",
          Value{token_ms, statistics::Interval{token_ms - 1, token_ms + 1, 0.95}, {}});
  return row;
}
ResultSet two_batches() {
  ResultSet results;
  results.rows = {weighing("base", 4, 1), weighing("a", 2, 1), batch_of("one", 1, 10),
                  batch_of("four", 0.5, 20)};
  results.comparisons = {judged_as(Scenario::batches, "four", "one", 0.5, 0.4, 0.625, Verdict::lower)};
  results.other_comparisons = {judged_as(Scenario::batches, "one", "four", 2, 1.6, 2.5, Verdict::higher)};
  return results;
}

TEST(TakeawayLimits, OfBatches) {
  ResultSet results = two_batches();
  EXPECT_EQ(said(results, "Batching"),
            "Batching: four has the highest throughput, 200 [180, 220] tokens/s, and is 2.0x [1.6, 2.5] "
            "faster than one.");
  results.rows[3].set("tokens_per_sec", 200);
  results.comparisons[0].interval.reset();
  EXPECT_EQ(said(results, "Batching"),
            "Batching: four has the highest throughput, 200 tokens/s, and is 2x faster than one.");
  results.comparisons[0].verdict = Verdict::cannot_tell;
  EXPECT_EQ(said(results, "Batching"), "Batching: four has the highest throughput, 200 tokens/s.");
  results.other_comparisons[0].verdict = Verdict::no_difference;
  results.comparisons.clear();
  EXPECT_EQ(said(results, "Batching"),
            "Batching: four and one tie for the highest throughput; four generates 200 tokens/s.");
}

// 100 ms are fast enough, a hundredth more is not.
TEST(TakeawayLimits, AServerNeedsItsTokensInTime) {
  ResultSet results = two_batches();
  results.comparisons.clear();
  const auto chosen = [&] {
    const auto recommended = recommendation_of(results);
    return recommended ? recommended->server + ": " + test::recommendation_texts(results)[0] : std::string();
  };
  const std::string words =
      "nf4: For a server, choose four of nf4: it generates 200 [180, 220] tokens/s, and a token takes at "
      "most ";
  EXPECT_EQ(chosen(), words + "21 ms (bound: 100 ms). Other precisions were not measured in batches.");
  results.rows[3] = batch_of("four", 0.5, 99);
  EXPECT_EQ(chosen(), words + "100 ms (bound: 100 ms). Other precisions were not measured in batches.");
  results.rows[3] = batch_of("four", 0.5, 99.01);
  EXPECT_EQ(chosen(), "") << "one batch is left, which was compared with none";
  results.rows[3] = batch_of("four", 0.5, 20);
  // Other rows of batches without a time per token say nothing of configurations.
  Row other = batch_of("untold", 0.75, 20, "fp4");
  other.values.pop_back();
  Row failed = batch_of("failed", 0.75, 20, "fp4");
  failed.status = RowStatus::error;
  Row elsewhere = batch_of("elsewhere", 0.1, 20, "fp4");
  elsewhere.scenario = Scenario::threads;
  results.rows.insert(results.rows.end(), {other, failed, elsewhere});
  EXPECT_EQ(chosen(), words + "21 ms (bound: 100 ms). Other precisions were not measured in batches.");
  results.rows.push_back(batch_of("slow", 2, 200, "fp4"));
  EXPECT_EQ(chosen(), words + "21 ms (bound: 100 ms).");
  results.rows.pop_back();
  results.other_comparisons[0].verdict = Verdict::cannot_tell;
  EXPECT_NE(chosen().find("choose four of nf4 (undecided against one): it"), std::string::npos) << chosen();
  results.rows[3].set("time_per_output_token_ms", 20);
  EXPECT_EQ(chosen(), "") << "without an interval nobody knows";
}

TEST(TakeawayLimits, OfASmallDevice) {
  ResultSet results;
  results.rows = {weighing("base", 4, 1), weighing("a", 2, 1), weighing("b", 2, 1), weighing("c", 1, 1)};
  results.comparisons = {loss_against("a", 1.01, 1, 1.02345, Verdict::cannot_tell),
                         loss_against("b", 1.01, 1, 1.02, Verdict::cannot_tell)};
  const auto recommended = recommendation_of(results);
  ASSERT_TRUE(recommended);
  EXPECT_EQ(recommended->small_device, "a") << "the first of equals; nothing is known of c";
  EXPECT_EQ(test::recommendation_texts(results),
            (Sentences{"For a small device, choose a: its weights take 2.0 MiB, and "
                       "its perplexity is at most 1.023 times the "
                       "baseline's (bound: 1.05 times). One configuration with smaller weights has no "
                       "comparison of perplexity."}));
  EXPECT_EQ(recommended->best_quality, "") << "no speed was compared";
  results.comparisons.resize(1);
  results.comparisons[0] = loss_against("a", 1, 1, 1.00002, Verdict::cannot_tell);
  EXPECT_EQ(test::recommendation_texts(results),
            (Sentences{
                "For a small device, choose a: its weights take 2.0 MiB, and its perplexity is at most the "
                "baseline's (bound: 1.05 times). One configuration with smaller weights has no comparison of "
                "perplexity."}));
  results.comparisons = {loss_against("a", 1.01, 1, 1.02345, Verdict::cannot_tell),
                         loss_against("b", 1.01, 1, 1.02, Verdict::cannot_tell)};
  results.comparisons[0].scenario = Scenario::tradeoff;
  EXPECT_EQ(recommendation_of(results)->small_device, "b") << "another scenario's figure";
  results.rows.resize(1);
  EXPECT_FALSE(recommendation_of(results));
}

TEST(TakeawayLimits, OfBestQuality) {
  ResultSet results;
  results.rows = {weighing("base", 4, 1), weighing("a", 2, 0.5), weighing("b", 2, 0.25),
                  weighing("c", 2, 0.125)};
  const auto with = [&](Verdict speed_b, Verdict loss_b, Verdict speed_c, Verdict loss_c) {
    results.comparisons = {
        speed_of("a", "base", 0.5, Verdict::lower), loss_against("a", 1, 0.99, 1.2, Verdict::no_difference),
        speed_of("b", "base", 0.25, speed_b),       loss_against("b", 1, 0.99, 1.2, loss_b),
        speed_of("c", "base", 0.125, speed_c),      loss_against("c", 1, 0.99, 1.2, loss_c)};
    return recommendation_of(results)->best_quality;
  };
  EXPECT_EQ(with(Verdict::lower, Verdict::no_difference, Verdict::lower, Verdict::lower), "c")
      << "the fastest";
  EXPECT_EQ(test::recommendation_texts(results).back(),
            "For best quality, choose c: its perplexity shows no loss, and it is 8.0x [4.0, 16.0] faster "
            "than base.");
  EXPECT_EQ(with(Verdict::lower, Verdict::lower, Verdict::lower, Verdict::higher), "b");
  EXPECT_EQ(with(Verdict::cannot_tell, Verdict::lower, Verdict::lower, Verdict::cannot_tell), "a");
  EXPECT_EQ(with(Verdict::lower, Verdict::no_difference, Verdict::no_difference, Verdict::lower), "b");
  results.comparisons.erase(results.comparisons.begin(), results.comparisons.begin() + 2);
  results.comparisons[0].verdict = Verdict::higher;
  EXPECT_EQ(recommendation_of(results)->best_quality, "base");
  results.comparisons.erase(results.comparisons.begin() + 1);  // the loss of b
  results.comparisons[0].verdict = Verdict::lower;
  EXPECT_EQ(recommendation_of(results)->best_quality, "base")
      << "faster, but nothing is known of its quality";
}

}  // namespace
}  // namespace assay
