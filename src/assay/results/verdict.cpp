#include "assay/results/verdict.h"

#include <algorithm>
#include <cctype>
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
constexpr Named<Verdict> kVerdictTable[] = {
    {Verdict::lower, "lower", "lower", "The interval excludes 1 and the ratio lies below the margin."},
    {Verdict::higher, "higher", "higher", "The interval excludes 1 and the ratio lies above the margin."},
    {Verdict::no_difference, "no difference", "no difference", "The interval lies within the margin."},
    {Verdict::cannot_tell, "cannot tell", "undecided",
     "The interval excludes neither a difference nor equality within the margin."},
    {Verdict::too_few, "too few", "too few runs", "There are too few samples for an interval."},
};
static_assert(std::size(kVerdictTable) == kVerdicts);

std::vector<double> logs(std::span<const double> samples) {
  std::vector<double> all;
  for (const double x : samples) all.push_back(std::log(std::max(x, 1e-300)));
  return all;
}

double level_of(const CompareOptions& options) {
  return 1 - (1 - kLevel) / std::max(1, options.comparisons);
}

}  // namespace

NoiseMargin noise_margin(std::span<const double> log_ratios, int planned) {
  NoiseMargin margin{.pairs = static_cast<int>(log_ratios.size()), .planned = planned};
  const std::optional<Shift> shift = paired_shift(log_ratios);
  if (!shift || planned < 1) return margin;
  margin.bias = std::expm1(shift->estimate);
  // The interval narrows with the square root of the pairs. What it is itself uncertain by is added: so twice
  // the margin is found nine times in ten (tests/measure simulates it).
  // And equal sessions drift apart over minutes, which a few seconds do not see: 1.6 by A/A runs on a shared
  // machine.
  const double uncertainty = 1.6 + 0.75 * std::sqrt(10.0 / margin.pairs);
  const double half = uncertainty * (shift->interval.high - shift->interval.low) / 2 *
                      std::sqrt(static_cast<double>(margin.pairs) / planned);
  margin.smallest_difference = std::expm1(std::max(half, std::abs(shift->estimate)));
  return margin;
}

double smallest_difference(const NoiseMargin& margin, int pairs) {
  if (pairs < 1 || margin.planned < 1) return 0;
  return std::max(std::abs(margin.bias),
                  margin.smallest_difference * std::sqrt(static_cast<double>(margin.planned) / pairs));
}

std::span<const Named<Verdict>> verdicts() {
  return kVerdictTable;
}
std::string_view name_of(Verdict verdict) {
  return entry_of(verdicts(), verdict).name;
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

bool is_of_text(const Comparison& c) {
  return c.metric == "perplexity";
}

// Repeats do not help where a text is too short: its losses are the same each time.
std::string needed_by(const Comparison& c) {
  if (c.more_needed >= (kMostTimes - 1) * c.pairs)
    return is_of_text(c) ? fmt::format("a text {} times as long is needed at least", kMostTimes)
                         : fmt::format("{} times as many runs are needed at least", kMostTimes);
  const double more =
      static_cast<double>(c.more_needed) * (is_of_text(c) ? static_cast<double>(kLossBlock) : 1);
  // Two digits of an estimate.
  const double step = std::pow(10, std::max(0.0, std::floor(std::log10(more)) - 1));
  const double rounded = std::ceil(more / step) * step;
  if (is_of_text(c)) return fmt::format("about {:.0f} more tokens of text are needed", rounded);
  return fmt::format("about {:.0f} more {} needed", rounded, c.more_needed == 1 ? "run is" : "runs are");
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
      c.sentence =
          fmt::format("{} against {} has no verdict: {}, from {}", c.subject, c.baseline, ratio,
                      is_of_text(c) ? fmt::format("a text of only {} tokens", kLossBlock * c.pairs)
                                    : fmt::format("only {} run{}", c.pairs, c.pairs == 1 ? "" : "s"));
  }
}

nlohmann::ordered_json interval_to_json(const std::optional<Interval>& interval) {
  if (!interval) return nullptr;
  return {{"low", interval->low}, {"high", interval->high}, {"level", interval->level}};
}

std::optional<Interval> interval_from_json(const JsonReader& json) {
  if (json.is_null()) return std::nullopt;
  return Interval{json.at("low").number(), json.at("high").number(), json.at("level").number()};
}

nlohmann::ordered_json to_json(const Comparison& c) {
  return {{"subject", c.subject},
          {"baseline", c.baseline},
          {"metric", c.metric},
          {"ratio", c.ratio},
          {"interval", interval_to_json(c.interval)},
          {"margin", c.margin},
          {"verdict", name_of(c.verdict)},
          {"pairs", c.pairs},
          {"more_needed", c.more_needed},
          {"sentence", c.sentence}};
}

Comparison comparison_from_json(const JsonReader& json) {
  Comparison c;
  c.subject = json.at("subject").text();
  c.baseline = json.at("baseline").text();
  c.metric = json.at("metric").text();
  if (find_metric(c.metric) == nullptr) json.at("metric").fail("this program knows no metric of this name");
  c.ratio = json.at("ratio").number();
  c.interval = interval_from_json(json.at("interval"));
  c.margin = json.at("margin").number();
  c.pairs = json.at("pairs").whole<int>();
  c.more_needed = json.at("more_needed").whole<int>();
  c.sentence = json.at("sentence").text();
  c.verdict = entry_at(verdicts(), json.at("verdict")).value;
  return c;
}

}  // namespace assay
