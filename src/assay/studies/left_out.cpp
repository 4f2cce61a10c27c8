#include "assay/studies/left_out.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "assay/base/format.h"
#include "assay/results/verdict.h"
#include "assay/studies/registry.h"

namespace assay {

namespace {

// "nf4; fp4; fp4-dq and 9 others"
std::string named(const std::vector<std::string>& labels) {
  constexpr std::size_t kNamed = 4;
  if (labels.size() <= kNamed + 1) return fmt::format("{}", fmt::join(labels, "; "));
  return fmt::format("{} and {} others",
                     fmt::join(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(kNamed), "; "),
                     labels.size() - kNamed);
}

// "a, b and c"
std::string all_of(std::span<const std::string> names) {
  if (names.size() == 1) return names.front();
  return fmt::format("{} and {}", fmt::join(names.first(names.size() - 1), ", "), names.back());
}

// "processes beyond the first 3"
std::string beyond(std::string_view what, std::int64_t count) {
  return count == 1 ? fmt::format("{} beyond the first", what)
                    : fmt::format("{} beyond the first {}", what, count);
}

bool can_be_skipped(const std::string& name) {
  const std::vector<Study>& all = assay::studies();
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Study& study) { return study.name == name; });
  return at == all.end() || at->can_be_skipped;
}

// What a command takes beside its study: loading, and studies that no run is without.
double beside_s(const CostedStudy& study, const std::vector<CostedStudy>& studies, const Choice& choice) {
  double all = choice.before_s;
  for (const CostedStudy& other : studies)
    if (other.name != study.name && !can_be_skipped(other.name))
      all += predicted_study_s(other, {.name = other.name});
  return all;
}

double alone_s(const CostedStudy& study, const std::set<std::string>& without) {
  ChosenStudy alone{.name = study.name};
  alone.left_out = without;
  return predicted_study_s(study, alone);
}

void add_cases(const CostedStudy& study, const ChosenStudy& chosen, double other_s,
               const CommandOf& command_of, std::vector<LeftOut>& all) {
  std::vector<std::string> labels, values;
  std::set<std::string> without;
  for (const CostedCase& c : study.cases) {
    const bool is_left_out = chosen.left_out.count(c.key) > 0, is_first = &c == &study.cases.front();
    if (is_left_out) labels.push_back(c.label);
    if (!is_left_out && !is_first) without.insert(c.key);
    if ((is_left_out || is_first) && !c.value.empty()) values.push_back(c.value);
  }
  if (labels.empty()) return;
  const bool has_values = values.size() == study.cases.size() - without.size();
  if (!has_values) {  // the command measures all
    values.clear();
    without.clear();
  }
  // The cases of one value are measured together: "--lengths 32,128", not each as often as it has cases.
  std::vector<std::string> each;
  for (const std::string& value : values)
    if (std::find(each.begin(), each.end(), value) == each.end()) each.push_back(value);
  all.push_back({.study = study.name,
                 .what = chosen.is_measured ? named(labels) : "the whole study (" + named(labels) + ")",
                 .command = command_of(study.name, each),
                 .predicted_s = other_s + alone_s(study, without)});
}

void add_less(const CostedStudy& study, const ChosenStudy& chosen, double other_s,
              const CommandOf& command_of, std::vector<LeftOut>& all) {
  std::vector<std::string> parts;
  if (chosen.processes && *chosen.processes < kMinProcesses)
    parts.push_back(
        fmt::format("{} (a verdict takes {})", beyond("processes", *chosen.processes), kMinProcesses));
  else if (chosen.processes)
    parts.push_back(beyond("processes", *chosen.processes));
  if (chosen.repeats && *chosen.repeats < 3)
    parts.push_back(beyond("runs", *chosen.repeats) + " in each process");
  if (chosen.most_tokens) parts.push_back(beyond("new tokens", *chosen.most_tokens));
  std::vector<std::string> once;
  for (const CostedCase& c : study.cases)
    if (chosen.once.count(c.key) > 0) once.push_back(fmt::format("'{}'", c.label));
  if (!once.empty()) parts.push_back(fmt::format("further runs of {}", all_of(once)));
  if (parts.empty()) return;
  all.push_back({.study = study.name,
                 .what = all_of(parts),
                 .command = command_of(study.name, {}),
                 .predicted_s = other_s + alone_s(study, {})});
}

}  // namespace

std::vector<LeftOut> left_out_of(const std::vector<CostedStudy>& studies, const Choice& choice,
                                 const CommandOf& command_of) {
  std::vector<LeftOut> all;
  for (const CostedStudy& study : studies) {
    const ChosenStudy* chosen = choice.find(study.name);
    if (chosen == nullptr) continue;
    const double other_s = beside_s(study, studies, choice);
    add_cases(study, *chosen, other_s, command_of, all);
    if (chosen->is_measured) add_less(study, *chosen, other_s, command_of, all);
  }
  return all;
}

}  // namespace assay
