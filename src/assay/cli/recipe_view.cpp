#include "assay/cli/recipe_view.h"

#include <algorithm>
#include <set>

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

nlohmann::ordered_json stored_types_json(const Plan& plan, const ModelSource& source) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::set<std::string> seen;
  double all_bytes = 0, all_elements = 0;
  for (const WeightSpec& whole : plan.weights)
    for (const TensorPart& part : tensors_of(whole)) {
      const CheckpointTensor tensor = source.find(part.spec.name);
      if (!tensor || !seen.insert(part.spec.name).second) continue;
      const bool is_vector = part.spec.kind == WeightSpec::Kind::vector,
                 is_block = !tensor->block_type.empty() || !whole.is_stored_quantized;
      const std::string name = is_vector ? "norms and biases" : without_layer(part.spec.name),
                        format = is_block ? tensor->type_name() : recipe_name_of(part.spec.format);
      const std::int64_t bytes =
          is_block ? static_cast<std::int64_t>(tensor->bytes) : stored_bytes(part.spec).value;
      auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& each) {
        return each["name"] == name && each["format"] == format;
      });
      if (row == rows.end()) {
        auto behind = rows.end();  // those of one kind stand together
        while (behind != rows.begin() && (*(behind - 1))["name"] != name) --behind;
        row = rows.insert(behind == rows.begin() ? rows.end() : behind,
                          nlohmann::ordered_json{{"name", name},
                                                 {"format", format},
                                                 {"tensors", 0},
                                                 {"elements", 0},
                                                 {"bits_per_weight", 0.0},
                                                 {"bytes", 0}});
      }
      (*row)["tensors"] = (*row)["tensors"].get<std::int64_t>() + 1;
      (*row)["elements"] = (*row)["elements"].get<std::int64_t>() + part.spec.elements();
      (*row)["bytes"] = (*row)["bytes"].get<std::int64_t>() + bytes;
      (*row)["bits_per_weight"] =
          bits_of({(*row)["bytes"].get<std::int64_t>()}, (*row)["elements"].get<std::int64_t>());
      all_bytes += static_cast<double>(bytes);
      all_elements += static_cast<double>(part.spec.elements());
    }
  // Those that every layer has some of stand last.
  std::stable_partition(rows.begin(), rows.end(),
                        [](const auto& row) { return row["name"] != "norms and biases"; });
  return {{"label", "as stored"},
          {"modules", rows},
          {"bits_per_weight", all_elements > 0 ? 8 * all_bytes / all_elements : 0},
          {"bytes", static_cast<std::int64_t>(all_bytes)}};
}

std::string formats_text(const nlohmann::ordered_json& json) {
  const auto shown = [](const nlohmann::ordered_json& row) {
    std::string name = printable(row["name"].get<std::string>());
    constexpr std::string_view kWeight = ".weight";
    if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
    return name;
  };
  const std::string all = "all weights";
  std::size_t name = all.size(), format = 0;
  for (const auto& row : json["modules"]) {
    name = std::max(name, shown(row).size());
    format = std::max(format, row["format"].get<std::string>().size());
  }
  constexpr double kMega = 1024 * 1024;
  std::string text = fmt::format("\n{}: formats, numbers of tensors, bits per weight with scales, and MiB\n",
                                 json["label"].get<std::string>());
  for (const auto& row : json["modules"])
    text += fmt::format("  {:<{}}  {:<{}}  {:>4}  {:>5.2f}  {:>8.1f}\n", shown(row), name,
                        row["format"].get<std::string>(), format, row["tensors"].get<std::int64_t>(),
                        row["bits_per_weight"].get<double>(), row["bytes"].get<double>() / kMega);
  return text + fmt::format("  {:<{}}  {:<{}}  {:>4}  {:>5.2f}  {:>8.1f}\n", all, name, "", format, "",
                            json["bits_per_weight"].get<double>(), json["bytes"].get<double>() / kMega);
}

}  // namespace assay::cli
