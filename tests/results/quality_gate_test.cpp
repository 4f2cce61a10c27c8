// Limits of quality in a gate: kept, broken and undecided, and the sentences that say so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/results/compare_results.h"
#include "assay/statistics/divergence_statistics.h"
#include "support/prose.h"
#include "support/result_sets.h"
#include "support/simulated_text.h"

namespace assay {
namespace {

Row diverging_row(const std::string& label, double kl, double half, double agreement, double share_half) {
  Row row;
  row.scenario = Scenario::divergence;
  row.label = label;
  row.set("tokens_scored", 3000);
  const auto value = [](double middle, double around) {
    Value made{middle, {}, {}};
    if (around > 0) made.interval = statistics::Interval{middle - around, middle + around, 0.95};
    return made;
  };
  row.set("kl_mean", value(kl, half));
  row.set("top1_agreement", value(agreement, share_half));
  return row;
}

// Answers to `items` items, of which the first `right` are right.
Row task_row(const std::string& label, std::size_t items, std::size_t right, double log_likelihood) {
  Row row;
  row.scenario = Scenario::task;
  row.label = label;
  row.parameters = {{"task_sha256", "abc"}};
  row.set("accuracy", static_cast<double>(right) / static_cast<double>(items));
  row.answers.emplace();
  for (std::size_t i = 0; i < items; ++i)
    row.answers->items.push_back({.line = static_cast<std::int64_t>(i + 1),
                                  .log_likelihoods = {log_likelihood, -2},
                                  .is_right = i < right,
                                  .is_right_norm = i < right});
  return row;
}

ComparedResults compared_of(std::vector<Row> a, std::vector<Row> b) {
  ResultSet first, second;
  first.rows = std::move(a);
  second.rows = std::move(b);
  return compare_results(first, second, 0.02);
}
RuleOutcome judged(const ComparedResults& compared, const std::string& rule) {
  return judge_rule(compared, failure_rules(rule)[0]);
}
std::string refusal(const ComparedResults& compared, const std::string& rule) {
  try {
    judged(compared, rule);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(QualityGate, HoldsKlAgainstItsInterval) {
  const ComparedResults compared = compared_of(
      {}, {diverging_row("int8", 0.004, 0.001, 0.98, 0.005), diverging_row("nf4", 0.05, 0.002, 0.92, 0.01)});
  EXPECT_FALSE(judged(compared, "kl:0.06").is_broken());
  EXPECT_FALSE(judged(compared, "kl:0.0521").is_broken()) << "the upper end is within";
  EXPECT_EQ(
      report::broken_by(judged(compared, "kl:0.02")),
      std::vector<std::string>{"divergence, nf4: its KL divergence of 0.05 [0.048, 0.052] nats per token "
                               "lies above 0.02 nats per token"});
  // (0.002 / 0.001)^2 times 3000 tokens.
  EXPECT_EQ(
      refusal(compared, "kl:0.051"),
      "'kl:0.051' is undecided: divergence, nf4: its KL divergence of 0.05 [0.048, 0.052] nats per token "
      "has the limit of 0.051 nats per token within its interval; about 12000 tokens would decide");
  EXPECT_EQ(judged(compared, "kl:0.004").beyond_limit.size(), 1U)
      << "nf4 breaks it, whatever is undecided of int8";
}

TEST(QualityGate, HoldsAgreementTheOtherWayRound) {
  const ComparedResults compared = compared_of({}, {diverging_row("nf4", 0.05, 0.002, 0.92, 0.01)});
  EXPECT_FALSE(judged(compared, "agreement:0.91").is_broken());
  EXPECT_FALSE(judged(compared, "agreement:90%").is_broken());
  EXPECT_EQ(
      report::broken_by(judged(compared, "agreement:0.98")),
      std::vector<std::string>{"divergence, nf4: its top-1 agreement of 92 [91, 93] % lies below 98 %"});
  EXPECT_NE(refusal(compared, "agreement:0.925").find("is undecided: divergence, nf4: its top-1 agreement"),
            std::string::npos);
  const ComparedResults few = compared_of({}, {diverging_row("nf4", 0.05, 0, 0.92, 0)});
  EXPECT_EQ(
      refusal(few, "kl:0.02"),
      "'kl:0.02' is undecided: divergence, nf4: its KL divergence of 0.05 nats per token comes from 3000 "
      "tokens, and an interval needs 1536");
}

TEST(QualityGate, TestsAFallOfAccuracyPairwise) {
  const Row full = task_row("nf4", 400, 300, -1);
  // 20 items became wrong, none right: 5 points.
  const ComparedResults fell = compared_of({full}, {task_row("nf4", 400, 280, -1)});
  EXPECT_EQ(report::broken_by(judged(fell, "accuracy:1%")).size(), 1U);
  EXPECT_NE(report::broken_by(judged(fell, "accuracy:1%"))[0].find(
                "task, nf4: its accuracy of 70.0 % is lower than the 75.0 % of A by 5 points ["),
            std::string::npos);
  EXPECT_FALSE(judged(fell, "accuracy:8%").is_broken());
  // The other way round it rose.
  const ComparedResults rose = compared_of({task_row("nf4", 400, 280, -1)}, {full});
  EXPECT_FALSE(judged(rose, "accuracy:1%").is_broken());
  // Equal to the bit is no fall, however few items there are; a flip of few items shows nothing.
  const ComparedResults same = compared_of({task_row("nf4", 20, 10, -1)}, {task_row("nf4", 20, 10, -1)});
  EXPECT_FALSE(judged(same, "accuracy:1%").is_broken());
  const ComparedResults few = compared_of({task_row("nf4", 20, 10, -1)}, {task_row("nf4", 20, 9, -1)});
  EXPECT_EQ(
      refusal(few, "accuracy:1%"),
      "'accuracy:1%' is undecided: task, nf4: of 20 items 1 flipped, which in nine of ten cases shows no "
      "fall below 16 points, and 2 should show; about 1400 items would show it");
}

TEST(QualityGate, RefusesWhatHasNoFigures) {
  Row other = task_row("nf4", 20, 10, -1);
  other.parameters = {{"task_sha256", "def"}};
  EXPECT_EQ(refusal(compared_of({task_row("nf4", 20, 10, -1)}, {other}), "accuracy:1%"),
            "'accuracy:1%' is undecided: task, nf4: A and B answered different tasks");
  EXPECT_EQ(refusal(compared_of({}, {}), "kl:0.02"),
            "'kl:0.02' cannot be judged: no case measured KL divergence");
}

// Ten of 12 candidates without any change must not help one that is lucky: Holm's rule.
TEST(QualityGate, CorrectsAccuraciesOfAllRowsTogether) {
  std::vector<Row> a, b;
  for (int i = 0; i < 12; ++i) {
    a.push_back(task_row("case " + std::to_string(i), 4000, 3000, -1));
    b.push_back(task_row("case " + std::to_string(i), 4000, i == 0 ? 2993 : 3000, -1));
  }
  // Seven flips of seven: p = 0.016.
  EXPECT_FALSE(judged(compared_of(a, b), "accuracy:0%").is_broken());
  EXPECT_TRUE(judged(compared_of({a[0]}, {b[0]}), "accuracy:0%").is_broken());
}

// An interval that clears the limit alone does not where five others are judged with it.
TEST(QualityGate, CorrectsLimitsOfAllCandidatesTogether) {
  const Row alone = diverging_row("nf4", 0.05, 0.002, 0.92, 0.01);
  std::vector<Row> six{alone};
  for (int i = 0; i < 5; ++i)
    six.push_back(diverging_row("case " + std::to_string(i), 0.0474, 0.002, 0.92, 0.01));
  EXPECT_TRUE(judged(compared_of({}, {alone}), "kl:0.0478").is_broken());
  EXPECT_EQ(
      refusal(compared_of({}, six), "kl:0.0478"),
      "'kl:0.0478' is undecided: divergence, nf4: its KL divergence of 0.05 [0.04698, 0.05302] nats per "
      "token has the limit of 0.0478 nats per token within its interval, whose error of 5 % is divided "
      "by 6 for the limits that are judged together (Holm); about 5700 tokens would decide");
  // What is far beyond leaves the others as they are: Holm's rule counts those alone that are left.
  std::vector<Row> clear{alone};
  for (int i = 0; i < 5; ++i)
    clear.push_back(diverging_row("case " + std::to_string(i), 0.9, 0.002, 0.5, 0.01));
  EXPECT_EQ(judged(compared_of({}, clear), "kl:0.0478").beyond_limit.size(), 6U);
  EXPECT_EQ(judged(compared_of({}, clear), "kl:0.0478").limits_judged, 6);
}

// So are the limits of all rules that are given together.
TEST(QualityGate, CorrectsAllRulesTogether) {
  const ComparedResults compared = compared_of({}, {diverging_row("nf4", 0.05, 0.002, 0.92, 0.01)});
  const std::vector<FailureRule> rules = failure_rules("kl:0.0478,agreement:0.92,latency:3%");
  EXPECT_THROW(judge_rule(compared, rules, 0), Error) << "at 2.5 %";
  EXPECT_THROW(judge_rule(compared, rules, 1), Error);
  EXPECT_TRUE(judge_rule(compared, std::span(rules).first(1), 0).is_broken()) << "at 5 %";
  const std::vector<JudgedLimit> limits = judge_limits(compared.quality, rules);
  ASSERT_EQ(limits.size(), 2U) << "a latency is another family";
  EXPECT_EQ(limits[0].divisor, 2);
  EXPECT_EQ(limits[1].verdict, LimitVerdict::undecided);
  EXPECT_EQ(limits[1].p_value, 1);
}

// Six candidates whose true KL is the limit: any verdict is a false one.
TEST(QualityGate, FamiliesSeldomHaveAFalseVerdict) {
  constexpr int kRuns = 2000, kCandidates = 6;
  const double truth = test::kMedianSize * std::exp(test::kSpread * test::kSpread / 2);
  const std::vector<FailureRule> rules{{FailureRule::What::kl, truth, "kl"}};
  test::SimulatedText text(11);
  int is_false = 0, alone = 0, found = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<QualityRow> rows;
    for (int i = 0; i < kCandidates; ++i) {
      const statistics::Estimate mean = statistics::token_mean(text.next(test::kTextTokens));
      rows.push_back({.label = "case",
                      .metric = std::string(kKlMetric),
                      .b = mean.value,
                      .interval = mean.interval,
                      .count = static_cast<std::int64_t>(test::kTextTokens)});
    }
    const auto is_any = [&](const std::vector<JudgedLimit>& limits) {
      return std::any_of(limits.begin(), limits.end(),
                         [](const JudgedLimit& l) { return l.verdict != LimitVerdict::undecided; });
    };
    is_false += is_any(judge_limits(rows, rules));
    alone += is_any(judge_limits(std::span(rows).first(1), rules));
    // One that is twice the limit is found among the others.
    rows[3].b *= 2;
    rows[3].interval->low *= 2;
    rows[3].interval->high *= 2;
    found += judge_limits(rows, rules)[3].verdict == LimitVerdict::broken;
  }
  EXPECT_LE(is_false, 0.055 * kRuns);
  EXPECT_GE(is_false, 0.01 * kRuns) << "a family that never decides says nothing";
  EXPECT_LE(alone, 0.07 * kRuns);
  EXPECT_GE(alone, 0.03 * kRuns);
  EXPECT_GE(found, 0.9 * kRuns);
}

}  // namespace
}  // namespace assay
