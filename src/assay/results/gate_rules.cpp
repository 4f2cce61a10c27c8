// Rules of a gate: how they are read, and what they say of two runs.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "assay/base/error.h"
#include "assay/results/compare_results.h"
#include "assay/results/metric.h"
#include "assay/statistics/replicates.h"

namespace assay {

namespace {

struct RuleName {
  std::string_view name;
  FailureRule::What what;
  std::string_view tag;
};
constexpr RuleName kRuleNames[] = {
    {"latency", FailureRule::What::latency, "total_latency_s"},
    {"slower", FailureRule::What::latency, "total_latency_s"},
    {"faster", FailureRule::What::faster, "total_latency_s"},
    {"throughput", FailureRule::What::throughput, "tokens_per_sec"},
    {"memory", FailureRule::What::memory, "working_memory_bytes"},
    {"size", FailureRule::What::size, "memory_bytes"},
    {"perplexity", FailureRule::What::perplexity, "perplexity"},
    {"worse", FailureRule::What::perplexity, "perplexity"},
    {"accuracy", FailureRule::What::accuracy, kAccuracyMetric},
    {"kl", FailureRule::What::kl, kKlMetric},
    {"agreement", FailureRule::What::agreement, kAgreementMetric},
};

std::string_view metric_of(const FailureRule& rule) {
  const auto* known = std::find_if(std::begin(kRuleNames), std::end(kRuleNames),
                                   [&](const RuleName& each) { return each.what == rule.what; });
  return known->tag;
}

// What a number may be: per cent up to 1000, nats, a share of 1, percentage points.
std::optional<double> bound_in(FailureRule::What what, std::string number) {
  const bool has_percent = !number.empty() && number.back() == '%';
  if (has_percent) number.pop_back();
  double value = 0;
  const auto [stop, code] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (code != std::errc() || stop != number.data() + number.size() || !(value >= 0 && value <= 1000))
    return std::nullopt;
  switch (what) {
    case FailureRule::What::kl:
      return has_percent ? std::nullopt : std::optional(value);
    case FailureRule::What::agreement:
      if (has_percent) value /= 100;
      return value <= 1 ? std::optional(value) : std::nullopt;
    case FailureRule::What::accuracy:
      return value <= 100 ? std::optional(value / 100) : std::nullopt;
    default:
      return value / 100;
  }
}

FailureRule failure_rule(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string what = text.substr(0, colon);
  const auto* rule = std::find_if(std::begin(kRuleNames), std::end(kRuleNames),
                                  [&](const RuleName& known) { return known.name == what; });
  const std::optional<double> bound = rule == std::end(kRuleNames) || colon == std::string::npos
                                          ? std::nullopt
                                          : bound_in(rule->what, text.substr(colon + 1));
  if (!bound)
    throw FieldError("fail_on",
                     "expected latency, slower, faster, throughput, memory, size, perplexity or worse and "
                     "how many per cent are too many, as in slower:3%, or kl:0.02 (nats), agreement:0.98 or "
                     "accuracy:1% (points), found '{}'",
                     text);
  return {rule->what, *bound, text};
}

bool is_broken(const Comparison& c, const FailureRule& rule) {
  const double more = 1 + rule.margin;
  switch (rule.what) {
    case FailureRule::What::memory:
    case FailureRule::What::size:
      return c.ratio > more;
    case FailureRule::What::faster:
    case FailureRule::What::throughput:
      return c.interval && c.interval->high < 1 && c.ratio < 1 / more;
    case FailureRule::What::latency:
    case FailureRule::What::perplexity:
      break;
    case FailureRule::What::accuracy:
    case FailureRule::What::kl:
    case FailureRule::What::agreement:
      return false;  // judge_quality()
  }
  return c.interval && c.interval->low > 1 && c.ratio > more;
}

// What makes a difference of `asked` show: an error shrinks with the square root of the replicates.
std::string what_shows(const Comparison& c, double asked) {
  const double times = std::pow(c.detectable_difference / asked, 2);
  if (c.metric == "perplexity") return fmt::format("with a text of {:.2g} times the length", times);
  return fmt::format("with about {} processes (--processes)",
                     static_cast<std::int64_t>(std::min(1e9, std::ceil(c.processes * times))));
}

}  // namespace

std::vector<FailureRule> failure_rules(const std::string& text) {
  std::vector<FailureRule> rules;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    rules.push_back(failure_rule(text.substr(at, comma - at)));
    at = comma + 1;
  }
  return rules;
}

std::vector<JudgedLimit> judge_limits(std::span<const QualityRow> rows, std::span<const FailureRule> rules) {
  std::vector<JudgedLimit> all;
  std::vector<double> p_values;
  for (std::size_t r = 0; r < rules.size(); ++r)
    for (const QualityRow& row : rows)
      if (row.metric == metric_of(rules[r])) {
        all.push_back({.rule = r, .row = &row, .p_value = limit_p_value(row, rules[r].margin)});
        p_values.push_back(all.back().p_value);
      }
  const std::vector<int> divisors = statistics::holm_divisors(p_values, kFalseLimitVerdict);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].divisor = divisors[i];
    all[i].verdict = judge_limit(*all[i].row, rules[all[i].rule].margin, divisors[i]);
  }
  return all;
}

RuleOutcome judge_quality(std::span<const QualityRow> rows, std::span<const FailureRule> rules,
                          std::size_t which) {
  const FailureRule& rule = rules[which];
  RuleOutcome outcome;
  std::string undecided;
  bool is_judged = false;
  const std::vector<JudgedLimit> all = judge_limits(rows, rules);
  for (const JudgedLimit& limit : all) {
    if (limit.rule != which) continue;
    is_judged = true;
    const QualityRow& row = *limit.row;
    if (limit.verdict == LimitVerdict::broken)
      outcome.beyond_limit.push_back(fmt::format("{}: {}", row.place(), broken_limit(row, rule.margin)));
    if (limit.verdict == LimitVerdict::undecided && undecided.empty())
      undecided = fmt::format("{}: {}", row.place(), undecided_limit(row, rule.margin, limit.divisor));
  }
  if (!is_judged)
    throw Error("'{}' cannot be judged: no case measured {}", rule.text, metric(metric_of(rule)).title);
  if (!outcome.is_broken() && !undecided.empty()) throw Error("'{}' is undecided: {}", rule.text, undecided);
  outcome.limits_judged = static_cast<int>(all.size());
  return outcome;
}

RuleOutcome judge_rule(const ComparedResults& compared, std::span<const FailureRule> rules,
                       std::size_t which) {
  const FailureRule& rule = rules[which];
  const std::string tag(metric_of(rule));
  if (rule.is_limit() || rule.what == FailureRule::What::accuracy) {
    const bool has_rows = std::any_of(compared.quality.begin(), compared.quality.end(),
                                      [&](const QualityRow& row) { return row.metric == tag; });
    RuleOutcome outcome;
    if (has_rows || compared.failed.empty()) outcome = judge_quality(compared.quality, rules, which);
    outcome.failed = compared.failed;
    return outcome;
  }
  RuleOutcome outcome;
  std::vector<const Comparison*> judged;
  const auto judge = [&](const ComparedRow& row, const std::string& where) {
    if (row.comparison.metric != tag) return;
    const std::string& why = row.unlike.empty() ? row.untested : row.unlike;
    if (!why.empty()) throw Error("'{}' cannot be judged: {}: {}", rule.text, where, why);
    judged.push_back(&row.comparison);
    if (is_broken(row.comparison, rule)) outcome.broken.push_back(row);
  };
  for (const ComparedRow& row : compared.all_cases) judge(row, row.place());
  for (const ComparedRow& row : compared.rows) judge(row, row.place());
  outcome.failed = compared.failed;
  if (judged.empty()) {
    if (outcome.is_broken()) return outcome;
    throw Error("'{}' cannot be judged: the runs have no case in common that measured {}", rule.text,
                metric(tag).title);
  }
  const auto shows_more = [](const Comparison* x, const Comparison* y) {
    return x->detectable_difference < y->detectable_difference;
  };
  const bool is_of_processes = tag == "total_latency_s" || tag == "tokens_per_sec";
  const Comparison& by = is_of_processes ? **std::min_element(judged.begin(), judged.end(), shows_more)
                                         : **std::max_element(judged.begin(), judged.end(), shows_more);
  outcome.detectable_difference = by.detectable_difference;
  const double asked = kShown * rule.margin;
  if (!outcome.is_broken() && rule.margin > 0 && by.detectable_difference > asked)
    throw Error(
        "'{}' cannot be judged: nothing breaks it, but nine in ten times these runs show no difference below "
        "{:.2g} "
        "%, and {:.2g} % should show. Repeat {} {}",
        rule.text, 100 * by.detectable_difference, 100 * asked, compared.are_interleaved ? "it" : "both",
        what_shows(by, asked));
  return outcome;
}

}  // namespace assay
