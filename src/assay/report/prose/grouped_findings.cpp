// Findings of one kind as sentences about all of them: one for each row would say again what tables show.
#include <algorithm>
#include <map>

#include "assay/base/format.h"
#include "assay/report/prose/prose.h"

namespace assay::report {

namespace {

using Texts = std::vector<std::string>;

constexpr std::size_t kFewestOfAGroup = 3;

template <typename Kind>
std::vector<const Kind*> all_of(std::span<const Finding> findings) {
  std::vector<const Kind*> all;
  for (const Finding& finding : findings)
    if (const auto* own = std::get_if<Kind>(&finding)) all.push_back(own);
  return all;
}

using Leaving = std::map<std::int64_t, Texts>;  // by the tokens before the first difference

// "nf4 and fp4 diverge soonest, after 0 tokens".
std::string leaving(const Leaving::value_type& at, const char* when, bool has_verb) {
  const char* verb = !has_verb ? "" : at.second.size() == 1 ? " diverges" : " diverge";
  return fmt::format("{}{} {}, after {}", joined(at.second), verb, when, counted(at.first, "token"));
}

std::string prompt_sentence(const std::vector<const TextDivergence*>& all, std::size_t prompt) {
  Leaving diverged;
  std::size_t measured = 0, equal = 0;
  for (const TextDivergence* one : all) {
    if (prompt >= one->prompts.size()) continue;
    ++measured;
    if (one->prompts[prompt].has_diverged())
      diverged[one->prompts[prompt].equal_tokens].push_back(one->subject);
    else
      ++equal;
  }
  if (measured == 0) return "";
  if (diverged.empty())
    return fmt::format("Prompt {}: all {} texts equal the baseline's.", prompt + 1, measured);
  std::string text = fmt::format("Prompt {}: {} the baseline's; ", prompt + 1,
                                 equal == 0   ? "no text equals"
                                 : equal == 1 ? fmt::format("1 of {} texts equals", measured)
                                              : fmt::format("{} of {} texts equal", equal, measured));
  if (diverged.size() == 1)
    return text + fmt::format("{} diverge after {}.", equal == 0 ? "all" : "the others",
                              counted(diverged.begin()->first, "token"));
  return text + fmt::format("{}, and {}.", leaving(*diverged.begin(), "soonest", true),
                            leaving(*diverged.rbegin(), "latest", false));
}

// Whose texts repeat a passage where the baseline's does not.
std::string repetition_sentence(const std::vector<const TextDivergence*>& all) {
  Texts repeating;
  double least = 1, most = 0;
  for (const TextDivergence* one : all) {
    bool repeats = false;
    for (const TextDivergence::Prompt& prompt : one->prompts) {
      if (!repeats_more(prompt)) continue;
      repeats = true;
      least = std::min(least, prompt.repeated_share);
      most = std::max(most, prompt.repeated_share);
    }
    if (repeats) repeating.push_back(one->subject);
  }
  if (repeating.empty()) return "";
  const std::string share = fmt::format("{:.0f} %", 100 * least), up_to = fmt::format("{:.0f} %", 100 * most);
  return fmt::format("A repeated passage makes up {} of a text, more than in the baseline's, with {}.",
                     share == up_to ? share : fmt::format("{} to {}", share, up_to), joined(repeating));
}

Texts grouped(const std::vector<const TextDivergence*>& all) {
  std::size_t prompts = 0;
  for (const TextDivergence* one : all) prompts = std::max(prompts, one->prompts.size());
  Texts lines;
  for (std::size_t i = 0; i < prompts; ++i)
    if (std::string text = prompt_sentence(all, i); !text.empty()) lines.push_back(std::move(text));
  if (std::string text = repetition_sentence(all); !text.empty()) lines.push_back(std::move(text));
  return lines;
}

// By phase: "Prefill explains most of the difference from typical for a and b: 73 % (a) to 93 % (b)."
Texts grouped(const std::vector<const EdgeDifference*>& all) {
  std::vector<std::pair<std::string, std::vector<const EdgeDifference*>>> phases;
  for (const EdgeDifference* one : all) {
    auto at =
        std::find_if(phases.begin(), phases.end(), [&](const auto& own) { return own.first == one->phase; });
    if (at == phases.end()) at = phases.insert(phases.end(), {one->phase, {}});
    at->second.push_back(one);
  }
  Texts lines;
  for (const auto& [phase, own] : phases) {
    if (own.size() < kFewestOfAGroup) {
      for (const EdgeDifference* one : own) lines.push_back(sentences_of(Finding(*one)).front());
      continue;
    }
    const auto [least, most] = std::minmax_element(
        own.begin(), own.end(),
        [](const EdgeDifference* a, const EdgeDifference* b) { return a->percent < b->percent; });
    const auto shown = [](const EdgeDifference& one) {
      return fmt::format("{:.0f} % ({}, {})", one.percent, in_sentence(one.comparison.subject),
                         counted(one.prompt_tokens, "token"));
    };
    std::string name = phase;
    if (!name.empty() && name[0] >= 'a' && name[0] <= 'z') name[0] = static_cast<char>(name[0] - 'a' + 'A');
    lines.push_back(fmt::format("{} explains most of the difference from {} ({}) for {} prompts: {} to {}.",
                                name, in_sentence(own.front()->comparison.baseline),
                                counted(own.front()->typical_prompt_tokens, "token"), own.size(),
                                shown(**least), shown(**most)));
  }
  return lines;
}

// Those whose change is shown have sentences of their own.
Texts grouped(const std::vector<const TaskFlips*>& all) {
  Texts lines, subjects;
  const TaskFlips* weakest = nullptr;
  double low = 0, high = 0;
  for (const TaskFlips* one : all) {
    if (one->is_shown) {
      lines.push_back(sentences_of(Finding(*one)).front());
      continue;
    }
    subjects.push_back(one->subject);
    low = std::min(low, one->low);
    high = std::max(high, one->high);
    if (weakest == nullptr || one->detectable_change > weakest->detectable_change) weakest = one;
  }
  if (subjects.size() < 2) {
    if (weakest != nullptr) lines.push_back(sentences_of(Finding(*weakest)).front());
    return lines;
  }
  std::string text = fmt::format(
      "No change of accuracy against {} is shown for {}: their 95 % intervals lie between {:+.1f} and "
      "{:+.1f} "
      "points.",
      in_sentence(weakest->baseline), joined(subjects), 100 * low, 100 * high);
  if (weakest->detectable_change > 0)
    text +=
        fmt::format(" With as many flips as {} has, {} show{} a change of {:.1f} points nine times in ten.",
                    in_sentence(weakest->subject), counted(weakest->items, "item"),
                    weakest->items == 1 ? "s" : "", 100 * weakest->detectable_change);
  lines.push_back(std::move(text));
  return lines;
}

// Rows that compute as much padding.
Texts grouped(const std::vector<const PaddingOverhead*>& all) {
  std::map<std::pair<std::int64_t, std::int64_t>, Texts> by_overhead;
  for (const PaddingOverhead* one : all)
    by_overhead[{one->padding_tokens, one->computed_tokens}].push_back(one->comparison.subject);
  Texts lines;
  for (const auto& [tokens, subjects] : by_overhead) {
    const double percent =
        tokens.second > 0 ? 100 * static_cast<double>(tokens.first) / static_cast<double>(tokens.second) : 0;
    lines.push_back(fmt::format("{}: {} of {} computed prompt tokens are padding ({:.0f} %).",
                                joined(subjects), tokens.first, tokens.second, percent));
  }
  return lines;
}

// Adds the sentences of a kind at its first finding, and nothing at the others.
template <typename Kind>
bool add_group(std::span<const Finding> findings, const Finding& finding, std::size_t fewest, Texts& lines) {
  const auto* own = std::get_if<Kind>(&finding);
  if (own == nullptr) return false;
  const std::vector<const Kind*> all = all_of<Kind>(findings);
  if (all.size() < fewest) return false;
  if (own == all.front())
    for (std::string& line : grouped(all)) lines.push_back(std::move(line));
  return true;
}

}  // namespace

std::vector<std::string> sentences_of(std::span<const Finding> findings) {
  Texts lines;
  for (const Finding& finding : findings) {
    if (add_group<TextDivergence>(findings, finding, kFewestOfAGroup, lines) ||
        add_group<EdgeDifference>(findings, finding, kFewestOfAGroup, lines) ||
        add_group<TaskFlips>(findings, finding, kFewestOfAGroup, lines) ||
        add_group<PaddingOverhead>(findings, finding, 1, lines))
      continue;
    for (std::string& sentence : sentences_of(finding)) lines.push_back(std::move(sentence));
  }
  return lines;
}

}  // namespace assay::report
