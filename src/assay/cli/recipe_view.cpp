#include "assay/cli/recipe_view.h"

#include <algorithm>

#include "assay/base/format.h"
#include "assay/config/recipe_file.h"
#include "assay/plan/operation_groups.h"

namespace assay::cli {

namespace {

double bits_of(Bytes bytes, std::int64_t elements) {
  return 8.0 * static_cast<double>(bytes.value) / static_cast<double>(elements);
}

}  // namespace

nlohmann::ordered_json recipe_json(const Recipe& recipe, const Plan& plan) {
  nlohmann::ordered_json json{
      {"label", recipe.label()}, {"hash", recipe.hash()}, {"recipe", to_json(recipe)}};
  nlohmann::ordered_json& rows = json["modules"] = nlohmann::ordered_json::array();
  Bytes bytes = {};
  std::int64_t elements = 0;
  for (const FormatGroup& group : format_groups(plan)) {
    rows.push_back({{"name", group.name},
                    {"format", recipe_name_of(group.format)},
                    {"tensors", group.tensors},
                    {"elements", group.elements},
                    {"bits_per_weight", bits_of(group.bytes, group.elements)},
                    {"bytes", group.bytes.value}});
    bytes = bytes + group.bytes;
    elements += group.elements;
  }
  json["bits_per_weight"] = bits_of(bytes, elements);
  json["bytes"] = bytes.value;
  return json;
}

std::string recipe_text(const nlohmann::ordered_json& json) {
  std::size_t name = 0, format = 0;
  for (const auto& row : json["modules"]) {
    name = std::max(name, printable(row["name"].get<std::string>()).size());
    format = std::max(format, row["format"].get<std::string>().size());
  }
  std::string text =
      fmt::format("\n{}: formats, numbers of tensors, bits per weight with scales, and bytes\n",
                  json["label"].get<std::string>());
  for (const auto& row : json["modules"])
    text += fmt::format("  {:<{}}  {:<{}}  {:>4}  {:>6.2f}  {:>14} B\n",
                        printable(row["name"].get<std::string>()), name, row["format"].get<std::string>(),
                        format, row["tensors"].get<std::int64_t>(), row["bits_per_weight"].get<double>(),
                        row["bytes"].get<std::int64_t>());
  return text + fmt::format("  {:<{}}  {:<{}}  {:>4}  {:>6.2f}  {:>14} B\n", "all matrices and tables", name,
                            "", format, "", json["bits_per_weight"].get<double>(),
                            json["bytes"].get<std::int64_t>());
}

}  // namespace assay::cli
