// What a budget of time left out, as sentences.
#include <algorithm>

#include "assay/base/format.h"
#include "assay/report/prose/prose.h"

namespace assay::report {

namespace {

using Parts = std::vector<const LeftOut*>;

// What was left out for one reason, in one list: "4096 tokens and 8176 tokens, because ...".
std::string parts_text(const Parts& of_study) {
  std::vector<std::string> texts;
  std::vector<std::string> reasons;
  for (const LeftOut* one : of_study)
    if (std::find(reasons.begin(), reasons.end(), one->reason) == reasons.end())
      reasons.push_back(one->reason);
  for (const std::string& reason : reasons) {
    std::vector<std::string> whats;
    for (const LeftOut* one : of_study)
      if (one->reason == reason && std::find(whats.begin(), whats.end(), one->what) == whats.end())
        whats.push_back(one->what);
    texts.push_back(joined(whats) + (reason.empty() ? "" : fmt::format(", because {}", reason)));
  }
  return fmt::format("{}", fmt::join(texts, "; and "));
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
    std::string text = fmt::format("Left out of {}: {}", name, parts_text(parts));
    // The one that takes longest measures most.
    const LeftOut* longest = nullptr;
    for (const LeftOut* one : parts)
      if (!one->command.empty() && (longest == nullptr || one->predicted_s > longest->predicted_s))
        longest = one;
    if (longest != nullptr)
      text += fmt::format("; measured in about {} by: {}", shown_duration(longest->predicted_s),
                          longest->command);
    else if (!run.empty())
      text += fmt::format("; measured with the rest of the run by: {}", without_budget(run));
    else
      text += ".";
    all.push_back(std::move(text));
  }
  return all;
}

}  // namespace assay::report
