// Rules of a gate, on comparisons made by hand: how they are read, what breaks them, and what they refuse.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/results/compare_results.h"
#include "support/prose.h"

namespace assay {
namespace {

using What = FailureRule::What;

TEST(GateRules, AreReadByName) {
  const std::pair<const char*, What> names[] = {
      {"latency", What::latency},       {"slower", What::latency},  {"faster", What::faster},
      {"throughput", What::throughput}, {"memory", What::memory},   {"size", What::size},
      {"perplexity", What::perplexity}, {"worse", What::perplexity}};
  for (const auto& [name, what] : names) {
    const std::string text = std::string(name) + ":2.5%";
    const std::vector<FailureRule> rules = failure_rules(text);
    ASSERT_EQ(rules.size(), 1U);
    EXPECT_EQ(rules[0].what, what) << name;
    EXPECT_EQ(rules[0].margin, 0.025);
    EXPECT_EQ(rules[0].text, text);
  }
  const std::vector<FailureRule> limits = failure_rules("kl:0.02,agreement:0.98,agreement:97%,accuracy:1%");
  ASSERT_EQ(limits.size(), 4U);
  EXPECT_EQ(limits[0].what, What::kl);
  EXPECT_EQ(limits[0].margin, 0.02);
  EXPECT_EQ(limits[1].what, What::agreement);
  EXPECT_EQ(limits[1].margin, 0.98);
  EXPECT_EQ(limits[2].margin, 0.97);
  EXPECT_EQ(limits[3].what, What::accuracy);
  EXPECT_EQ(limits[3].margin, 0.01);
  const std::vector<FailureRule> two = failure_rules("memory:0,slower:1000%");
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].text, "memory:0");
  EXPECT_EQ(two[0].margin, 0);
  EXPECT_EQ(two[1].text, "slower:1000%");
  EXPECT_EQ(two[1].margin, 10);
}

TEST(GateRules, RefuseWhatIsNone) {
  for (const char* text : {"",           "latency",        "latency:",       "latency:%",    "latency:x",
                           "latency:3x", "latency:3%%",    "latency:-1",     "latency:1001", "speed:3%",
                           ":3%",        "latency:3%,",    "Latency:3",      "kl:2%",        "kl:-1",
                           "kl:nan",     "agreement:1.01", "agreement:101%", "agreement:",   "accuracy:101%",
                           "accuracy:x"}) {
    const std::string all = text,
                      last = all.substr(all.rfind(',') == std::string::npos ? 0 : all.rfind(',') + 1);
    try {
      failure_rules(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(
          std::string(error.what())
              .find("expected latency, slower, faster, throughput, memory, size, perplexity or worse and how "
                    "many per cent are too many, as in slower:3%, or kl:0.02 (nats), agreement:0.98 or "
                    "accuracy:1% (points), found '" +
                    last + "'"),
          std::string::npos)
          << error.what();
    }
  }
}

ComparedRow judged_row(const char* metric, double ratio, double low, double high, double detectable = 0) {
  ComparedRow row;
  row.scenario = Scenario::lengths;
  row.label = "a";
  row.comparison.metric = metric;
  row.comparison.ratio = ratio;
  row.comparison.interval = statistics::Interval{low, high, 0.95};
  row.comparison.processes = 3;
  row.comparison.detectable_difference = detectable;
  row.comparison.verdict = Verdict::higher;
  row.comparison.subject = "B";
  row.comparison.baseline = "A";
  return row;
}
RuleOutcome outcome_of(const std::string& rule, std::vector<ComparedRow> rows) {
  ComparedResults compared;
  compared.rows = std::move(rows);
  return judge_rule(compared, failure_rules(rule)[0]);
}
bool breaks(const std::string& rule, const ComparedRow& row) {
  return !outcome_of(rule, {row}).broken.empty();
}
std::string error_of_rule(const ComparedResults& compared, const std::string& rule) {
  try {
    judge_rule(compared, failure_rules(rule)[0]);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A quarter is a number of two.
TEST(GateRules, NeedTheIntervalAndTheRatio) {
  for (const char* rule : {"latency:25%", "slower:25%"}) {
    EXPECT_TRUE(breaks(rule, judged_row("total_latency_s", 1.26, 1.01, 1.5)));
    EXPECT_FALSE(breaks(rule, judged_row("total_latency_s", 1.25, 1.01, 1.5))) << "at the margin";
    EXPECT_FALSE(breaks(rule, judged_row("total_latency_s", 1.26, 1, 1.5))) << "1 is not excluded";
    EXPECT_FALSE(breaks(rule, judged_row("total_latency_s", 0.5, 0.4, 0.6)));
  }
  EXPECT_TRUE(breaks("worse:25%", judged_row("perplexity", 1.26, 1.01, 1.5)));
  EXPECT_FALSE(breaks("worse:25%", judged_row("perplexity", 0.5, 0.4, 0.6)));
  const std::pair<const char*, const char*> downwards[] = {{"faster:25%", "total_latency_s"},
                                                           {"throughput:25%", "tokens_per_sec"}};
  for (const auto& [rule, metric] : downwards) {
    EXPECT_TRUE(breaks(rule, judged_row(metric, 0.79, 0.7, 0.99)));
    EXPECT_FALSE(breaks(rule, judged_row(metric, 0.8, 0.7, 0.99))) << "at the margin";
    EXPECT_FALSE(breaks(rule, judged_row(metric, 0.79, 0.7, 1))) << "1 is not excluded";
    EXPECT_FALSE(breaks(rule, judged_row(metric, 2, 1.5, 3)));
  }
  const std::pair<const char*, const char*> exact[] = {{"memory:25%", "working_memory_bytes"},
                                                       {"size:25%", "memory_bytes"}};
  for (const auto& [rule, metric] : exact) {
    ComparedRow row = judged_row(metric, 1.26, 0, 0);
    row.comparison.interval.reset();
    EXPECT_TRUE(breaks(rule, row)) << "bytes need no interval";
    row.comparison.ratio = 1.25;
    EXPECT_FALSE(breaks(rule, row));
  }
  ComparedRow without = judged_row("total_latency_s", 2, 0, 0);
  without.comparison.interval.reset();
  EXPECT_FALSE(breaks("latency:3%", without));
  without.comparison.ratio = 0.5;
  EXPECT_FALSE(breaks("faster:3%", without));
}

TEST(GateRules, NameWhatBreaksThem) {
  ComparedResults compared;
  compared.all_cases = {judged_row("total_latency_s", 2, 1.5, 3)};
  compared.all_cases[0].label = "all 2 cases together";
  compared.all_cases[0].is_of_all = true;
  compared.rows = {judged_row("total_latency_s", 2, 1.5, 3), judged_row("tokens_per_sec", 2, 1.5, 3),
                   judged_row("total_latency_s", 1, 0.9, 1.1)};
  compared.failed = {"x: no memory"};
  const std::string differs = "B is 2.0x [1.5, 3.0] slower than A in 3 processes";
  EXPECT_EQ(report::broken_by(judge_rule(compared, failure_rules("latency:3%")[0])),
            (std::vector<std::string>{"all 2 cases together: " + differs, "lengths, a: " + differs,
                                      "failed in B: x: no memory"}));
  // Where nothing else can be judged, what failed breaks the rule.
  EXPECT_EQ(report::broken_by(judge_rule(compared, failure_rules("memory:3%")[0])),
            (std::vector<std::string>{"failed in B: x: no memory"}));
  compared.failed.clear();
  EXPECT_EQ(error_of_rule(compared, "worse:3%"),
            "'worse:3%' cannot be judged: the runs have no case in common that measured Perplexity");
  EXPECT_EQ(error_of_rule(compared, "latency:3%"), "");
  compared.rows[2].untested = "too few";
  EXPECT_EQ(error_of_rule(compared, "latency:3%"), "'latency:3%' cannot be judged: lengths, a: too few");
  EXPECT_EQ(error_of_rule(compared, "throughput:3%"), "") << "which that row is not about";
  compared.rows[2].unlike = "another prompt";
  EXPECT_EQ(error_of_rule(compared, "latency:3%"),
            "'latency:3%' cannot be judged: lengths, a: another prompt");
}

// Times show in the row that shows most, texts each in its own. Three processes that show 10 % where 6 %
// should show: (10 / 6)^2 times as many are 8.3.
TEST(GateRules, RefuseWhatCouldNotHaveShown) {
  const auto latency = [](double detectable) {
    return judged_row("total_latency_s", 1, 0.9, 1.1, detectable);
  };
  EXPECT_EQ(outcome_of("latency:3%", {latency(0.5), latency(0.06), latency(0.2)}).detectable_difference,
            0.06);
  ComparedResults compared;
  compared.rows = {latency(0.5), latency(0.1)};
  EXPECT_EQ(
      error_of_rule(compared, "latency:3%"),
      "'latency:3%' cannot be judged: nothing breaks it, but nine in ten times these runs show no difference "
      "below 10 %, and 6 % should show. Repeat both with about 9 processes (--processes)");
  EXPECT_EQ(error_of_rule(compared, "faster:5%"), "");
  EXPECT_EQ(error_of_rule(compared, "latency:0%"), "") << "as much as can be found";
  compared.rows.push_back(judged_row("total_latency_s", 2, 1.5, 3, 0.5));
  EXPECT_EQ(error_of_rule(compared, "latency:3%"), "") << "it is broken, and needs no more";
  compared.rows = {judged_row("tokens_per_sec", 1, 0.9, 1.1, 0.3),
                   judged_row("tokens_per_sec", 1, 0.9, 1.1, 0.25)};
  EXPECT_EQ(judge_rule(compared, failure_rules("throughput:13%")[0]).detectable_difference, 0.25);
  compared.rows = {judged_row("perplexity", 1, 0.9, 1.1, 0.01), judged_row("perplexity", 1, 0.9, 1.1, 0.04)};
  EXPECT_EQ(
      error_of_rule(compared, "worse:1%"),
      "'worse:1%' cannot be judged: nothing breaks it, but nine in ten times these runs show no difference "
      "below 4 %, and 2 % should show. Repeat both with a text of 4 times the length");
  EXPECT_EQ(judge_rule(compared, failure_rules("worse:2%")[0]).detectable_difference, 0.04);
}

}  // namespace
}  // namespace assay
