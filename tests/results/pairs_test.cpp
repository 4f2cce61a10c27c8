// Comparisons of every pair: which there are, and what correction they have.
#include "assay/results/pairs.h"

#include <gtest/gtest.h>

#include "assay/results/judge.h"

namespace assay {
namespace {

// Six processes of three rounds, of which each differs a little.
Row row_of_pairs(const std::string& label, double seconds) {
  Row row;
  row.scenario = Scenario::tradeoff;
  row.label = label;
  std::vector<double> samples;
  for (int process = 0; process < 6; ++process)
    for (int round = 0; round < 3; ++round) {
      row.places.push_back({process, round});
      samples.push_back(seconds *
                        (1 + 0.002 * process + 0.0005 * round * static_cast<double>(label.size() % 3)));
    }
  row.set("total_latency_s", value_of_processes(samples, row.places));
  return row;
}

ResultSet results_of_pairs() {
  ExperimentResult found;
  found.rows = {row_of_pairs("a", 1), row_of_pairs("bb", 0.5), row_of_pairs("ccc", 0.501)};
  for (std::size_t i = 1; i < 3; ++i)
    found.comparisons.push_back(*compare_rows(found.rows[i], found.rows[0], "total_latency_s", 0.02));
  found.judge_all(0.02);
  ResultSet results;
  results.add(std::move(found));
  return results;
}

TEST(EveryPair, IsComparedOnceAndJudgedAsOneFamily) {
  const ResultSet results = results_of_pairs();
  const std::vector<Comparison> pairs = compare_every_pair(results, Scenario::tradeoff);
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_EQ(pairs[0].subject, "bb");
  EXPECT_EQ(pairs[0].baseline, "a");
  EXPECT_EQ(pairs[2].subject, "ccc");
  EXPECT_EQ(pairs[2].baseline, "bb");
  EXPECT_EQ(pairs[0].verdict, Verdict::lower);
  EXPECT_EQ(pairs[1].verdict, Verdict::lower);
  EXPECT_EQ(pairs[2].verdict, Verdict::no_difference) << "0.2 % lie within the margin of 2 %";
  EXPECT_NEAR(pairs[2].ratio, 1.002, 1e-3);
  // Alone, a comparison has a level of 95 %; in the family the least likely one has more.
  Comparison alone = *compare_rows(results.rows[1], results.rows[0], "total_latency_s", 0.02);
  judge(alone);
  EXPECT_GT(pairs[0].interval->level, alone.interval->level);
}

TEST(EveryPair, NeedsComparisonsOfTheRun) {
  ResultSet results = results_of_pairs();
  EXPECT_TRUE(compare_every_pair(results, Scenario::precisions).empty());
  results.rows[1].status = RowStatus::error;
  EXPECT_EQ(compare_every_pair(results, Scenario::tradeoff).size(), 1U) << "a row that failed has no pairs";
  results.comparisons.clear();
  EXPECT_TRUE(compare_every_pair(results, Scenario::tradeoff).empty());
  EXPECT_TRUE(compare_every_pair(ResultSet{}, Scenario::tradeoff).empty());
}

TEST(EveryPair, CanBeExchanged) {
  const Comparison own = compare_every_pair(results_of_pairs(), Scenario::tradeoff)[0],
                   other = exchanged(own);
  EXPECT_EQ(other.subject, own.baseline);
  EXPECT_EQ(other.baseline, own.subject);
  EXPECT_EQ(other.verdict, Verdict::higher);
  EXPECT_DOUBLE_EQ(other.ratio, 1 / own.ratio);
  EXPECT_DOUBLE_EQ(other.interval->low, 1 / own.interval->high);
  EXPECT_DOUBLE_EQ(other.interval->high, 1 / own.interval->low);
  EXPECT_EQ(exchanged(other).verdict, own.verdict);
  Comparison tied = own;
  tied.verdict = Verdict::no_difference;
  EXPECT_EQ(exchanged(tied).verdict, Verdict::no_difference);
}

}  // namespace
}  // namespace assay
