// What the rows of a table have in common, which none of its cells can show.
#include <algorithm>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/prose/prose.h"
#include "assay/results/metric.h"

namespace assay::report {

namespace {

using Compared = std::vector<const Comparison*>;

constexpr std::size_t kFewest = 3;  // rows that have something in common; two are read at once

std::vector<std::string> subjects_of(const Compared& rows) {
  std::vector<std::string> names;
  for (const Comparison* c : rows) names.push_back(c->subject);
  return names;
}

// "float32"; "its baseline" where rows have baselines of their own.
std::string baseline_of(std::span<const Comparison> all, const char* of_several) {
  const bool is_one = std::all_of(all.begin(), all.end(),
                                  [&](const Comparison& c) { return c.baseline == all.front().baseline; });
  return is_one ? in_sentence(all.front().baseline) : of_several;
}

// The factor of a cell: "1.59x".
std::string factor_alone(const Comparison& c) {
  const Factor factor = shown_factor(c);
  return shown_number(factor.value, factor.interval) + "x";
}

// From the factor nearest to 1 to the furthest.
std::string factors_of(const Compared& rows) {
  const auto distance = [](const Comparison* c) { return c->ratio >= 1 ? c->ratio : 1 / c->ratio; };
  const auto [least, most] = std::minmax_element(
      rows.begin(), rows.end(),
      [&](const Comparison* a, const Comparison* b) { return distance(a) < distance(b); });
  return fmt::format("{} ({}) to {} ({})", factor_alone(**least), in_sentence((*least)->subject),
                     factor_alone(**most), in_sentence((*most)->subject));
}

// "All 17 are faster than float32, from 1.74x (nf4) to 3.56x (int8-dynamic)."
std::string majority_sentence(const Compared& rows, std::size_t all, const std::string& baseline) {
  const Comparison& c = *rows.front();
  const std::string many =
      rows.size() == all ? fmt::format("All {}", all) : fmt::format("{} of {}", rows.size(), all);
  if (family_of(c.metric) == Family::speed)
    return fmt::format("{} are {} than {}, from {}.", many, verdict_word(c), baseline, factors_of(rows));
  return fmt::format("{} have a {} {} than {}, from {}.", many, verdict_word(c), metric(c.metric).tag,
                     baseline, factors_of(rows));
}

// Those that go another way than most.
std::string minority_sentence(const Compared& rows, const std::string& baseline) {
  const Comparison& c = *rows.front();
  const bool is_one = rows.size() == 1, is_speed = family_of(c.metric) == Family::speed;
  const std::string factor = is_one ? fmt::format(" ({})", factor_alone(c)) : "";
  const char* verb = is_speed ? (is_one ? "is" : "are") : (is_one ? "has a" : "have a");
  return fmt::format("The other way round, {} {} {}{} than {}{}.", joined(subjects_of(rows)), verb,
                     verdict_word(c), is_speed ? "" : fmt::format(" {}", metric(c.metric).tag), baseline,
                     factor);
}

// "Undecided against typical: multi-line; 80 more processes (2 min) would probably decide it."
std::string undecided_sentence(const Compared& rows, const std::string& baseline) {
  std::string text = fmt::format("Undecided against {}: {}", baseline, joined(subjects_of(rows)));
  const Comparison* most = nullptr;
  std::vector<std::string> out_of_reach;
  for (const Comparison* c : rows)
    if (c->more_needed == kNotInReach)
      out_of_reach.push_back(c->subject);
    else if (most == nullptr || c->more_needed > most->more_needed)
      most = c;
  if (const auto needed = most != nullptr ? needed_more(*most) : std::nullopt) {
    text += fmt::format("; {}{} would probably decide{}", shown_count(*needed),
                        needed->seconds > 0 ? fmt::format(" ({})", shown_duration(needed->seconds)) : "",
                        rows.size() == 1           ? " it"
                        : out_of_reach.empty()     ? " all of them"
                        : out_of_reach.size() == 1 ? fmt::format(" all but {}", out_of_reach.front())
                                                   : " some of them");
  }
  return text + ".";
}

std::string untested_sentence(const Compared& rows, std::size_t all) {
  const bool is_text = rows.front()->metric == "perplexity";
  const std::string which = rows.size() == all ? "" : " for " + joined(subjects_of(rows));
  return is_text
             ? fmt::format("There is no verdict{}: it takes a text of {} tokens.", which,
                           statistics::kLossBlock * static_cast<std::int64_t>(statistics::kMinForInterval))
             : fmt::format("There is no verdict{}: it takes {} processes.", which, kMinProcesses);
}

}  // namespace

std::vector<std::string> shared_sentences(std::span<const Comparison> comparisons) {
  std::vector<std::string> sentences;
  if (comparisons.empty()) return sentences;
  Compared lower, higher, tied, undecided, untested;
  Compared* by_verdict[kVerdicts] = {};
  by_verdict[static_cast<int>(Verdict::lower)] = &lower;
  by_verdict[static_cast<int>(Verdict::higher)] = &higher;
  by_verdict[static_cast<int>(Verdict::no_difference)] = &tied;
  by_verdict[static_cast<int>(Verdict::cannot_tell)] = &undecided;
  by_verdict[static_cast<int>(Verdict::too_few)] = &untested;
  for (const Comparison& c : comparisons) by_verdict[static_cast<int>(c.verdict)]->push_back(&c);
  const std::size_t all = comparisons.size();
  const Compared &most = lower.size() >= higher.size() ? lower : higher,
                 &fewer = lower.size() >= higher.size() ? higher : lower;
  if (most.size() >= kFewest)
    sentences.push_back(majority_sentence(most, all, baseline_of(comparisons, "their baselines")));
  if (most.size() >= kFewest && !fewer.empty())
    sentences.push_back(minority_sentence(fewer, baseline_of(comparisons, "its baseline")));
  if (all >= kFewest && !tied.empty()) {
    double margin = 0;
    for (const Comparison* c : tied) margin = std::max(margin, c->margin);
    sentences.push_back(fmt::format("Within {:.2g} % of {}: {}.", 100 * margin,
                                    baseline_of(comparisons, "their baselines"), joined(subjects_of(tied))));
  }
  if (all >= kFewest && !undecided.empty())
    sentences.push_back(undecided_sentence(undecided, baseline_of(comparisons, "the baseline")));
  if (!untested.empty()) sentences.push_back(untested_sentence(untested, all));
  return sentences;
}

}  // namespace assay::report
