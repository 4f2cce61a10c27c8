// Numbers, lists and warnings.
#include <algorithm>

#include "assay/base/format.h"
#include "assay/report/prose/prose.h"

namespace assay::report {

namespace {

constexpr std::string_view kWithHead = ", lm_head ";

// Configurations that differ in their precision alone.
struct PrecisionGroup {
  std::string head;  // the format of their LM head; empty: it is not quantized
  std::vector<std::string> precisions;
};
std::vector<PrecisionGroup> precision_groups(std::span<const std::string> labels) {
  std::vector<PrecisionGroup> groups;
  for (const std::string& label : labels) {
    const std::size_t at = label.find(kWithHead);
    const std::string head = at == std::string::npos ? "" : label.substr(at + kWithHead.size());
    auto own =
        std::find_if(groups.begin(), groups.end(), [&](const PrecisionGroup& g) { return g.head == head; });
    if (own == groups.end()) own = groups.insert(groups.end(), {head, {}});
    own->precisions.push_back(label.substr(0, at));
  }
  return groups;
}

// "nf4 and nf4-dq with lm_head nf4; and fp4"; empty where the names have no such parts.
std::string grouped_precisions(std::span<const std::string> labels) {
  constexpr std::size_t kMost = 8;
  std::vector<PrecisionGroup> groups = precision_groups(labels);
  if (labels.size() < 2 || labels.size() > kMost || groups.size() == labels.size()) return "";
  if (groups.size() == 1 && groups.front().head.empty()) return "";  // there is no such part
  for (const PrecisionGroup& group : groups)
    for (const std::string& text : group.precisions)
      if (text.find(',') != std::string::npos || group.head.find(',') != std::string::npos) return "";
  std::vector<std::string> parts;
  for (const PrecisionGroup& group : groups)
    parts.push_back(joined(group.precisions) + (group.head.empty() ? "" : " with lm_head " + group.head));
  if (parts.size() == 1) return parts.front();
  return fmt::format("{}; and {}", fmt::join(std::span(parts).first(parts.size() - 1), "; "), parts.back());
}

}  // namespace

std::string shown_duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::max(1.0, seconds));
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string shown_mebibytes(double bytes) {
  return fmt::format("{:.1f} MiB", bytes / (1024 * 1024));
}

std::string joined(std::span<const std::string> labels) {
  if (std::string grouped = grouped_precisions(labels); !grouped.empty()) return grouped;
  constexpr std::size_t kNamed = 4;
  // Labels hold commas: "nf4, lm_head int8".
  const bool has_commas = std::any_of(labels.begin(), labels.end(), [](const std::string& label) {
    return label.find(',') != std::string::npos;
  });
  const std::string separator = has_commas ? "; " : ", ", last = has_commas ? "; and " : " and ";
  if (labels.size() > kNamed)
    return fmt::format("{}{}{} other{}", fmt::join(labels.first(kNamed), separator), last,
                       labels.size() - kNamed, labels.size() == kNamed + 1 ? "" : "s");
  if (labels.size() < 2) return labels.empty() ? "" : labels.front();
  return fmt::format("{}{}{}", fmt::join(labels.first(labels.size() - 1), separator), last, labels.back());
}

std::string sentence_of(const Warning& warning) {
  const std::string_view remedy = info_of(warning.kind).remedy;
  return remedy.empty() ? warning.text : fmt::format("{}; {}", warning.text, remedy);
}

std::vector<std::string> sentences_of(std::span<const Warning> warnings) {
  std::vector<std::string> all;
  for (const Warning& warning : warnings) all.push_back(sentence_of(warning));
  return all;
}

}  // namespace assay::report
