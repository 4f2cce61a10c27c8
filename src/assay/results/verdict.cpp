#include "assay/results/verdict.h"

#include <algorithm>
#include <cmath>

#include "assay/results/metric.h"

namespace assay {

namespace {

constexpr double kLevel = 0.95;
constexpr Named<Verdict> kVerdictTable[] = {
    {Verdict::lower, "lower", "lower", "The interval lies below 1."},
    {Verdict::higher, "higher", "higher", "The interval lies above 1."},
    {Verdict::no_difference, "no difference", "no difference", "The interval lies within the margin."},
    {Verdict::cannot_tell, "cannot tell", "undecided",
     "The interval excludes neither a difference nor equality within the margin."},
    {Verdict::too_few, "too few", "too few processes", "There are fewer than three processes."},
};
static_assert(std::size(kVerdictTable) == kVerdicts);

std::vector<double> logs(std::span<const double> samples) {
  std::vector<double> all;
  for (const double x : samples) all.push_back(std::log(std::max(x, 1e-300)));
  return all;
}

std::vector<double> medians_of(std::span<const std::vector<double>> by_process) {
  std::vector<double> medians;
  for (const std::vector<double>& own : by_process)
    if (!own.empty()) medians.push_back(statistics::median(own));
  return medians;
}

void set_interval(Comparison& c, const statistics::Interval& of_log) {
  c.interval = statistics::Interval{std::exp(of_log.low), std::exp(of_log.high), of_log.level};
}

}  // namespace

std::optional<NoiseEstimate> noise_estimate(std::span<const std::vector<double>> log_ratios) {
  const std::vector<double> medians = medians_of(log_ratios);
  const auto effect = statistics::effect_of(medians);
  const auto spread = statistics::spread_of(log_ratios);
  if (!effect || !spread || static_cast<int>(medians.size()) < kMinProcesses) return std::nullopt;
  const auto processes = static_cast<int>(medians.size());
  std::size_t rounds = 0;
  for (const std::vector<double>& own : log_ratios) rounds = std::max(rounds, own.size());
  // A ratio of two has the variance of both.
  return NoiseEstimate{
      .between = spread->between / std::sqrt(2.0),
      .within = spread->within / std::sqrt(2.0),
      .bias = std::expm1(effect->estimate),
      .processes = processes,
      .rounds = static_cast<int>(rounds),
      .detectable_difference = std::expm1(statistics::detectable_difference(*effect, kLevel))};
}

Family family_of(std::string_view tag) {
  const Metric* what = find_metric(tag);
  if (what == nullptr) return Family::speed;  // a ratio that names no metric is one of times
  if (what->unit == "B") return Family::memory;
  const bool is_speed = what->unit == "s" || what->unit == "ms" || what->unit == "tokens/s";
  return is_speed ? Family::speed : Family::quality;
}

std::span<const Named<Verdict>> verdicts() {
  return kVerdictTable;
}
std::string_view name_of(Verdict verdict) {
  return entry_of(verdicts(), verdict).name;
}

Comparison compare_processes(std::span<const std::vector<double>> log_ratios, double margin) {
  Comparison comparison;
  comparison.margin = margin;
  const std::vector<double> medians = medians_of(log_ratios);
  comparison.processes = static_cast<int>(medians.size());
  for (const std::vector<double>& own : log_ratios) comparison.pairs += static_cast<int>(own.size());
  comparison.ratio = std::exp(statistics::mean(medians));
  if (comparison.processes >= kMinProcesses) {
    comparison.effect = statistics::effect_of(medians);
  } else if (comparison.processes == 1) {
    for (const std::vector<double>& own : log_ratios)
      if (const auto shift = statistics::paired_shift(own)) set_interval(comparison, shift->interval);
  }
  return comparison;
}

Comparison compare_losses(std::span<const double> differences, double margin) {
  Comparison comparison;
  comparison.margin = margin;
  comparison.metric = "perplexity";
  const std::vector<double> blocks = statistics::block_means(differences, statistics::kLossBlock);
  comparison.pairs = comparison.processes =
      static_cast<int>(static_cast<std::int64_t>(differences.size()) / statistics::kLossBlock);
  if (comparison.processes >= static_cast<int>(statistics::kMinForInterval))
    comparison.effect = statistics::effect_of(blocks);
  comparison.ratio = std::exp(statistics::mean(differences));
  if (comparison.effect) comparison.effect->estimate = statistics::mean(differences);
  return comparison;
}

Comparison compare_unpaired(std::span<const double> subject, std::span<const double> baseline,
                            double margin) {
  Comparison comparison;
  comparison.margin = margin;
  comparison.pairs = comparison.processes = static_cast<int>(std::min(subject.size(), baseline.size()));
  const std::vector<double> a = logs(baseline), b = logs(subject);
  comparison.ratio = std::exp(statistics::mean(b) - statistics::mean(a));
  if (comparison.processes >= kMinProcesses) comparison.effect = statistics::difference_of(a, b);
  return comparison;
}

}  // namespace assay
