// assay sensitivity: which parts of a model lose most where they are quantized.
#include "assay/studies/sensitivity.h"

#include <algorithm>
#include <memory>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/exchange_flags.h"
#include "assay/report/table.h"
#include "assay/statistics/replicates.h"

namespace assay::cli {

namespace {

struct SensitivityFlags {
  ExchangeFlags shared;
  std::string precision = "nf4";
  std::int64_t rows = 20;
};

std::string table_of_items(const Sensitivity& found, std::size_t shown) {
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
  std::string text = report::to_text(table, terminal_width());
  if (shown < found.items.size())
    text += fmt::format("and {} more, of smaller KL (--rows 0 shows all)\n", found.items.size() - shown);
  return text;
}

std::string table_of_sums(const std::string& title, const Sensitivity& found,
                          const std::vector<SensitivityRow>& rows) {
  report::Table table{
      {title, "Items", "Sum of KL (nats)", "Share (%)"}, {false, true, true, true}, {}, {0, 1, 0, 2}};
  for (const SensitivityRow& row : rows)
    table.rows.push_back({printable(row.name), fmt::format("{}", row.items), text_of_estimate(row.kl),
                          fmt::format("{:.1f}", 100 * row.kl.value / found.sum.value)});
  return report::to_text(table, terminal_width());
}

std::string sum_sentence(const Sensitivity& found) {
  const std::string facts =
      fmt::format("All items together in {}: KL {}, {:.2f} times the sum of the items' own, {}.",
                  recipe_name_of(found.format), text_of_estimate(found.together), found.ratio(),
                  text_of_estimate(found.sum));
  return facts +
         (adds_up(found)
              ? fmt::format(" The parts add up, within a factor of {:g}.\n", kAdditiveFactor)
              : fmt::format(" The parts do not add up, within a factor of {:g}: a mix chosen by their "
                            "sums must be measured.\n",
                            kAdditiveFactor));
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

nlohmann::ordered_json json_of_sensitivity(const Sensitivity& found, const std::string& model) {
  const auto rows_json = [](const std::vector<SensitivityRow>& rows, bool are_items) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const SensitivityRow& row : rows) all.push_back(row_json(row, are_items));
    return all;
  };
  return {{"model", model},
          {"baseline", "float32"},
          {"format", recipe_name_of(found.format)},
          {"protocol", found.protocol},
          {"tokens_scored", found.tokens_scored},
          {"items", rows_json(found.items, true)},
          {"kinds", rows_json(found.kinds, false)},
          {"layers", rows_json(found.layers, false)},
          {"sum_kl", estimate_json(found.sum)},
          {"together_kl", estimate_json(found.together)},
          {"together_top1_agreement", estimate_json(found.together_top1)},
          {"together_over_sum", found.ratio()},
          {"adds_up", adds_up(found)}};
}

int run_sensitivity(const SensitivityFlags& flags) {
  const WeightFormat format = format_from_name(flags.precision, "precision");
  if (format == formats::kFloat32)
    throw FieldError("precision",
                     "expected another precision than float32, which the model is compared with");
  ItemExchange model = flags.shared.load();
  std::vector<TokenId> ids = flags.shared.ids(model.base());
  const std::int64_t limit = flags.shared.max_tokens;
  if (limit > 0 && limit < std::ssize(ids)) ids.resize(static_cast<std::size_t>(limit));
  Progress progress(flags.shared.output.shows_progress());
  const SensitivityOptions options{
      .context = flags.shared.context,
      .on_progress = [&](const std::string& what, std::int64_t done, std::int64_t all) {
        progress.show(fmt::format("{} of {}: {}", done + 1, all, what));
      }};
  const Sensitivity found = measure_sensitivity(model, format, ids, options);
  progress.clear();
  if (flags.shared.output.is_json) {
    answer_json(json_of_sensitivity(found, model.base().id));
    return 0;
  }
  const std::size_t shown = flags.rows == 0 ? found.items.size() : static_cast<std::size_t>(flags.rows);
  answer(table_of_items(found, shown) + "\n" + table_of_sums("Tensor class", found, found.kinds) + "\n" +
         table_of_sums("Layer", found, found.layers) + "\n" + sum_sentence(found));
  if (flags.shared.output.is_quiet) return 0;
  note(fmt::format("KL from float32 with one item in {}, {}: {} tokens scored", recipe_name_of(format),
                   found.protocol, found.tokens_scored));
  constexpr auto kFewest =
      statistics::kDivergenceBlock * static_cast<std::int64_t>(statistics::kMinForInterval);
  if (found.tokens_scored < kFewest)
    note(fmt::format("Intervals need {} scored tokens: take a longer text.", kFewest));
  return 0;
}

}  // namespace

void add_sensitivity(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<SensitivityFlags>();
  CLI::App* command = app.add_subcommand(
      "sensitivity", "Measure which parts of a model lose most when they are quantized (KL divergence)");
  flags->shared.add_to(*command, "First tokens of the text to measure on; 0: all [2000]");
  command->add_option("--precision", flags->precision, "Precision that one part after the other takes [nf4]");
  add_whole(*command, "--rows", flags->rows, "Items to show, the largest KL first; 0: all [20]");
  command->footer("Example: assay sensitivity demo --precision nf4");
  command->callback([flags, &exit_code] { exit_code = run_sensitivity(*flags); });
}

}  // namespace assay::cli
