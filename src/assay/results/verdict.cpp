#include "assay/results/verdict.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/results/metric.h"

namespace assay {

namespace {

constexpr double kLevel = 0.95;
constexpr int kMostTimes = 100;  // as many samples: beyond it a number says nothing
constexpr Verdict kVerdicts[] = {Verdict::lower, Verdict::higher, Verdict::no_difference,
                                 Verdict::cannot_tell, Verdict::too_few};

std::vector<double> logs(std::span<const double> samples) {
  std::vector<double> all;
  for (const double x : samples) all.push_back(std::log(std::max(x, 1e-300)));
  return all;
}

double level_of(const CompareOptions& options) {
  return 1 - (1 - kLevel) / std::max(1, options.comparisons);
}

}  // namespace

NoiseBudget noise_budget(std::span<const double> log_ratios, int planned) {
  NoiseBudget budget{.pairs = static_cast<int>(log_ratios.size()), .planned = planned};
  const std::optional<Shift> shift = paired_shift(log_ratios);
  if (!shift || planned < 1) return budget;
  budget.bias = std::expm1(shift->estimate);
  // The interval narrows with the square root of the pairs. What it is itself uncertain by is added: so twice
  // the budget is found nine times in ten (tests/measure simulates it).
  // And equals drift apart over minutes, which a few seconds do not see: 1.6 by runs of equals on a shared
  // machine.
  const double uncertainty = 1.6 + 0.75 * std::sqrt(10.0 / budget.pairs);
  const double half = uncertainty * (shift->interval.high - shift->interval.low) / 2 *
                      std::sqrt(static_cast<double>(budget.pairs) / planned);
  budget.smallest_difference = std::expm1(std::max(half, std::abs(shift->estimate)));
  return budget;
}

double smallest_difference(const NoiseBudget& budget, int pairs) {
  if (pairs < 1 || budget.planned < 1) return 0;
  return std::max(std::abs(budget.bias),
                  budget.smallest_difference * std::sqrt(static_cast<double>(budget.planned) / pairs));
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::lower:
      return "lower";
    case Verdict::higher:
      return "higher";
    case Verdict::no_difference:
      return "no difference";
    case Verdict::cannot_tell:
      return "cannot tell";
    case Verdict::too_few:
      return "too few";
  }
  return "?";
}

Comparison compare_shift(const std::optional<Shift>& log_shift, int pairs, const CompareOptions& options) {
  Comparison comparison;
  comparison.pairs = pairs;
  comparison.margin = options.margin;
  if (!log_shift) return comparison;
  const Shift& shift = *log_shift;
  comparison.ratio = std::exp(shift.estimate);
  comparison.interval =
      Interval{std::exp(shift.interval.low), std::exp(shift.interval.high), shift.interval.level};
  const double margin = std::log1p(options.margin);
  if (shift.interval.low > -margin && shift.interval.high < margin) {
    comparison.verdict = Verdict::no_difference;
  } else if (shift.interval.low > 0 && shift.estimate > margin) {
    comparison.verdict = Verdict::higher;
  } else if (shift.interval.high < 0 && shift.estimate < -margin) {
    comparison.verdict = Verdict::lower;
  } else {
    comparison.verdict = Verdict::cannot_tell;
    // Until the interval either excludes the estimate's distance from none, or fits into the margin.
    const double half = (shift.interval.high - shift.interval.low) / 2;
    const double wanted = std::max(std::abs(shift.estimate), margin - std::abs(shift.estimate));
    const double factor = wanted > 0 ? half / wanted : 10;
    comparison.more_needed = std::max(
        1, static_cast<int>(std::ceil(pairs * (std::min<double>(kMostTimes, factor * factor * 1.1) - 1))));
  }
  return comparison;
}

Comparison compare_paired(std::span<const double> subject, std::span<const double> baseline,
                          const CompareOptions& options) {
  if (subject.size() != baseline.size()) throw std::logic_error("pairs of unequal numbers");
  std::vector<double> differences = logs(subject);
  const std::vector<double> of_baseline = logs(baseline);
  for (std::size_t i = 0; i < differences.size(); ++i) differences[i] -= of_baseline[i];
  const int pairs = static_cast<int>(differences.size());
  Comparison comparison = compare_shift(paired_shift(differences, level_of(options)), pairs, options);
  if (comparison.verdict != Verdict::too_few) return comparison;
  comparison.ratio = std::exp(median(differences));
  // Enough pairs for an interval at all, but not for one of the corrected level.
  if (pairs >= static_cast<int>(kFewestForInterval)) {
    comparison.verdict = Verdict::cannot_tell;
    comparison.more_needed =
        std::max(1, static_cast<int>(std::ceil(std::log2(2 / (1 - level_of(options))))) - pairs);
  }
  return comparison;
}

Comparison compare_independent(std::span<const double> subject, std::span<const double> baseline,
                               const CompareOptions& options) {
  const std::vector<double> a = logs(baseline), b = logs(subject);
  Comparison comparison = compare_shift(independent_shift(a, b, level_of(options)),
                                        static_cast<int>(std::min(a.size(), b.size())), options);
  if (comparison.verdict == Verdict::too_few) comparison.ratio = std::exp(median(b) - median(a));
  return comparison;
}

namespace {

// Repeats do not help where a text is too short: its losses are the same each time.
std::string remedy_of(const Comparison& c) {
  const bool is_text = c.metric == "perplexity";
  if (c.more_needed >= (kMostTimes - 1) * c.pairs)
    return fmt::format("needs {} times {} or more", kMostTimes, is_text ? "the text" : "as many runs");
  const double more = static_cast<double>(c.more_needed) * (is_text ? static_cast<double>(kLossBlock) : 1);
  // Two digits of an estimate.
  const double step = std::pow(10, std::max(0.0, std::floor(std::log10(more)) - 1));
  return fmt::format("needs about {:.0f} more {}", std::ceil(more / step) * step,
                     is_text              ? "tokens of text"
                     : c.more_needed == 1 ? "run"
                                          : "runs");
}

}  // namespace

void set_sentence(Comparison& c) {
  const Metric& what = metric(c.metric);
  const bool is_time = what.unit == "s" || what.unit == "ms";
  const bool is_speed = what.unit == "tokens/s";
  std::string range;
  const int digits = c.metric == "perplexity" ? 4 : 3;  // losses are small
  if (c.interval)
    range = fmt::format(" [{:.{}g}, {:.{}g}]", c.interval->low, digits, c.interval->high, digits);
  switch (c.verdict) {
    case Verdict::lower:
    case Verdict::higher: {
      const bool is_lower = c.verdict == Verdict::lower;
      const char* word = is_time    ? (is_lower ? "faster" : "slower")
                         : is_speed ? (is_lower ? "slower" : "faster")
                         : is_lower ? "lower"
                                    : "higher";
      c.sentence =
          fmt::format("{} is {} than {}: {:.{}g} x{}", c.subject, word, c.baseline, c.ratio, digits, range);
      break;
    }
    case Verdict::no_difference:
      c.sentence = fmt::format("{} and {}: no difference beyond {:.2g} %{}", c.subject, c.baseline,
                               100 * c.margin, range);
      break;
    case Verdict::cannot_tell:
      c.sentence =
          fmt::format("{} against {}: cannot tell, {}{}", c.subject, c.baseline, remedy_of(c), range);
      break;
    case Verdict::too_few:
      c.sentence = fmt::format("{} against {}: {:.3g} x, too {} for a verdict ({})", c.subject, c.baseline,
                               c.ratio, c.metric == "perplexity" ? "little text" : "few runs",
                               c.metric == "perplexity" ? fmt::format("{} tokens", kLossBlock * c.pairs)
                                                        : std::to_string(c.pairs));
  }
}

nlohmann::ordered_json to_json(const Comparison& c) {
  nlohmann::ordered_json json{{"subject", c.subject},
                              {"baseline", c.baseline},
                              {"metric", c.metric},
                              {"ratio", c.ratio},
                              {"interval", nullptr},
                              {"margin", c.margin},
                              {"verdict", name_of(c.verdict)},
                              {"pairs", c.pairs},
                              {"more_needed", c.more_needed},
                              {"sentence", c.sentence}};
  if (c.interval)
    json["interval"] = {{"low", c.interval->low}, {"high", c.interval->high}, {"level", c.interval->level}};
  return json;
}

Comparison comparison_from_json(const nlohmann::ordered_json& json) {
  Comparison c;
  c.subject = json.at("subject").get<std::string>();
  c.baseline = json.at("baseline").get<std::string>();
  c.metric = json.at("metric").get<std::string>();
  c.ratio = json.at("ratio").get<double>();
  if (const auto& interval = json.at("interval"); !interval.is_null())
    c.interval = Interval{interval.at("low").get<double>(), interval.at("high").get<double>(),
                          interval.at("level").get<double>()};
  c.margin = json.at("margin").get<double>();
  c.pairs = json.at("pairs").get<int>();
  c.more_needed = json.at("more_needed").get<int>();
  c.sentence = json.at("sentence").get<std::string>();
  const auto name = json.at("verdict").get<std::string>();
  for (const Verdict verdict : kVerdicts)
    if (name == name_of(verdict)) c.verdict = verdict;
  return c;
}

}  // namespace assay
