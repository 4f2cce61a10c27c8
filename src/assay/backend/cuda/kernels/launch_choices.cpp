// Choices and what they depend on in words; the table.
#include "assay/backend/cuda/kernels/launch_choices.h"

#include <algorithm>
#include <iterator>

#include "assay/base/format.h"

namespace assay::cuda {

namespace {

struct ChoiceField {
  std::string_view name, title;
  std::int8_t LaunchChoice::*member;
  std::string_view values[4];
};
constexpr ChoiceField kFields[] = {
    {"loads", "weights", &LaunchChoice::loads, {"far ahead", "near ahead"}},
    {"inputs", "inputs made", &LaunchChoice::inputs, {"in front", "in each block"}},
    {"codes", "codes", &LaunchChoice::codes, {"by a table", "by a spaced table", "as integers"}},
    {"strips", "strips", &LaunchChoice::strips, {"a block each", "by 1 block an SM", "by 2 blocks an SM"}},
    {"sums", "sums", &LaunchChoice::sums, {"by a block", "by a warp each"}},
    {"blocks", "blocks", &LaunchChoice::blocks, {"small", "large"}},
    {"ranges", "ranges", &LaunchChoice::ranges, {"in one block", "in a block each"}},
    {"warpgroups", "warpgroup blocks", &LaunchChoice::warpgroups, {"128x256", "128x128", "64x128", "64x64"}},
    {"kernel", "kernel", &LaunchChoice::kernel, {"own", "warpgroups", "cublaslt"}}};

std::string_view name_of(MatrixFormat format) {
  switch (format) {
    case MatrixFormat::float32:
      return "float32";
    case MatrixFormat::float16:
      return "float16";
    case MatrixFormat::bfloat16:
      return "bfloat16";
    case MatrixFormat::int8:
      return "int8";
    case MatrixFormat::four_bit:
      return "4-bit";
    case MatrixFormat::grouped:
      break;
  }
  return "grouped";
}
std::string_view name_of(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::tf32:
      return "tf32";
    case Arithmetic::float16:
      return "float16";
    case Arithmetic::bfloat16:
      return "bfloat16";
    case Arithmetic::float32:
      break;
  }
  return "float32";
}

}  // namespace

std::int64_t bucket_of(std::int64_t rows) {
  const auto* const found = std::lower_bound(std::begin(kRowBuckets), std::end(kRowBuckets), rows);
  return found == std::end(kRowBuckets) ? *std::prev(std::end(kRowBuckets)) : *found;
}

std::string text_of(const ProductKey& key) {
  std::string text = fmt::format("{} {} x {}, {} row{}", name_of(key.format), key.outputs, key.inputs,
                                 key.rows, key.rows == 1 ? "" : "s");
  const bool says_arithmetic = key.format == MatrixFormat::float32 || key.format == MatrixFormat::four_bit;
  if (says_arithmetic && name_of(key.format) != name_of(key.arithmetic))
    text += fmt::format(", in {}", name_of(key.arithmetic));
  if (key.group > 0) text += fmt::format(", group {}", key.group);
  if (key.is_normed) text += ", normed";
  if (key.is_gated) text += ", gated";
  if (key.chooses_kernel) text += ", any kernel";
  return text;
}

std::vector<std::pair<std::string_view, std::string_view>> names_of(const LaunchChoice& choice) {
  std::vector<std::pair<std::string_view, std::string_view>> names;
  for (const ChoiceField& field : kFields)
    if (const std::int8_t value = choice.*field.member; value != kByRule)
      names.emplace_back(field.name, field.values[value]);
  return names;
}

bool set_by_name(LaunchChoice& choice, std::string_view name, std::string_view value) {
  for (const ChoiceField& field : kFields)
    for (std::size_t i = 0; field.name == name && i < std::size(field.values); ++i)
      if (!field.values[i].empty() && field.values[i] == value) {
        choice.*field.member = static_cast<std::int8_t>(i);
        return true;
      }
  return false;
}

std::string text_of(const LaunchChoice& choice) {
  std::string text;
  for (const ChoiceField& field : kFields)
    if (const std::int8_t value = choice.*field.member; value != kByRule)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", field.title, field.values[value]);
  return text.empty() ? "as usual" : text;
}

std::string LaunchChoices::text() const {
  constexpr std::size_t kShown = 4;
  std::vector<std::pair<double, std::string>> other;
  int measured = 0;
  for (const auto& [key, one] : choices_) {
    if (!one.is_measured) continue;
    ++measured;
    if (one.choice != LaunchChoice())
      other.emplace_back(one.gain,
                         fmt::format("{}: {}, {:.2f}x", text_of(key), text_of(one.choice), one.gain));
  }
  if (measured == 0) return "";
  std::string text = fmt::format("{} launch{} measured, ", measured, measured == 1 ? "" : "es");
  if (other.empty()) return text + "all as usual";
  std::stable_sort(other.begin(), other.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  text += fmt::format("{} not as usual: ", other.size());
  for (std::size_t i = 0; i < std::min(kShown, other.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : "; ", other[i].second);
  return other.size() > kShown ? text + "; ..." : text;
}

}  // namespace assay::cuda
