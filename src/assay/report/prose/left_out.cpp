// What a budget of time left out, as sentences.
#include <algorithm>
#include <string_view>
#include <utility>

#include "assay/base/format.h"
#include "assay/report/prose/prose.h"

namespace assay::report {

namespace {

constexpr std::string_view kWholeStudy = "the whole study";

using Parts = std::vector<const LeftOut*>;

// "a, b and 9 others" of "a; b and 9 others", and "a and b" of "a; b". What holds commas keeps its
// semicolons.
std::string listed_cases(const std::string& what) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= what.size();) {
    const std::size_t end = std::min(what.find("; ", at), what.size());
    names.push_back(what.substr(at, end - at));
    at = end + 2;
  }
  const bool has_commas = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.find(", ") != std::string::npos;
  });
  if (names.size() == 1) return what;
  const std::string between = has_commas ? "; " : ", ";
  const bool has_others = names.back().ends_with(" others");
  if (has_others && has_commas) return what;
  const std::string last = std::exchange(names.back(), "");
  names.pop_back();
  return fmt::format("{}{}{}", fmt::join(names, between),
                     has_others   ? between
                     : has_commas ? "; and "
                                  : " and ",
                     last);
}

// What was left out for one reason: "4096 tokens and 2048 tokens because ...".
struct Group {
  std::string reason;
  std::vector<std::string> whats;
};

std::vector<Group> groups_of(const Parts& parts) {
  std::vector<Group> groups;
  for (const LeftOut* one : parts) {
    auto at = std::find_if(groups.begin(), groups.end(),
                           [&](const Group& group) { return group.reason == one->reason; });
    if (at == groups.end()) at = groups.insert(groups.end(), {one->reason, {}});
    if (std::find(at->whats.begin(), at->whats.end(), one->what) == at->whats.end())
      at->whats.push_back(one->what);
  }
  return groups;
}

std::string because(const std::string& reason) {
  return reason.empty() ? "" : " because " + reason;
}

// What the choice left out is a list of cases and what the others have less of; what was left out later is a
// case each.
std::string text_of(const Group& group) {
  if (!group.reason.empty()) return joined(group.whats) + because(group.reason);
  std::vector<std::string> lists;
  for (const std::string& what : group.whats) lists.push_back(listed_cases(what));
  return fmt::format("{}", fmt::join(lists, ", as well as "));
}

std::string text_of(const std::string& study, const Parts& parts) {
  // Beside a whole study its parts go without saying.
  for (const LeftOut* one : parts)
    if (one->what.starts_with(kWholeStudy)) {
      std::string cases = one->what.substr(kWholeStudy.size());
      if (cases.starts_with(" (") && cases.ends_with(")"))
        cases = fmt::format(" ({})", listed_cases(cases.substr(2, cases.size() - 3)));
      return fmt::format("The budget left out {} {}{}{}.", kWholeStudy, study, cases, because(one->reason));
    }
  std::vector<std::string> texts;
  for (const Group& group : groups_of(parts)) texts.push_back(text_of(group));
  return fmt::format("From the study {}, the budget left out {}.", study, fmt::join(texts, "; and also "));
}

}  // namespace

std::vector<std::string> sentences_of(std::span<const LeftOut> left_out, const std::string& run) {
  std::vector<std::pair<std::string, Parts>> studies;
  for (const LeftOut& one : left_out) {
    auto at = std::find_if(studies.begin(), studies.end(),
                           [&](const auto& study) { return study.first == one.study; });
    if (at == studies.end()) at = studies.insert(studies.end(), {one.study, {}});
    at->second.push_back(&one);
  }
  std::vector<std::string> all;
  for (const auto& [name, parts] : studies) {
    std::string text = text_of(name, parts);
    // The one that takes longest measures most.
    const LeftOut* longest = nullptr;
    for (const LeftOut* one : parts)
      if (!one->command.empty() && (longest == nullptr || one->predicted_s > longest->predicted_s))
        longest = one;
    if (longest != nullptr)
      text += fmt::format(" Measure it in about {} with: {}", shown_duration(longest->predicted_s),
                          longest->command);
    else if (!run.empty())
      text += fmt::format(" Measure it with the rest of the run by: {}", without_budget(run));
    all.push_back(std::move(text));
  }
  return all;
}

}  // namespace assay::report
