#include "assay/results/quality_gate.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/statistics/divergence_statistics.h"
#include "assay/statistics/replicates.h"

namespace assay {

namespace {

bool is_accuracy(const QualityRow& row) {
  return row.metric == kAccuracyMetric;
}

std::string figure_name(const QualityRow& row) {
  return row.metric == kKlMetric ? "KL divergence" : "top-1 agreement";
}

// "0.0312 nats per token", "95.1 %".
std::string limit_text(const QualityRow& row, double value) {
  return row.metric == kKlMetric ? fmt::format("{:.3g} nats per token", value)
                                 : fmt::format("{:.4g} %", 100 * value);
}

std::string figure_with_interval(const QualityRow& row) {
  const double scale = row.metric == kKlMetric ? 1 : 100;
  std::string text = fmt::format("{:.4g}", scale * row.b);
  if (row.interval)
    text += fmt::format(" [{:.4g}, {:.4g}]", scale * row.interval->low, scale * row.interval->high);
  return text + (row.metric == kKlMetric ? " nats per token" : " %");
}

// Two less than a mean of normal blocks has: those of a divergence are skewed, and err more often far out.
double degrees_of(const QualityRow& row) {
  return std::max(1.0, static_cast<double>(row.count / statistics::kDivergenceBlock) - 3);
}

// How many times as wide an interval is whose error level is divided.
double widening(const QualityRow& row, int divisor) {
  if (divisor <= 1) return 1;
  const double degrees = degrees_of(row), level = row.interval->level;
  return statistics::student_t_quantile(1 - (1 - level) / divisor, degrees) /
         statistics::student_t_quantile(level, degrees);
}

void add_divergences(const ResultSet& a, const Row& row, std::vector<QualityRow>& all) {
  for (const std::string_view metric : {kKlMetric, kAgreementMetric}) {
    const Value* value = row.find(metric);
    if (value == nullptr) continue;
    QualityRow& own = all.emplace_back();
    own.label = row.label;
    own.metric = metric;
    own.b = value->value;
    own.interval = value->interval;
    if (const Value* tokens = row.find("tokens_scored")) own.count = static_cast<std::int64_t>(tokens->value);
    for (const Row& old : a.rows)
      if (old.scenario == Scenario::divergence && old.status == RowStatus::ok && old.label == row.label &&
          old.find(metric) != nullptr)
        own.a = old.find(metric)->value;
  }
}

std::vector<bool> right_answers(const TaskAnswers& answers) {
  std::vector<bool> are_right;
  for (const TaskAnswers::Item& item : answers.items) are_right.push_back(item.is_right);
  return are_right;
}

void add_accuracy(const Row& old, const Row& now, std::vector<QualityRow>& all) {
  if (old.find(kAccuracyMetric) == nullptr || now.find(kAccuracyMetric) == nullptr) return;
  QualityRow& own = all.emplace_back();
  own.scenario = Scenario::task;
  own.label = now.label;
  own.metric = kAccuracyMetric;
  own.a = old.find(kAccuracyMetric)->value;
  own.b = now.find(kAccuracyMetric)->value;
  if (old.parameter("task_sha256") != now.parameter("task_sha256"))
    own.untested = "A and B answered different tasks";
  else if (!old.answers || !now.answers || old.answers->items.empty() ||
           old.answers->items.size() != now.answers->items.size())
    own.untested = "A or B does not hold the answers to its items, which a paired test needs";
  if (!own.untested.empty()) return;
  own.counts = statistics::paired_counts(right_answers(*now.answers), right_answers(*old.answers));
  own.count = own.counts.items();
  own.interval = statistics::difference_interval(own.counts);
  own.has_equal_answers = *old.answers == *now.answers;
}

LimitVerdict judge_fall(const QualityRow& row, double limit, int divisor) {
  if (!row.untested.empty()) return LimitVerdict::undecided;
  const double fall = -row.counts.difference();
  if (fall > limit && statistics::mcnemar_p_value(row.counts) <= kFalseLimitVerdict / divisor)
    return LimitVerdict::broken;
  if (row.has_equal_answers || limit <= 0 || (row.interval && row.interval->low >= -limit))
    return LimitVerdict::kept;
  return statistics::detectable_share(row.counts) > kShownFalls * limit ? LimitVerdict::undecided
                                                                        : LimitVerdict::kept;
}

// Two digits: it is an estimate.
std::int64_t about(double count) {
  const double step = std::pow(10, std::max(0.0, std::floor(std::log10(std::max(1.0, count))) - 1));
  return static_cast<std::int64_t>(std::min(1e15, std::ceil(count / step - 1e-9) * step));
}

std::string undecided_fall(const QualityRow& row, double limit) {
  if (!row.untested.empty()) return row.untested;
  const double found = statistics::detectable_share(row.counts), asked = kShownFalls * limit;
  return fmt::format(
      "of {} items {} flipped, which in nine of ten cases shows no fall below {:.2g} points, and {:.2g} "
      "should show; about {} items would show it",
      row.count, row.counts.flips(), 100 * found, 100 * asked,
      about(static_cast<double>(row.count) * std::pow(found / asked, 2)));
}

}  // namespace

std::string QualityRow::place() const {
  return fmt::format("{}, {}", name_of(scenario), label);
}

std::vector<QualityRow> quality_rows(const ResultSet& a, const ResultSet& b) {
  std::vector<QualityRow> all;
  for (const Row& row : b.rows)
    if (row.scenario == Scenario::divergence && row.status == RowStatus::ok) add_divergences(a, row, all);
  for (const Row& old : a.rows)
    for (const Row& now : b.rows)
      if (old.scenario == Scenario::task && now.scenario == Scenario::task && old.label == now.label &&
          old.status == RowStatus::ok && now.status == RowStatus::ok)
        add_accuracy(old, now, all);
  return all;
}

double limit_p_value(const QualityRow& row, double limit) {
  if (is_accuracy(row)) return row.untested.empty() ? statistics::mcnemar_p_value(row.counts) : 1;
  if (!row.interval) return 1;
  const double away = std::abs(row.b - limit),
               half = row.b > limit ? row.b - row.interval->low : row.interval->high - row.b;
  if (half <= 0) return 0;  // all blocks are equal
  const double degrees = degrees_of(row),
               in_half = statistics::student_t_quantile(row.interval->level, degrees);
  return statistics::student_t_tail(away / half * in_half, degrees);
}

std::string_view name_of(LimitVerdict verdict) {
  return verdict == LimitVerdict::kept ? "kept" : verdict == LimitVerdict::broken ? "broken" : "undecided";
}

LimitVerdict judge_limit(const QualityRow& row, double limit, int divisor) {
  if (is_accuracy(row)) return judge_fall(row, limit, divisor);
  if (limit_p_value(row, limit) > kFalseLimitVerdict / divisor) return LimitVerdict::undecided;
  return (row.metric == kKlMetric ? row.b > limit : row.b < limit) ? LimitVerdict::broken
                                                                   : LimitVerdict::kept;
}

std::string broken_limit(const QualityRow& row, double limit) {
  if (!is_accuracy(row))
    return fmt::format("its {} of {} lies {} {}", figure_name(row), figure_with_interval(row),
                       row.metric == kKlMetric ? "above" : "below", limit_text(row, limit));
  return fmt::format(
      "its accuracy of {:.1f} % is lower than the {:.1f} % of A by {:.2g} points [{:.2g}, {:.2g}]: {} items "
      "became wrong and {} right (McNemar's p {:.2g})",
      100 * row.b, 100 * row.a.value_or(0), -100 * row.counts.difference(), -100 * row.interval->high,
      -100 * row.interval->low, row.counts.lost, row.counts.gained, statistics::mcnemar_p_value(row.counts));
}

std::string undecided_limit(const QualityRow& row, double limit, int divisor) {
  if (is_accuracy(row)) return undecided_fall(row, limit);
  const auto fewest = statistics::kDivergenceBlock * static_cast<std::int64_t>(statistics::kMinForInterval);
  if (!row.interval)
    return fmt::format("its {} of {} comes from {} tokens, and an interval needs {}", figure_name(row),
                       figure_with_interval(row), row.count, fewest);
  const double wider = widening(row, divisor);
  QualityRow judged = row;
  judged.interval->low = row.b - wider * (row.b - row.interval->low);
  judged.interval->high = row.b + wider * (row.interval->high - row.b);
  const double half = (judged.interval->high - judged.interval->low) / 2, away = std::abs(row.b - limit);
  const std::string remedy =
      away > 0.01 * half ? fmt::format("about {} tokens would decide",
                                       about(static_cast<double>(row.count) * std::pow(half / away, 2)))
                         : "no length of text is known to decide";
  return fmt::format("its {} of {} has the limit of {} within its interval{}; {}", figure_name(row),
                     figure_with_interval(judged), limit_text(row, limit),
                     divisor > 1
                         ? fmt::format(", whose error of 5 % is divided by {} for the limits that are "
                                       "judged together (Holm)",
                                       divisor)
                         : "",
                     remedy);
}

}  // namespace assay
