// Which precision is recommended for a server, of those that ran in batches: fast enough for each user, and
// with a bounded loss.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/results/takeaways.h"
#include "support/comparisons.h"
#include "support/prose.h"

namespace assay {
namespace {

// Six processes of two rounds each, around a latency.
Row timed_row(Scenario scenario, const std::string& label, double latency_s, double token_ms) {
  Row row;
  row.scenario = scenario;
  row.label = label;
  row.setting.batch_size = 8;
  row.parameters = {{"configuration", label}};
  std::vector<double> samples;
  for (int process = 0; process < 6; ++process)
    for (int round = 0; round < 2; ++round) {
      row.places.push_back({process, round});
      samples.push_back(latency_s * (1 + 0.001 * std::sin(process + static_cast<double>(label.size()))));
    }
  row.set("total_latency_s", value_of_processes(samples, row.places));
  row.set("tokens_per_sec",
          Value{100 / latency_s, statistics::Interval{99 / latency_s, 101 / latency_s}, {}});
  row.set("time_per_output_token_ms",
          Value{token_ms, statistics::Interval{0.9 * token_ms, 1.1 * token_ms}, {}});
  return row;
}

void add_loss(ResultSet& results, const std::string& subject, double ratio) {
  results.comparisons.push_back(
      test::comparison_of(subject, "float32", ratio, Verdict::higher,
                          {.scenario = Scenario::perplexity,
                           .metric = "perplexity",
                           .interval = statistics::Interval{ratio - 0.01, ratio + 0.01},
                           .margin = 0.02,
                           .processes = 6}));
}

// nf4 is the fastest and loses too much; int8 is the fastest of the others.
ResultSet served() {
  ResultSet results;
  for (const Scenario scenario : {Scenario::tradeoff, Scenario::batched_precisions}) {
    results.rows.push_back(timed_row(scenario, "float32", 1, 40));
    results.rows.push_back(timed_row(scenario, "bfloat16", 0.6, 30));
    results.rows.push_back(timed_row(scenario, "int8", 0.5, 20));
    results.rows.push_back(timed_row(scenario, "nf4", 0.25, 10));
  }
  add_loss(results, "bfloat16", 1.0);
  add_loss(results, "int8", 1.02);
  add_loss(results, "nf4", 1.12);
  return results;
}

std::string server_text(const ResultSet& results) {
  for (const std::string& text : test::recommendation_texts(results))
    if (text.rfind("For a server", 0) == 0) return text;
  return "";
}

TEST(ServerPrecision, IsTheFastestThatLosesLittle) {
  const ResultSet results = served();
  EXPECT_EQ(recommendation_of(results)->server, "int8");
  EXPECT_EQ(
      server_text(results),
      "For a server, choose batch 8 of int8: it generates 200.0 [198.0, 202.0] tokens/s, a token takes at "
      "most 22 "
      "ms (bound: 100 ms), and its perplexity is at most 1.03 times the baseline's (bound: 1.05 times).");
}

TEST(ServerPrecision, MayBeTheBaseline) {
  ResultSet results = served();
  results.rows[4] = timed_row(Scenario::batched_precisions, "float32", 0.1, 40);
  EXPECT_EQ(
      server_text(results),
      "For a server, choose batch 8 of float32: it generates 1000 [990, 1010] tokens/s, and a token takes at "
      "most 44 ms (bound: 100 ms).");
}

TEST(ServerPrecision, NamesWhatItIsNotToldFrom) {
  ResultSet results = served();
  results.rows[5] = timed_row(Scenario::batched_precisions, "bfloat16", 0.5, 30);
  const auto recommended = recommendation_of(results);
  EXPECT_EQ(recommended->server_tied.size() + recommended->server_undecided.size(), 1U);
  EXPECT_NE(server_text(results).find("choose batch 8 of bfloat16 (tied with batch 8 of int8): it generates"),
            std::string::npos)
      << server_text(results);
}

// Too slow for each user, failed, without samples of several processes, or of an unknown loss: nothing of
// them is chosen, and nobody says that they were not measured.
TEST(ServerPrecision, TakesNothingThatBreaksABound) {
  ResultSet results = served();
  results.rows[6] = timed_row(Scenario::batched_precisions, "int8", 0.5, 95);
  EXPECT_EQ(recommendation_of(results)->server, "bfloat16");
  results.rows[5].status = RowStatus::error;
  EXPECT_EQ(recommendation_of(results)->server, "float32");
  results = served();
  results.comparisons.clear();
  EXPECT_EQ(server_text(results), "") << "no loss is known, and no batches of the baseline were measured";
}

TEST(ServerPrecision, LeavesTheChoiceToTheBaselinesBatchesWhereNoneKeepsTheBounds) {
  ResultSet results = served();
  for (std::size_t i = 4; i < 8; ++i)
    results.rows[i] = timed_row(Scenario::batched_precisions, results.rows[i].label, 1, 200);
  for (const auto& [label, seconds] : {std::pair("batch 1", 2.0), {"batch 4", 1.0}}) {
    results.rows.push_back(timed_row(Scenario::batches, label, seconds, 50));
    results.rows.back().parameters = {{"configuration", "float32"}};
  }
  results.other_comparisons = {test::comparison_of("batch 1", "batch 4", 2, Verdict::higher,
                                                   {.scenario = Scenario::batches,
                                                    .metric = "total_latency_s",
                                                    .interval = statistics::Interval{1.9, 2.1},
                                                    .margin = 0.02,
                                                    .processes = 6})};
  EXPECT_EQ(server_text(results),
            "For a server, choose batch 4 of float32: it generates 100.0 [99.0, 101.0] tokens/s, and a token "
            "takes at "
            "most 55 ms (bound: 100 ms).");
}

}  // namespace
}  // namespace assay
