#include "assay/results/verdict.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <stdexcept>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/results/metric.h"

namespace assay {

namespace {

constexpr double kLevel = 0.95;
constexpr int kMaxTimes = 100;  // as many samples: beyond it a number says nothing
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

std::span<const Named<Verdict>> verdicts() {
  return kVerdictTable;
}
std::string_view name_of(Verdict verdict) {
  return entry_of(verdicts(), verdict).name;
}

std::string shown_duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::max(1.0, seconds));
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
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

namespace {

// The best of n stands for the best of n (n - 1) / 2 pairs, of which n - 1 are tested.
double selection_of(const Comparison& c) {
  return std::max(1.0, c.chosen_among / 2.0);
}

void judge_at(Comparison& c, int divisor) {
  const statistics::Effect& effect = *c.effect;
  const double level = 1 - (1 - kLevel) / divisor / selection_of(c);
  const statistics::Interval interval = effect.interval(level);
  set_interval(c, interval);
  const double margin = std::log1p(c.margin);
  c.more_needed = 0;
  if (interval.low > -margin && interval.high < margin) {
    c.verdict = Verdict::no_difference;
  } else if (*c.p_value <= 1 - level) {
    c.verdict = effect.estimate > 0 ? Verdict::higher : Verdict::lower;
  } else {
    c.verdict = Verdict::cannot_tell;
    const auto now = static_cast<int>(effect.replicates);
    const auto needed = statistics::replicates_needed(effect, margin, level, kMaxTimes * now);
    c.more_needed = needed ? std::max(1, *needed - now) : kNotInReach;
  }
  c.detectable_difference = std::expm1(statistics::detectable_difference(effect, level));
}

}  // namespace

void judge(std::span<Comparison* const> family) {
  std::vector<Comparison*> tested;
  std::vector<double> p_values;
  for (Comparison* c : family) {
    if (c->effect) {
      c->p_value = c->effect->p_value();
      tested.push_back(c);
      p_values.push_back(std::min(1.0, *c->p_value * selection_of(*c)));
    } else {
      c->verdict = Verdict::too_few;
    }
  }
  const std::vector<int> divisors = statistics::holm_divisors(p_values, 1 - kLevel);
  for (std::size_t i = 0; i < tested.size(); ++i) judge_at(*tested[i], divisors[i]);
  for (Comparison* c : family) set_sentence(*c);
}

void judge(Comparison& alone) {
  Comparison* const family[] = {&alone};
  judge(family);
}

namespace {

bool is_of_text(const Comparison& c) {
  return c.metric == "perplexity";
}

// Two digits of an estimate.
double rounded_up(double x) {
  const double step = std::pow(10, std::max(0.0, std::floor(std::log10(x)) - 1));
  return std::ceil(x / step) * step;
}

// Processes do not help where a text is too short: its losses are the same each time.
std::string needed_by(const Comparison& c) {
  if (c.more_needed == kNotInReach)
    return fmt::format("more than {} times as {} needed", kMaxTimes,
                       is_of_text(c) ? "much text is" : "many processes are");
  if (is_of_text(c))
    return fmt::format("about {:.0f} more tokens of text are needed",
                       rounded_up(static_cast<double>(c.more_needed * statistics::kLossBlock)));
  const double seconds = c.more_needed * c.seconds_each;
  return fmt::format("about {:.0f} more process{}{} needed", rounded_up(c.more_needed),
                     c.more_needed == 1 ? "" : "es",
                     (seconds > 0 ? fmt::format(" (about {})", shown_duration(seconds)) : "") +
                         (c.more_needed == 1 ? " is" : " are"));
}

// What the ratio rests on, where that is less than usual.
std::string from_processes(const Comparison& c) {
  if (is_of_text(c) || c.processes >= kUsualProcesses) return "";
  return c.processes == 1 ? " within one process" : fmt::format(" in {} processes", c.processes);
}

// "latency ratio", "perplexity ratio".
std::string ratio_name(const Metric& what) {
  std::string name(what.title);
  if (!name.empty() && !(name.size() > 1 && std::isupper(static_cast<unsigned char>(name[1])) != 0))
    name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
  return name + " ratio";
}

}  // namespace

std::string verdict_word(const Comparison& c) {
  const Metric& what = metric(c.metric);
  const bool is_time = what.unit == "s" || what.unit == "ms", is_speed = what.unit == "tokens/s";
  const bool is_lower = c.verdict == Verdict::lower;
  if ((is_lower || c.verdict == Verdict::higher) && (is_time || is_speed))
    return is_lower == is_time ? "faster" : "slower";
  if (c.verdict == Verdict::too_few && is_of_text(c)) return "too little text";
  return std::string(entry_of(verdicts(), c.verdict).title);
}

void set_sentence(Comparison& c) {
  const Metric& what = metric(c.metric);
  const int digits = is_of_text(c) ? 4 : 3;  // losses are small
  std::string ratio = fmt::format("{} {:.{}g}", ratio_name(what), c.ratio, digits);
  if (c.interval)
    ratio += fmt::format(" [{:.{}g}, {:.{}g}]", c.interval->low, digits, c.interval->high, digits);
  ratio += from_processes(c);
  switch (c.verdict) {
    case Verdict::lower:
    case Verdict::higher:
      c.sentence = fmt::format("{} is {} than {}: {}", c.subject, verdict_word(c), c.baseline, ratio);
      break;
    case Verdict::no_difference:
      c.sentence =
          fmt::format("{} equals {} within {:.2g} %: {}", c.subject, c.baseline, 100 * c.margin, ratio);
      break;
    case Verdict::cannot_tell:
      c.sentence =
          fmt::format("{} against {} is undecided: {}; {}", c.subject, c.baseline, ratio, needed_by(c));
      break;
    case Verdict::too_few:
      c.sentence = fmt::format(
          "{} against {} has no verdict: {}{}", c.subject, c.baseline, ratio,
          is_of_text(c) ? fmt::format(", from a text of only {} tokens", statistics::kLossBlock * c.processes)
                        : fmt::format("; a verdict needs {} processes", kMinProcesses));
  }
}

}  // namespace assay
