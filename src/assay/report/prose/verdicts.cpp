// What comparisons say.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/prose/prose.h"
#include "assay/results/metric.h"

namespace assay::report {

namespace {

constexpr int kMaxTimesNeeded = 100;  // beyond as many, judge.h gives no number
constexpr int kRatioDigits = 4;       // where no interval tells: losses are small

bool is_of_text(const Comparison& c) {
  return c.metric == "perplexity";
}

bool is_time(const Comparison& c) {
  const Metric& what = metric(c.metric);
  return what.unit == "s" || what.unit == "ms";
}

// Two digits of an estimate.
double rounded_up(double x) {
  const double step = std::pow(10, std::max(0.0, std::floor(std::log10(x)) - 1));
  return std::ceil(x / step) * step;
}

// Processes do not help where a text is too short: its losses are the same each time.
std::string needed_by(const Comparison& c) {
  if (c.more_needed == kNotInReach)
    return fmt::format("more than {} times as {} needed", kMaxTimesNeeded,
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

// ": 9 more processes, 46 s"; empty where it is not known.
std::string needed_in_cell(const Comparison& c) {
  if (c.more_needed == kNotInReach)
    return fmt::format(": more than {}x the {}", kMaxTimesNeeded, is_of_text(c) ? "text" : "processes");
  const std::optional<NeededMore> needed = needed_more(c);
  if (!needed) return "";
  return ": " + shown_count(*needed) + (needed->seconds > 0 ? ", " + shown_duration(needed->seconds) : "");
}

// What the ratio rests on, where that is less than usual.
std::string from_processes(const Comparison& c) {
  if (family_of(c.metric) == Family::memory || is_of_text(c)) return "";  // every process gives the same
  if (c.processes <= 0 || c.processes >= kUsualProcesses) return "";
  return c.processes == 1 ? " within one process" : fmt::format(" in {} processes", c.processes);
}

// In the middle of a sentence: "latency", "TTFT".
std::string metric_name(const Comparison& c) {
  std::string name(metric(c.metric).title);
  if (!name.empty() && !(name.size() > 1 && std::isupper(static_cast<unsigned char>(name[1])) != 0))
    name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
  return name;
}

// "latency ratio 1.02 [0.98, 1.06] in 3 processes".
std::string ratio_of(const Comparison& c) {
  const int digits = is_of_text(c) ? kRatioDigits : 3;
  return fmt::format("{} ratio {}{}", metric_name(c), with_interval(c.ratio, c.interval, digits),
                     from_processes(c));
}

// " ±4%": the larger distance to an end, in whole percent where it is one or more. Nothing where it rounds to
// 0. Both, " -2/+5%", where the larger one would reach beyond 1, which the interval excludes.
std::string percent_of(double value, const statistics::Interval& interval) {
  if (!(value > 0)) return "";
  const double below = 100 * (value - interval.low) / value, above = 100 * (interval.high - value) / value;
  const double percent = std::max(below, above);
  constexpr double kWhole = 0.95, kLeast = 0.05;
  if (!std::isfinite(percent) || percent < kLeast) return "";
  const auto shown = [](double x) { return fmt::format("{:.{}f}", x, x < kWhole ? 1 : 0); };
  const double reach = 1 - percent / 100;
  if (interval.low > 1 && value * reach < 1) return fmt::format(" -{}/+{}%", shown(below), shown(above));
  return fmt::format(" \u00b1{}%", shown(percent));
}

// Where the interval is a percentage, three digits go with it.
std::string in_cell(double value, const std::optional<statistics::Interval>& interval, Detail detail) {
  constexpr int kNarrow = 3;
  const Decimals most = significant(value, kNarrow);
  const bool is_longer = supported_decimals(value, interval, most).count > most.count;
  return detail == Detail::percent && is_longer ? rounded(value, most) : shown_number(value, interval);
}

}  // namespace

Factor shown_factor(const Comparison& c) {
  if (family_of(c.metric) != Family::speed) return {c.ratio, c.interval, false, kRatioDigits};
  const bool is_above = c.ratio >= 1;
  Factor factor{is_above ? c.ratio : 1 / c.ratio, c.interval, is_above != is_time(c)};
  if (c.interval && !is_above)
    factor.interval = statistics::Interval{1 / c.interval->high, 1 / c.interval->low, c.interval->level};
  return factor;
}

std::string interval_of(const Factor& factor) {
  std::string text = shown_interval(factor.value, factor.interval, factor.digits);
  if (!factor.interval || factor.interval->low <= 1) return text;
  const std::size_t comma = text.find(',');
  std::string low = text.substr(1, comma - 1);
  constexpr int kMost = 4;
  for (int decimals = 2; decimals <= kMost && std::strtod(low.c_str(), nullptr) == 1; ++decimals)
    low = rounded(factor.interval->low, {decimals});
  return "[" + low + text.substr(comma);
}

std::optional<NeededMore> needed_more(const Comparison& c) {
  if (c.more_needed == kNotInReach || c.more_needed <= 0) return std::nullopt;
  if (is_of_text(c))
    return NeededMore{rounded_up(static_cast<double>(c.more_needed * statistics::kLossBlock)), true};
  return NeededMore{rounded_up(c.more_needed), false, c.more_needed * c.seconds_each};
}

std::string shown_count(const NeededMore& needed) {
  return fmt::format("{:.0f} more {}", needed.count,
                     needed.is_text      ? "tokens"
                     : needed.count == 1 ? "process"
                                         : "processes");
}

std::string verdict_word(const Comparison& c) {
  const bool is_lower = c.verdict == Verdict::lower;
  if ((is_lower || c.verdict == Verdict::higher) && family_of(c.metric) == Family::speed)
    return is_lower == is_time(c) ? "faster" : "slower";
  if (c.verdict == Verdict::too_few && is_of_text(c)) return "too little text";
  return std::string(entry_of(verdicts(), c.verdict).title);
}

std::string factor_of(const Comparison& c) {
  if (family_of(c.metric) != Family::speed)
    return fmt::format("ratio {}", shown_number(c.ratio, c.interval, kRatioDigits));
  const Factor factor = shown_factor(c);
  return fmt::format("{}x {}", shown_number(factor.value, factor.interval),
                     factor.is_faster ? "faster" : "slower");
}

std::string factor_with_interval(const Comparison& c) {
  if (family_of(c.metric) != Family::speed)
    return fmt::format("ratio {}", with_interval(c.ratio, c.interval, kRatioDigits));
  const Factor factor = shown_factor(c);
  return fmt::format("{}x{} {}", shown_number(factor.value, factor.interval),
                     factor.interval ? " " + interval_of(factor) : "",
                     factor.is_faster ? "faster" : "slower");
}

std::string verdict_cell(const Comparison& c, Detail detail) {
  switch (c.verdict) {
    case Verdict::lower:
    case Verdict::higher: {
      const Factor factor = shown_factor(c);
      std::string text =
          fmt::format("{} {}x", verdict_word(c), in_cell(factor.value, factor.interval, detail));
      if (!factor.interval || detail == Detail::none) return text;
      if (detail == Detail::percent) return text + percent_of(factor.value, *factor.interval);
      return text + " " + interval_of(factor);
    }
    case Verdict::no_difference:
      return "tied";
    case Verdict::cannot_tell:
      return "undecided" + needed_in_cell(c);
    case Verdict::too_few:
      break;
  }
  return "no verdict";
}

std::string sentence_of(const Comparison& c) {
  const bool is_speed = family_of(c.metric) == Family::speed;
  switch (c.verdict) {
    case Verdict::lower:
    case Verdict::higher:
      if (!is_speed)
        return fmt::format("{} has a {} {} than {}: {}", in_sentence(c.subject), verdict_word(c),
                           metric_name(c), in_sentence(c.baseline), ratio_of(c));
      return fmt::format("{} is {} than {}{}{}", in_sentence(c.subject), factor_with_interval(c),
                         in_sentence(c.baseline), from_processes(c),
                         c.metric == "total_latency_s" ? "" : fmt::format(" ({})", metric_name(c)));
    case Verdict::no_difference:
      return fmt::format("{} equals {} within {:.2g} %: {}", in_sentence(c.subject), in_sentence(c.baseline),
                         100 * c.margin, ratio_of(c));
    case Verdict::cannot_tell:
      return fmt::format("{} against {} is undecided: {}; {}", in_sentence(c.subject),
                         in_sentence(c.baseline), ratio_of(c), needed_by(c));
    case Verdict::too_few:
      break;
  }
  return fmt::format(
      "{} against {} has no verdict: {}{}", in_sentence(c.subject), in_sentence(c.baseline), ratio_of(c),
      is_of_text(c)
          ? fmt::format("; a verdict needs a text of {} tokens",
                        statistics::kLossBlock * static_cast<std::int64_t>(statistics::kMinForInterval))
          : fmt::format("; a verdict needs {} processes", kMinProcesses));
}

std::string sentence_of(const ComparedRow& row) {
  const Comparison& c = row.comparison;
  if (!row.unlike.empty()) return "B cannot be compared with A: " + row.unlike;
  if (!row.untested.empty())
    return fmt::format("B against A has no verdict: {}; {}", ratio_of(c), row.untested);
  if (family_of(c.metric) != Family::memory) return sentence_of(c);
  if (row.a == row.b) return fmt::format("B equals A: {:.0f} bytes", row.b);
  return fmt::format("B takes {:.0f} bytes {} than A: {:.0f} instead of {:.0f}", std::abs(row.b - row.a),
                     row.b > row.a ? "more" : "fewer", row.b, row.a);
}

std::vector<std::string> broken_by(const RuleOutcome& outcome) {
  std::vector<std::string> lines;
  for (const ComparedRow& row : outcome.broken)
    lines.push_back(fmt::format("{}: {}", row.place(), sentence_of(row)));
  lines.insert(lines.end(), outcome.beyond_limit.begin(), outcome.beyond_limit.end());
  for (const std::string& failed : outcome.failed) lines.push_back("failed in B: " + failed);
  return lines;
}

}  // namespace assay::report
