#include "assay/cli/sensitivity_view.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/cli/exchange_flags.h"

namespace assay::cli {

namespace {

// "h.*.mlp.c_fc" -> "mlp.c_fc": the layers stand at the side.
std::string class_name(const std::string& kind) {
  const std::size_t star = kind.rfind("*.");
  return printable(star == std::string::npos ? kind : kind.substr(star + 2));
}

nlohmann::ordered_json row_json(const SensitivityRow& row, bool is_item) {
  nlohmann::ordered_json json{{"name", row.name}};
  if (is_item) {
    json["kind"] = row.kind;
    json["layer"] = row.layer ? nlohmann::ordered_json(*row.layer) : nlohmann::ordered_json(nullptr);
    json["top1_agreement"] = estimate_json(row.top1_agreement);
  } else {
    json["items"] = row.items;
  }
  json["kl"] = estimate_json(row.kl);
  json["bytes"] = row.bytes.value;
  json["base_bytes"] = row.base_bytes.value;
  return json;
}

}  // namespace

report::Table sensitivity_items(const Sensitivity& found, std::size_t shown) {
  report::Table table{{"Item", "KL (nats)", "Share (%)", "Top-1 (%)", "Saves"},
                      {false, true, true, true, true},
                      {},
                      {0, 0, 1, 2, 3}};
  for (std::size_t i = 0; i < std::min(shown, found.items.size()); ++i) {
    const SensitivityRow& row = found.items[i];
    table.rows.push_back({printable(row.name), text_of_estimate(row.kl),
                          fmt::format("{:.1f}", 100 * row.kl.value / found.sum.value),
                          fmt::format("{:.1f}", 100 * row.top1_agreement.value),
                          text_of_bytes({row.base_bytes.value - row.bytes.value})});
  }
  return table;
}

report::Table sensitivity_sums(const std::string& title, const Sensitivity& found,
                               const std::vector<SensitivityRow>& rows) {
  report::Table table{
      {title, "Items", "Sum of KL (nats)", "Share (%)"}, {false, true, true, true}, {}, {0, 1, 0, 2}};
  for (const SensitivityRow& row : rows)
    table.rows.push_back({printable(row.name), fmt::format("{}", row.items), text_of_estimate(row.kl),
                          fmt::format("{:.1f}", 100 * row.kl.value / found.sum.value)});
  return table;
}

std::string sensitivity_sentence(const Sensitivity& found) {
  const std::string facts =
      fmt::format("All items together in {}: KL {}, {:.2f} times the sum of the items' own, {}.",
                  recipe_name_of(found.format), text_of_estimate(found.together), found.ratio(),
                  text_of_estimate(found.sum));
  return facts +
         (adds_up(found)
              ? fmt::format(" The parts add up, within a factor of {:g}.", kAdditiveFactor)
              : fmt::format(" The parts do not add up, within a factor of {:g}: a mix chosen by their "
                            "sums must be measured.",
                            kAdditiveFactor));
}

// In the order of the layers; what lies outside of them has the last lane.
report::Plot sensitivity_map(const Sensitivity& found, const std::string& model) {
  report::Plot plot;
  plot.form = report::PlotForm::cells;
  plot.title = fmt::format("{}: where {} loses most", printable(model), recipe_name_of(found.format));
  plot.subtitle = fmt::format("KL divergence from {} with one part in {} ({} tokens)", found.baseline,
                              recipe_name_of(found.format), found.tokens_scored);
  plot.x_label = "KL in nats per token; darker is larger, on a logarithmic scale";
  std::vector<std::optional<int>> lanes;
  for (const SensitivityRow& row : found.items)
    if (std::find(lanes.begin(), lanes.end(), row.layer) == lanes.end()) lanes.push_back(row.layer);
  std::sort(lanes.begin(), lanes.end(), [](const std::optional<int>& a, const std::optional<int>& b) {
    return a.has_value() != b.has_value() ? a.has_value() : a < b;
  });
  for (const std::optional<int>& lane : lanes)
    plot.categories.push_back(lane ? fmt::format("layer {}", *lane) : "outside of layers");
  std::vector<std::string> kinds;
  for (const SensitivityRow& row : found.kinds) kinds.push_back(row.name);
  for (const std::string& kind : kinds) plot.columns.push_back(class_name(kind));
  for (const SensitivityRow& row : found.items) {
    const auto lane = std::find(lanes.begin(), lanes.end(), row.layer) - lanes.begin();
    const auto column = std::find(kinds.begin(), kinds.end(), row.kind) - kinds.begin();
    plot.cells.push_back(
        {static_cast<std::size_t>(lane), static_cast<std::size_t>(column), row.kl.value,
         fmt::format("{}: KL {} nats per token", printable(row.name), text_of_estimate(row.kl))});
  }
  return plot;
}

report::Document sensitivity_document(const Sensitivity& found, const std::string& model) {
  report::Document document;
  document.title = fmt::format("Sensitivity of {} to {}", printable(model), recipe_name_of(found.format));
  const auto add = [&](const std::string& title, report::Content content) {
    report::Section section;
    section.title = title;
    section.add(std::move(content));
    document.sections.push_back(std::move(section));
  };
  add("Do the parts add up?", report::Paragraph{sensitivity_sentence(found)});
  add("Heat map", report::Figure{"sensitivity", sensitivity_map(found, model), true});
  add("Items, the largest KL first", sensitivity_items(found, found.items.size()));
  add("Tensor classes", sensitivity_sums("Tensor class", found, found.kinds));
  add("Layers", sensitivity_sums("Layer", found, found.layers));
  add("How it was measured",
      report::Paragraph{
          fmt::format("Each part alone is in {0}, and all others in {1}: {2}, {3} tokens scored. KL is "
                      "that of the model in {1} from the model with this part, in nats per token; "
                      "intervals of 95 % come from blocks of 256 tokens.",
                      recipe_name_of(found.format), found.baseline, found.protocol, found.tokens_scored)});
  return document;
}

nlohmann::ordered_json sensitivity_json(const Sensitivity& found, const std::string& model) {
  const auto rows_json = [](const std::vector<SensitivityRow>& rows, bool are_items) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const SensitivityRow& row : rows) all.push_back(row_json(row, are_items));
    return all;
  };
  return {{"model", model},
          {"baseline", found.baseline},
          {"format", recipe_name_of(found.format)},
          {"protocol", found.protocol},
          {"tokens_scored", found.tokens_scored},
          {"left_out", found.left_out},
          {"items", rows_json(found.items, true)},
          {"kinds", rows_json(found.kinds, false)},
          {"layers", rows_json(found.layers, false)},
          {"sum_kl", estimate_json(found.sum)},
          {"together_kl", estimate_json(found.together)},
          {"together_top1_agreement", estimate_json(found.together_top1)},
          {"together_over_sum", found.ratio()},
          {"adds_up", adds_up(found)}};
}

}  // namespace assay::cli
