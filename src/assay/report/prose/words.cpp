// Numbers, lists and warnings.
#include <algorithm>
#include <map>

#include "assay/base/format.h"
#include "assay/report/prose/prose.h"

namespace assay::report {

namespace {

constexpr std::string_view kWithHead = "+head:";
constexpr std::size_t kNamesOfASentence = 4;  // names of a sentence
constexpr std::size_t kInKind = 8;            // names of precisions of one kind
constexpr std::size_t kAtLeast = 3;           // precisions that have a common name

// What precisions are called together.
struct Kind {
  std::string_view begin;  // the name begins so
  std::string_view stem, bits;
};
constexpr Kind kKinds[] = {{"nf4", "nf4", "4-bit"},
                           {"fp4", "fp4", "4-bit"},
                           {"int4", "int4", "4-bit"},
                           {"q4_", "q4", "4-bit"},
                           {"iq4_", "iq4", "4-bit"},
                           {"int8-dynamic", "int8-dynamic", "int8"},
                           {"int8-static", "int8-static", "int8"},
                           {"llm-int8", "llm-int8", "int8"},
                           {"int8", "int8", "int8"},
                           {"bfloat16", "bfloat16", "16-bit"},
                           {"float16", "float16", "16-bit"},
                           {"q8_", "q8", "8-bit"},
                           {"q6_", "q6", "6-bit"},
                           {"q5_", "q5", "5-bit"},
                           {"q3_", "q3", "3-bit"},
                           {"q2_", "q2", "2-bit"}};

const Kind* kind_of_precision(std::string_view label) {
  for (const Kind& kind : kKinds)
    if (label.starts_with(kind.begin)) return &kind;
  return nullptr;
}

// `others`: how many more there are than the names tell.
std::string listed(std::span<const std::string> names, std::size_t others) {
  // A label may hold commas: "nf4, KV cache int8".
  const bool has_commas = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.find(',') != std::string::npos && name.back() != ')';
  });
  const std::string separator = has_commas ? "; " : ", ", last = has_commas ? "; and " : " and ";
  if (others > 0)
    return fmt::format("{}{}{} other{}", fmt::join(names, separator), last, others, others == 1 ? "" : "s");
  if (names.size() < 2) return names.empty() ? "" : names.front();
  return fmt::format("{}{}{}", fmt::join(names.first(names.size() - 1), separator), last, names.back());
}

// "the 4-bit precisions with a quantized LM head (nf4+head:nf4, ...)".
std::string named_together(const std::vector<std::string>& labels) {
  const Kind& first = *kind_of_precision(labels.front());
  const bool is_one_stem = std::all_of(labels.begin(), labels.end(), [&](const std::string& label) {
    return kind_of_precision(label)->stem == first.stem;
  });
  const bool has_heads = std::all_of(labels.begin(), labels.end(), [](const std::string& label) {
    return label.find(kWithHead) != std::string::npos;
  });
  return fmt::format("the {} precisions{} ({})", is_one_stem ? first.stem : first.bits,
                     has_heads ? " with a quantized LM head" : "",
                     listed(std::span(labels).first(std::min(labels.size(), kInKind)),
                            labels.size() - std::min(labels.size(), kInKind)));
}

// Those of a kind in one name where they are three or more, each at the place of its first.
struct CommonName {
  std::string text;
  std::size_t labels = 1;  // that it stands for
};
std::vector<CommonName> names_by_kind(std::span<const std::string> labels) {
  std::map<std::string_view, std::vector<std::string>> kinds;
  for (const std::string& label : labels)
    if (const Kind* kind = kind_of_precision(label)) kinds[kind->bits].push_back(label);
  std::vector<CommonName> names;
  for (const std::string& label : labels) {
    const Kind* kind = kind_of_precision(label);
    if (kind == nullptr || kinds[kind->bits].size() < kAtLeast)
      names.push_back({label});
    else if (kinds[kind->bits].front() == label)
      names.push_back({named_together(kinds[kind->bits]), kinds[kind->bits].size()});
  }
  return names;
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

namespace {

// "the model as stored" of "as stored", "the model as stored (activations int8)" of "as stored, activations
// int8", and so behind "batch 8 of "; other labels are as they are.
std::string with_model(const std::string& label, std::string_view model) {
  constexpr std::string_view kStored = "as stored", kBehind = " of as stored";
  const std::size_t behind = label.starts_with("batch ") ? label.find(kBehind) : std::string::npos;
  const std::size_t at = behind == std::string::npos ? 0 : behind + kBehind.size() - kStored.size();
  if (!label.substr(at).starts_with(kStored)) return label;
  const std::string rest = label.substr(at + kStored.size());
  if (rest.empty()) return fmt::format("{}{} as stored", label.substr(0, at), at == 0 ? model : "the model");
  if (!rest.starts_with(", activations ")) return label;
  return fmt::format("{}{} as stored ({})", label.substr(0, at), at == 0 ? model : "the model",
                     rest.substr(2));
}

}  // namespace

std::string in_sentence(const std::string& label) {
  return with_model(label, "the model");
}

std::string at_start(const std::string& label) {
  return with_model(label, "The model");
}

std::string joined(std::span<const std::string> labels) {
  std::vector<std::string> shown;
  std::size_t told = 0;
  for (CommonName& name : names_by_kind(labels)) {
    if (shown.size() == kNamesOfASentence) break;
    told += name.labels;
    shown.push_back(in_sentence(name.text));
  }
  return listed(shown, labels.size() - told);
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
