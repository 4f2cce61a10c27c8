// What a machine's own speed does to a comparison, losses block by block, and families of tests, by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/format.h"
#include "assay/results/compare_results.h"
#include "assay/results/machine_speed.h"
#include "support/prose.h"

namespace assay {
namespace {

using Numbers = std::vector<double>;

Row beside(const std::string& label, const Numbers& seconds, const Numbers& gb_s = {},
           const Numbers& gflops = {}) {
  Row row;
  row.scenario = Scenario::lengths;
  row.label = label;
  for (std::size_t i = 0; i < seconds.size(); ++i) row.places.push_back({static_cast<int>(i), 0});
  row.set("total_latency_s", Value{seconds.front(), {}, seconds, "mean"});
  if (!gb_s.empty()) row.set("roofline_gb_s", Value{gb_s.front(), {}, gb_s, "mean"});
  if (!gflops.empty()) row.set("roofline_gflops", Value{gflops.front(), {}, gflops, "mean"});
  return row;
}
ResultSet results_with(std::vector<Row> rows) {
  ResultSet results;
  results.rows = std::move(rows);
  return results;
}

// 1.2 times as long; the machine read at 0.9 and multiplied at 0.95 times its speed: 1.08 and 1.14.
std::vector<statistics::Effect> effects_of(const Row& a, const Row& b, bool is_rate) {
  const ComparedPair pair{&a, &b};
  return effects_beside_machine(std::span(&pair, 1), "total_latency_s", is_rate);
}

TEST(ComparedUnits, WhatIsSaidHoldsInEach) {
  const Row a = beside("a", {1, 1, 1}, {10, 10, 10}, {20, 20, 20}),
            b = beside("a", {1.2, 1.2, 1.2}, {9, 9, 9}, {19, 19, 19});
  const Comparison c = compare_results(results_with({a}), results_with({b}), 0.02).rows[0].comparison;
  EXPECT_NEAR(c.ratio, 1.08, 1e-9);
  EXPECT_NEAR(c.interval->low, 1.08, 1e-9);
  EXPECT_NEAR(c.interval->high, 1.2, 1e-9);
  EXPECT_EQ(c.verdict, Verdict::higher);
  EXPECT_EQ(sentence_of(c), "B is 1.08x [1.08, 1.20] slower than A in 3 processes");
  const auto effects = effects_of(a, b, false);
  ASSERT_EQ(effects.size(), 3U);
  EXPECT_NEAR(effects[0].estimate, std::log(1.2), 1e-12);
  EXPECT_NEAR(effects[1].estimate, std::log(1.08), 1e-12);
  EXPECT_NEAR(effects[2].estimate, std::log(1.14), 1e-12);
  // For a rate the machine's is subtracted.
  const auto rates = effects_of(a, b, true);
  EXPECT_NEAR(rates[1].estimate, std::log(1.2 / 0.9), 1e-12);
  EXPECT_EQ(effects_of(a, beside("a", {1, 1, 1}), false).size(), 1U);
  EXPECT_TRUE(effects_of(a, beside("a", {1}), false).empty());
}

// The unit in which least can be told counts.
TEST(ComparedUnits, TheLargestDetectableDifferenceCounts) {
  const double d = 0.1;
  const Row a = beside("a", {1, 1, 1}, {1, 1, 1}),
            b = beside("a", {std::exp(-d / 4), 1, std::exp(d / 4)}, {std::exp(-d), 1, std::exp(d)});
  const Comparison c = compare_results(results_with({a}), results_with({b}), 0.02).rows[0].comparison;
  // Deviation 1.25 d, its error over three, degrees 2.
  EXPECT_NEAR(c.detectable_difference,
              std::expm1(statistics::detectable_difference({0, 1.25 * d / std::sqrt(3.0), 2, 3}, 0.95)),
              1e-9);
}

// The second row has t = 5.204 with two degrees: p = 0.035 is less than 5 % and more than 2.5 %. All cases
// together have t = 10.7, p = 0.0086. What the first row shows in one unit alone must not count.
TEST(ComparedUnits, AFamilyCountsWhatEachUnitShows) {
  const double d = 0.03, e = 5.204 * d / std::sqrt(3.0);
  const Row a = beside("a", {1, 1, 1}, {1, 1, 1}), b_a = beside("b", {1, 1, 1}),
            b = beside("b", {std::exp(e - d), std::exp(e), std::exp(e + d)});
  const auto levels_of_all_and_second = [&](const Numbers& gb_s) {
    const ComparedResults compared = compare_results(
        results_with({a, b_a}), results_with({beside("a", {1.1, 1.1, 1.1}, gb_s), b}), 0.0001);
    return std::pair(compared.all_cases[0].comparison.interval->level,
                     compared.rows[1].comparison.interval->level);
  };
  const auto expect = [&](const Numbers& gb_s, double of_all, double of_second, const char* why) {
    const auto [all, second] = levels_of_all_and_second(gb_s);
    EXPECT_NEAR(all, 1 - 0.05 / of_all, 1e-12) << why;
    EXPECT_NEAR(second, 1 - 0.05 / of_second, 1e-12) << why;
  };
  expect({0.8, 0.8, 0.8}, 3, 2, "the units contradict each other");
  expect({std::exp(-0.5), 1, std::exp(0.5)}, 3, 2, "one unit shows nothing");
  expect({1, 1, 1}, 2, 1, "both show it: the first row is rejected before them");
}

TEST(ComparedUnits, LogMediansAreByProcess) {
  Row row;
  row.places = {{0, 0}, {0, 1}, {0, 2}, {4, 0}, {5, 0}};
  row.set("total_latency_s", Value{0, {}, {1, 2, 60, 0.5, 0}});
  const std::map<int, double> medians = log_medians(row, "total_latency_s");
  EXPECT_EQ(medians, (std::map<int, double>{{0, std::log(2.0)}, {4, std::log(0.5)}}));
  EXPECT_TRUE(log_medians(row, "perplexity").empty());
  row.places.pop_back();
  EXPECT_TRUE(log_medians(row, "total_latency_s").empty()) << "whose the samples are is not known";
}

// Three visits of one row and nine of another, three of which fall into each visit: their mean, over two
// rows.
TEST(ComparedUnits, RowsOfMoreProcessesCountByVisit) {
  const auto logs = [](const Numbers& values) {
    Numbers seconds;
    for (const double x : values) seconds.push_back(std::exp(x));
    return seconds;
  };
  const Row few = beside("a", logs({0, 0, 3})), many = beside("b", logs({0, 0, 3, 0, 2, 4, 3, 3, 3})),
            flat = beside("a", logs({0, 0, 0})), also_flat = beside("b", logs({0, 0, 0}));
  const ComparedPair pairs[] = {{&flat, &few}, {&also_flat, &many}};
  const auto effects = effects_beside_machine(pairs, "total_latency_s", false);
  ASSERT_EQ(effects.size(), 1U);
  // Visits: (0 + 1) / 2, (0 + 2) / 2, (3 + 3) / 2.
  EXPECT_NEAR(effects[0].estimate, (0.5 + 1 + 3) / 3, 1e-12);
  EXPECT_NEAR(effects[0].error, std::sqrt((1 + 0.25 + 2.25) / 2 / 3), 1e-12);
  EXPECT_EQ(effects[0].replicates, 3U);
}

TEST(ComparedUnits, ProcessorsThatMovedSayHowFar) {
  const auto with_trips = [](const Numbers& microseconds) {
    Row row = beside("a", Numbers(microseconds.size(), 1.0));
    row.set("thread_round_trip_us", Value{0, {}, microseconds});
    return row;
  };
  EXPECT_EQ(why_machine_differs(with_trips({1, 4}), with_trips({2, 2, 2})), std::nullopt)
      << "their mean is geometric";
  EXPECT_EQ(why_machine_differs(with_trips({1, 1}), with_trips({1.5, 1.5})), std::nullopt);
  EXPECT_EQ(why_machine_differs(with_trips({1, 1}), with_trips({1.51, 1.51})),
            "threads took 1.00 us to synchronize in A and 1.51 us in B, so the host has moved the "
            "processors; repeat "
            "the runs until both times agree");
  EXPECT_NE(why_machine_differs(with_trips({1.51}), with_trips({1})), std::nullopt);
  EXPECT_EQ(why_machine_differs(with_trips({9}), beside("a", {1})), std::nullopt);
  EXPECT_EQ(why_machine_differs(beside("a", {1}), with_trips({9})), std::nullopt);
}

// Blocks of 16 tokens whose losses differ by `each` a token, with a rest of tokens that differs by nothing.
Row text_row(std::int64_t tokens, double each) {
  Row row;
  row.scenario = Scenario::perplexity;
  row.label = "nf4";
  row.parameters = {{"corpus_sha256", "abc"}};
  row.set("perplexity", 5);
  LossBlocks losses{tokens, Numbers(static_cast<std::size_t>((tokens + 15) / 16), 16 * each)};
  if (tokens % 16 != 0) losses.sums.back() = 0;
  row.losses = losses;
  return row;
}
ComparedRow of_texts(const Row& a, const Row& b) {
  return compare_results(results_with({a}), results_with({b}), 0.02).rows[0];
}

// Six blocks of 64 tokens are enough: 384.
TEST(ComparedLosses, NeedSixBlocks) {
  const ComparedRow enough = of_texts(text_row(384, 0), text_row(384, 0.1));
  EXPECT_EQ(enough.untested, "");
  EXPECT_EQ(enough.comparison.pairs, 6);
  EXPECT_EQ(enough.comparison.processes, 6);
  EXPECT_NEAR(enough.comparison.ratio, std::exp(0.1), 1e-12);
  EXPECT_NEAR(enough.comparison.interval->high, std::exp(0.1), 1e-9);
  EXPECT_EQ(sentence_of(enough.comparison),
            "B has a higher perplexity than A: perplexity ratio 1.105 [1.105, 1.105]");
  const ComparedRow brief = of_texts(text_row(368, 0), text_row(368, 0.1));
  EXPECT_EQ(brief.untested,
            "the text has 368 tokens, and a test needs 384 or more: repeat both with a longer text");
  EXPECT_NEAR(brief.comparison.ratio, std::exp(0.1), 1e-12);
  EXPECT_EQ(sentence_of(brief), "B against A has no verdict: perplexity ratio 1.105; " + brief.untested);
  EXPECT_FALSE(brief.comparison.interval);
}

// The last eight tokens are no block: they are in the ratio, and not in the spread of blocks.
TEST(ComparedLosses, ARestIsNoBlock) {
  const Comparison c = of_texts(text_row(392, 0), text_row(392, 0.1)).comparison;
  EXPECT_EQ(c.pairs, 6);
  EXPECT_NEAR(c.ratio, std::exp(0.1 * 384 / 392), 1e-12);
  EXPECT_NEAR(c.interval->high - c.interval->low, 0, 1e-9);
}

TEST(ComparedLosses, SayWhyTheyCannotBePaired) {
  EXPECT_EQ(of_texts(text_row(384, 0), text_row(400, 0)).unlike, "A scored 384 tokens and B 400");
  EXPECT_EQ(of_texts(text_row(0, 0), text_row(0, 0)).unlike, "A scored 0 tokens and B 0");
  Row torn = text_row(384, 0);
  torn.losses->sums.pop_back();
  EXPECT_EQ(of_texts(text_row(384, 0), torn).unlike, "A scored 384 tokens and B 384");
  Row without = text_row(384, 0);
  without.losses.reset();
  EXPECT_EQ(of_texts(text_row(384, 0), without).untested,
            "B does not hold the losses of its text, which a paired test needs. Repeat it with `assay run`");
  Row unnamed = text_row(384, 0);
  unnamed.parameters.clear();
  ResultSet a = results_with({unnamed});
  a.command = "assay a";
  EXPECT_EQ(compare_results(a, results_with({unnamed}), 0.02).rows[0].untested,
            "A does not hold the losses of its text, which a paired test needs. Repeat it with `assay a`");
}

}  // namespace
}  // namespace assay
