// Lists that are joined, rows that are found, and what a conclusion compares with what.
#include "assay/results/results.h"
#include "support/prose.h"

#include <gtest/gtest.h>

#include <cmath>

namespace assay {
namespace {

using Labels = std::vector<std::string>;

Row plain(const std::string& label) {
  Row row;
  row.label = label;
  return row;
}
// One list of rounds for each process.
Row timed(const std::string& label, const std::vector<std::vector<double>>& by_process,
          Scenario scenario = Scenario::tradeoff) {
  Row row = plain(label);
  row.scenario = scenario;
  std::vector<double> samples;
  for (std::size_t p = 0; p < by_process.size(); ++p)
    for (std::size_t r = 0; r < by_process[p].size(); ++r) {
      row.places.push_back({static_cast<int>(p), static_cast<int>(r)});
      samples.push_back(by_process[p][r]);
    }
  row.set("total_latency_s", value_of_processes(samples, row.places));
  return row;
}

TEST(Rows, HoldOneValueOfAMetric) {
  Row row;
  EXPECT_EQ(row.find("load_s"), nullptr);
  row.set("load_s", 1);
  row.set("perplexity", 2);
  row.set("load_s", 3);
  ASSERT_EQ(row.values.size(), 2U);
  EXPECT_EQ(row.find("load_s")->value, 3);
  EXPECT_EQ(row.find("perplexity")->value, 2);
  EXPECT_EQ(row.find("perplexity")->n(), 1);
  EXPECT_FALSE(row.find("perplexity")->low());
  EXPECT_THROW(row.set("nothing", 1), std::logic_error);
  row.parameters = {{"a", "x"}, {"b", "y"}};
  EXPECT_EQ(row.parameter("b"), "y");
  EXPECT_EQ(row.parameter("c"), "");
}

TEST(Rows, CountTheirProcesses) {
  EXPECT_EQ(plain("a").processes(), 1);
  EXPECT_EQ(timed("a", {{1, 2, 3}}).processes(), 1);
  EXPECT_EQ(timed("a", {{1, 2}, {3}}).processes(), 2);
  EXPECT_EQ(timed("a", {{1}, {2}, {3}}).processes(), 3);
}

TEST(Rows, LossesOfAPartOfAText) {
  // What follows the text is not read.
  const std::vector<double> all(64, 0.5);
  EXPECT_EQ(loss_blocks(std::span(all).first(17)).sums, (std::vector<double>{8, 0.5}));
  EXPECT_EQ(loss_blocks(std::span(all).first(16)).sums, (std::vector<double>{8}));
  EXPECT_EQ(loss_blocks(std::span(all).first(15)).sums, (std::vector<double>{7.5}));
  EXPECT_EQ(loss_blocks(std::span(all).first(17)).tokens, 17);
}

TEST(Rows, ValuesOfRepeatsAndProcesses) {
  const Value five = value_of_repeats({1, 1, 1, 1, 6});
  EXPECT_EQ(five.value, 2);
  EXPECT_EQ(five.statistic, "mean");
  EXPECT_FALSE(five.interval);
  EXPECT_EQ(five.samples, (std::vector<double>{1, 1, 1, 1, 6}));
  EXPECT_EQ(five.n(), 5);
  EXPECT_EQ(five.processes, 0);
  const std::vector<SampleId> same(6, SampleId{3, 0});
  const Value one = value_of_processes({1, 6, 2, 5, 3, 40}, same);
  EXPECT_EQ(one.value, 4);
  EXPECT_EQ(one.statistic, "median");
  EXPECT_EQ(one.processes, 1);
  EXPECT_EQ(one.low(), 1);
  EXPECT_EQ(one.high(), 40);
  // Logarithms 0, 1, 5: their mean is 2, their error sqrt(7 / 3).
  const std::vector<SampleId> places = {{0, 0}, {1, 0}, {2, 0}};
  const Value three = value_of_processes({1, std::exp(1), std::exp(5)}, places);
  EXPECT_NEAR(three.value, std::exp(2), 1e-9);
  EXPECT_NEAR(std::log(*three.low()), 2 - 4.302653 * std::sqrt(7.0 / 3), 1e-5);
  EXPECT_NEAR(std::log(*three.high()), 2 + 4.302653 * std::sqrt(7.0 / 3), 1e-5);
  EXPECT_EQ(three.interval->level, 0.95);
  EXPECT_EQ(three.samples.size(), 3U);
  EXPECT_EQ(three.processes, 3);
}

ExperimentResult found(const std::string& name) {
  ExperimentResult result;
  result.rows = {plain(name)};
  result.comparisons.resize(1);
  result.comparisons[0].subject = name;
  result.comparisons[0].metric = "load_s";
  result.other_comparisons.resize(2, result.comparisons[0]);
  result.other_comparisons[1].subject = name;
  result.audit.resize(1);
  result.audit[0].what = name;
  result.texts = {{name, "", "", {}, {}}};
  result.findings = {StatedFinding{name}};
  return result;
}

template <typename Results>
void expect_both(const Results& all) {
  ASSERT_EQ(all.rows.size(), 2U);
  EXPECT_EQ(all.rows[0].label + all.rows[1].label, "ab");
  ASSERT_EQ(all.comparisons.size(), 2U);
  EXPECT_EQ(all.comparisons[1].subject, "b");
  ASSERT_EQ(all.other_comparisons.size(), 4U);
  EXPECT_EQ(all.other_comparisons[3].subject, "b");
  ASSERT_EQ(all.audit.size(), 2U);
  EXPECT_EQ(all.audit[1].what, "b");
  ASSERT_EQ(all.texts.size(), 2U);
  EXPECT_EQ(all.texts[1].label, "b");
  EXPECT_EQ(test::remarks_of(all), (Labels{"a", "b"}));
  ASSERT_TRUE(all.noise);
  EXPECT_EQ(all.noise->rounds, 7);
}

TEST(Results, AddOneAfterTheOther) {
  ExperimentResult a = found("a"), b = found("b");
  a.noise = NoiseEstimate{};
  a.noise->rounds = 7;
  ResultSet set;
  set.add(a);
  set.add(b);
  expect_both(set);
  EXPECT_EQ(set.status, RunStatus::complete);
  a.add(b);
  expect_both(a);
  EXPECT_FALSE(a.is_interrupted);
  b.is_interrupted = true;
  a.add(b);
  EXPECT_TRUE(a.is_interrupted);
  a.add(found("c"));
  EXPECT_TRUE(a.is_interrupted);
  set.add(b);
  EXPECT_EQ(set.status, RunStatus::interrupted);
  set.add(found("c"));
  EXPECT_EQ(set.status, RunStatus::interrupted);
}

TEST(Results, FindFinishedRowsAndComparisons) {
  ExperimentResult result;
  result.rows = {plain("a"), plain("a"), plain("b")};
  result.rows[0].status = RowStatus::error;
  EXPECT_EQ(result.find("a"), &result.rows[1]);
  EXPECT_EQ(result.find("b"), &result.rows[2]);
  EXPECT_EQ(result.find("c"), nullptr);
  Comparison c;
  c.scenario = Scenario::cache;
  c.subject = "s";
  c.baseline = "b";
  c.metric = "total_latency_s";
  Comparison scenario = c, subject = c, baseline = c, metric = c;
  scenario.scenario = Scenario::lengths;
  subject.subject = "x";
  baseline.baseline = "x";
  metric.metric = "perplexity";
  result.comparisons = {scenario, subject, baseline, metric};
  EXPECT_EQ(result.comparison(Scenario::cache, "s", "b"), nullptr);
  result.other_comparisons = {scenario, c};
  EXPECT_EQ(result.comparison(Scenario::cache, "s", "b"), &result.other_comparisons[1]);
  result.comparisons.push_back(c);
  EXPECT_EQ(result.comparison(Scenario::cache, "s", "b"), &result.comparisons[4]) << "the first list first";
  EXPECT_EQ(result.comparison(Scenario::cache, "s", "b", "perplexity"), &result.comparisons[3]);
}

// For rows that do the same work the fastest is compared with each other one.
TEST(Conclude, ComparesTheBestOfEachRankedScenario) {
  for (int i = 0; i < kScenarios; ++i) {
    const auto scenario = static_cast<Scenario>(i);
    ExperimentResult result;
    Row failed = timed("failed", {{0.1}, {0.1}, {0.1}}, scenario);
    failed.status = RowStatus::error;
    result.rows = {timed("slow", {{3}, {3}, {3}}, scenario), failed, timed("best", {{1}, {1}, {1}}, scenario),
                   timed("next", {{2}, {2}, {2}}, scenario), plain("untimed")};
    result.rows[4].scenario = scenario;
    Comparison elsewhere;
    elsewhere.metric = "total_latency_s";
    elsewhere.scenario = scenario == Scenario::cache ? Scenario::lengths : Scenario::cache;
    elsewhere.seconds_each = 9;
    Comparison here = elsewhere, unknown = elsewhere;
    here.scenario = unknown.scenario = scenario;
    here.seconds_each = 0.5;
    unknown.seconds_each = 0;
    result.comparisons = {here, unknown, elsewhere};
    result.judge_all(0.04);
    const bool is_ranked = scenario == Scenario::tradeoff || scenario == Scenario::precisions ||
                           scenario == Scenario::batches || scenario == Scenario::batched_precisions ||
                           scenario == Scenario::threads || scenario == Scenario::kv_cache;
    ASSERT_EQ(result.other_comparisons.size(), is_ranked ? 2U : 0U) << name_of(scenario);
    if (!is_ranked) continue;
    const Comparison &next = result.other_comparisons[0], &slow = result.other_comparisons[1];
    EXPECT_EQ(next.subject + " " + slow.subject, "next slow");
    EXPECT_EQ(slow.baseline, "best");
    EXPECT_EQ(slow.scenario, scenario);
    EXPECT_EQ(slow.margin, 0.04);
    EXPECT_EQ(slow.chosen_among, 3);
    EXPECT_EQ(slow.seconds_each, 0.5);
    EXPECT_EQ(slow.verdict, Verdict::higher);
    EXPECT_NEAR(slow.ratio, 3, 1e-12);
    EXPECT_EQ(result.comparisons[0].verdict, Verdict::too_few) << "all are judged";
    EXPECT_FALSE(sentence_of(result.comparisons[0]).empty());
  }
}

// Six rows of three processes, whose rounds are skewed: a process counts with its median.
TEST(Conclude, PriorsComeFromMedians) {
  const double own[6][3] = {{0, 1, -1}, {1, 0, -1}, {-1, 1, 0}, {0, -1, 1}, {1, -1, 0}, {-1, 0, 1}};
  const auto error_with = [&](bool is_skewed, Scenario scenario_of_rest, int processes_of_rest) {
    ExperimentResult result;
    for (int i = 0; i < 6; ++i) {
      std::vector<std::vector<double>> rounds;
      for (int p = 0; p < (i < 2 ? 3 : processes_of_rest); ++p) {
        const double median = std::exp(0.01 * own[i][p]);
        rounds.push_back(is_skewed ? std::vector<double>{median, median, (i + p) % 2 == 0 ? 99.0 : median}
                                   : std::vector<double>{median, median, median});
      }
      result.rows.push_back(timed(std::to_string(i), rounds, i < 2 ? Scenario::lengths : scenario_of_rest));
    }
    result.comparisons = {*compare_rows(result.rows[1], result.rows[0], "total_latency_s", 0.02)};
    result.judge_all(0.02);
    return std::pair(result.comparisons[0].effect->error, result.comparisons[0].effect->degrees);
  };
  const auto [error, degrees] = error_with(false, Scenario::lengths, 3);
  EXPECT_EQ(degrees, 10);
  const double prior = 2 * 1e-4 / (1 - 1 / 6.0) * std::exp(0.5772156649015329);
  EXPECT_NEAR(error, std::sqrt((8 * prior + 2 * 1e-4) / 10 / 3), 1e-9);
  EXPECT_NEAR(error_with(true, Scenario::lengths, 3).first, error, 1e-12);
  EXPECT_EQ(error_with(false, Scenario::lengths, 2).second, 2) << "two processes tell of no variance";
  EXPECT_EQ(error_with(false, Scenario::cache, 3).second, 2) << "of fewer than six rows nothing is known";
}

// Where a scenario has too few rows, those of all stand for it.
TEST(Conclude, PriorsOfAllScenariosServeTheOthers) {
  ExperimentResult result;
  for (int i = 0; i < 6; ++i) {
    const double x = std::exp(0.01 * (i % 3 - 1));
    result.rows.push_back(
        timed("c" + std::to_string(i), {{x}, {1}, {1 / x}}, i < 3 ? Scenario::cache : Scenario::lengths));
  }
  result.rows.push_back(timed("a", {{1}, {1.01}, {0.99}}, Scenario::padding));
  result.rows.push_back(timed("b", {{1}, {0.99}, {1.01}}, Scenario::padding));
  result.comparisons = {*compare_rows(result.rows[7], result.rows[6], "total_latency_s", 0.02)};
  Comparison text = result.comparisons[0];
  text.metric = "perplexity";
  result.comparisons.push_back(text);
  result.judge_all(0.02);
  EXPECT_GT(result.comparisons[0].effect->degrees, 2);
  EXPECT_EQ(result.comparisons[1].effect->degrees, 2) << "losses are no times";
}

Comparison against(const std::string& subject, const std::string& baseline, Verdict verdict) {
  Comparison c;
  c.scenario = Scenario::tradeoff;
  c.subject = subject;
  c.baseline = baseline;
  c.metric = "total_latency_s";
  c.verdict = verdict;
  return c;
}

TEST(BestRow, IsOneThatNothingBeats) {
  const std::vector<Row> rows = {timed("c", {{3}}), timed("a", {{1}}), timed("b", {{2}})};
  const auto labels = [&](const std::vector<Comparison>& comparisons) {
    Labels all;
    for (const Row* row : best_rows(rows, comparisons, Scenario::tradeoff)) all.push_back(row->label);
    return all;
  };
  EXPECT_EQ(labels({against("b", "a", Verdict::higher), against("c", "a", Verdict::higher)}), (Labels{"a"}));
  EXPECT_EQ(labels({against("b", "a", Verdict::cannot_tell), against("c", "a", Verdict::higher)}),
            (Labels{"a", "b"}));
  EXPECT_EQ(labels({against("b", "a", Verdict::higher)}), (Labels{"a", "c"})) << "c was not compared";
  EXPECT_EQ(labels({against("b", "a", Verdict::too_few), against("c", "a", Verdict::no_difference)}),
            (Labels{"a", "b", "c"}));
  EXPECT_TRUE(labels({against("b", "a", Verdict::too_few), against("c", "a", Verdict::too_few)}).empty());
  EXPECT_TRUE(labels({}).empty());
  EXPECT_TRUE(best_rows({rows[0]}, {}, Scenario::tradeoff).empty());
  EXPECT_EQ(best_rows({rows[0], rows[1]}, {against("c", "a", Verdict::higher)}, Scenario::tradeoff).size(),
            1U);
  // Equals stay in their order.
  const std::vector<Row> equal = {timed("x", {{1}}), timed("y", {{1}})};
  EXPECT_EQ(best_rows(equal, {against("y", "x", Verdict::no_difference)}, Scenario::tradeoff)[0]->label, "x");
}

// By process and round; a time that is no time does not divide by 0.
TEST(PairedRows, AreComparedRoundByRound) {
  const Row a = timed("a", {{2, 4}, {8, 8}, {1, 1}}), b = timed("b", {{1, 1}, {2, 8}, {1, 1}});
  const auto c = compare_rows(a, b, "total_latency_s", 0.05);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->pairs, 6);
  EXPECT_EQ(c->processes, 3);
  // Medians of the log ratios: log 2 * 1.5, log 2 * 1, 0.
  EXPECT_NEAR(c->effect->estimate, std::log(2) * 2.5 / 3, 1e-12);
  EXPECT_EQ(c->scenario, Scenario::tradeoff);
  EXPECT_EQ(c->metric, "total_latency_s");
  Row zero = timed("z", {{1}});
  zero.places = {{0, 0}};
  zero.set("total_latency_s", Value{0, {}, {0}});
  EXPECT_TRUE(std::isfinite(compare_rows(a, zero, "total_latency_s", 0.05)->ratio));
  EXPECT_TRUE(std::isfinite(compare_rows(zero, b, "total_latency_s", 0.05)->ratio));
  Row lost = a;
  lost.places.pop_back();
  EXPECT_FALSE(compare_rows(lost, b, "total_latency_s", 0.05));
  EXPECT_FALSE(compare_rows(a, plain("x"), "total_latency_s", 0.05));
  EXPECT_FALSE(compare_rows(plain("x"), a, "total_latency_s", 0.05));
}

}  // namespace
}  // namespace assay
