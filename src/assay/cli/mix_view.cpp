#include "assay/cli/mix_view.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/cli/console.h"
#include "assay/cli/exchange_flags.h"
#include "assay/config/recipe_file.h"
#include "assay/quant/ggml_quantize.h"
#include "assay/report/table.h"

namespace assay::cli {

namespace {

std::string toml_text(const std::string& text) {
  return nlohmann::json(text).dump();  // escapes of JSON are those of TOML
}

std::string step_text(const std::optional<double>& seconds) {
  return seconds ? fmt::format("{:.3g}", 1e3 * *seconds) : "";
}

// Whether the mix beats every uniform format of at most its size: no more than the tests show.
std::string contest_sentence(const Mix& mix) {
  if (mix.is_uniform()) return "The mix gives all parts one format: it is one of the uniform ones.\n";
  std::vector<std::string> beaten, others;
  for (const MixRow& row : mix.uniform)
    if (row.is_in_contest) (row.verdict < 0 ? beaten : others).push_back(row.name);
  if (beaten.empty() && others.empty()) return "No uniform format of these is as small as the mix.\n";
  if (others.empty())
    return fmt::format(
        "The mix diverges less than every uniform format of at most its size ({}): paired by blocks of {} "
        "tokens held out, 5 % for all together.\n",
        fmt::join(beaten, ", "), statistics::kDivergenceBlock);
  std::string text = beaten.empty() ? std::string()
                                    : fmt::format("The mix diverges less than {}. ", fmt::join(beaten, ", "));
  text += fmt::format("It is not shown that the mix diverges less than {}", fmt::join(others, ", "));
  for (const MixRow& row : mix.uniform)
    if (row.is_in_contest && row.verdict >= 0)
      text += fmt::format("; its KL minus that of {} is {}", row.name,
                          text_of_estimate(row.against_mix->difference));
  return text + ".\n";
}

std::string limit_sentence(const Mix& mix, const Limit& limit) {
  if (limit.name != "kl" && limit.name != "agreement") return "";
  const bool is_kl = limit.name == "kl";
  const statistics::Estimate& found = is_kl ? mix.chosen.kl : mix.chosen.top1_agreement;
  const double sign = is_kl ? 1 : -1, bound = sign * limit.bound;
  const std::string what =
      fmt::format("{} {}", is_kl ? "a KL of" : "a top-1 agreement of", text_of_estimate(found));
  if (!found.interval)
    return fmt::format("On the tokens held out it has {}, too few for an interval.\n", what);
  const double worst = is_kl ? found.interval->high : -found.interval->low,
               best = is_kl ? found.interval->low : -found.interval->high;
  return fmt::format("On the tokens held out it has {}: {} the limit {}.\n", what,
                     worst <= bound ? "within"
                     : best > bound ? "beyond"
                                    : "not decidedly within or beyond",
                     text_of(limit));
}

// The KL token by token may show a difference that the interval of its mean does not.
std::string misled_clause(const MixTogether& together) {
  const auto& excess = together.excess.interval;
  if (excess && (excess->low > 0 || excess->high < 0))
    return fmt::format(
        "token by token, the KL of all parts together differs from their sum, {:.3g} on average, by {} on "
        "the text the mix is chosen by",
        together.predicted_kl, text_of_estimate(together.excess));
  return fmt::format("it is {:.3g}, and all parts together have a KL of {} on the text the mix is chosen by",
                     together.predicted_kl, text_of_estimate(together.kl));
}

std::string together_sentence(const MixTogether& together) {
  std::string text;
  if (together.is_misled)
    text = fmt::format("The sum of the parts misleads: {}. {} of two parts' formats tried, {} kept.\n",
                       misled_clause(together), counted(together.tried, "exchange"), together.kept);
  if (!together.uniform_instead.empty())
    text += fmt::format(
        "All parts in {} diverge less than the mix on the text it was chosen by, within the same limits, and "
        "are taken instead.\n",
        together.uniform_instead);
  return text;
}

// What the choice may miss is a sum of KL where that is least under two limits, else bytes.
bool has_slack_of_kl(const MixView& view) {
  return view.mix.table.base_step && view.options.limit.name != "kl";
}

std::string slack_sentence(const MixView& view) {
  if (view.mix.slack <= 0) return "";
  return has_slack_of_kl(view)
             ? fmt::format(
                   "The choice is not proven the best: another may have a sum of KL lower by {:.3g}.\n",
                   view.mix.slack)
             : fmt::format("The choice is not proven the best: another may do with {:.0f} bytes less.\n",
                           view.mix.slack);
}

std::string time_sentence(const MixView& view) {
  const Mix& mix = view.mix;
  if (!mix.chosen.step) return "";
  const double bound = step_bound(view.options.time_limit.value_or(view.options.limit));
  return fmt::format(
      "A decode step of one token takes {} ms, {} by the sum of the parts and {} in {}: {} the limit of "
      "{:.3g} "
      "ms.\n",
      step_text(mix.chosen.step), step_text(mix.chosen.predicted_step), step_text(mix.table.base_step),
      view.baseline, *mix.chosen.step <= bound ? "within" : "beyond", 1e3 * bound);
}

nlohmann::ordered_json mix_row_json(const MixRow& row) {
  nlohmann::ordered_json json{{"name", row.name},
                              {"bytes", row.bytes.value},
                              {"predicted_kl", row.predicted_kl},
                              {"measured_kl", row.kl.value},
                              {"measured_kl_interval", estimate_json(row.kl)},
                              {"top1_agreement", estimate_json(row.top1_agreement)}};
  if (row.step) {
    json["predicted_step_s"] = *row.predicted_step;
    json["measured_step_s"] = *row.step;
  }
  if (!row.against_mix) return json;
  json["mix_less_this_kl"] = estimate_json(row.against_mix->difference);
  json["p_value"] = row.against_mix->p_value;
  json["is_in_contest"] = row.is_in_contest;
  json["verdict"] = row.verdict;
  return json;
}

nlohmann::ordered_json parts_json(const MixView& view) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < view.mix.items.size(); ++i) {
    nlohmann::ordered_json formats = nlohmann::ordered_json::object();
    for (std::size_t f = 0; f < view.options.candidates.size(); ++f) {
      const MixOption& option = view.mix.table.options[i][f];
      if (!option.is_offered) continue;
      nlohmann::ordered_json& own = formats[recipe_name_of(view.options.candidates[f])];
      own = {{"bytes", option.bytes.value}, {"kl", option.kl}};
      if (view.mix.table.base_step) own["step_change_s"] = option.step_change;
    }
    all.push_back({{"name", view.mix.items[i]},
                   {"chosen", recipe_name_of(view.options.candidates[view.mix.chosen.choice[i]])},
                   {"formats", formats}});
  }
  return all;
}

nlohmann::ordered_json left_out_json(const MixView& view) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const LeftOutFormat& each : view.mix.left_out(view.options.candidates))
    all.push_back({{"format", recipe_name_of(each.format)}, {"items", each.items}});
  return all;
}

nlohmann::ordered_json together_json(const MixTogether& together) {
  nlohmann::ordered_json json{{"tokens", together.tokens},
                              {"measured_kl", estimate_json(together.kl)},
                              {"predicted_kl", together.predicted_kl},
                              {"measured_less_predicted_kl", estimate_json(together.excess)},
                              {"is_misled", together.is_misled},
                              {"exchanges_tried", together.tried},
                              {"exchanges_kept", together.kept},
                              {"uniform_instead", nullptr}};
  if (!together.uniform_instead.empty()) json["uniform_instead"] = together.uniform_instead;
  return json;
}

}  // namespace

std::string limits_text(const MixOptions& options) {
  return options.time_limit ? text_of(options.limit) + "," + text_of(*options.time_limit)
                            : text_of(options.limit);
}

std::string recipe_toml(const MixView& view) {
  const MixRow& row = view.mix.chosen;
  std::string text = fmt::format(
      "# Chosen under {}: {} bytes of weights; KL from {} {:.4g} nats by the sum of the parts, {} "
      "measured.\n",
      limits_text(view.options), row.bytes.value, view.baseline, row.predicted_kl, text_of_estimate(row.kl));
  for (const MixRow& other : view.mix.uniform)
    text += fmt::format("# Uniform {}: {} bytes, KL {}.\n", other.name, other.bytes.value,
                        text_of_estimate(other.kl));
  text += fmt::format("name = {}\ndefault = {}\n", toml_text(row.recipe.name),
                      toml_text(recipe_name_of(row.recipe.default_format)));
  if (row.recipe.lm_head)
    text += fmt::format("lm_head = {}\n", toml_text(recipe_name_of(*row.recipe.lm_head)));
  for (const RecipeRule& rule : row.recipe.rules)
    text += fmt::format("\n[[modules]]\nmatch = {}\nformat = {}\n", toml_text(rule.match),
                        toml_text(recipe_name_of(rule.format)));
  return text;
}

std::string mix_table_text(const MixView& view) {
  report::Table table{{"Recipe", "Weights", "Predicted KL", "Measured KL (nats)", "Ratio", "Top-1 (%)"},
                      {false, true, true, true, true, true},
                      {},
                      {0, 0, 0, 0, 2, 1}};
  const bool has_steps = view.mix.chosen.step.has_value();
  if (has_steps) {
    table.add_column("Predicted step (ms)", true, 1);
    table.add_column("Step (ms)", true);
  }
  std::vector<MixRow> rows = view.mix.uniform;
  rows.push_back(view.mix.chosen);
  rows.insert(rows.end(), view.mix.neighbours.begin(), view.mix.neighbours.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const MixRow& a, const MixRow& b) { return a.bytes.value < b.bytes.value; });
  for (const MixRow& row : rows) {
    table.rows.push_back({row.name, text_of_bytes(row.bytes), fmt::format("{:.3g}", row.predicted_kl),
                          text_of_estimate(row.kl),
                          row.predicted_kl != 0 ? fmt::format("{:.2f}", row.kl.value / row.predicted_kl) : "",
                          fmt::format("{:.1f}", 100 * row.top1_agreement.value)});
    if (has_steps)
      table.rows.back().insert(table.rows.back().end(), {step_text(row.predicted_step), step_text(row.step)});
  }
  return report::to_text(table, table_width());
}

std::vector<std::string> left_out_notes(const MixView& view) {
  std::vector<std::string> notes;
  for (const LeftOutFormat& each : view.mix.left_out(view.options.candidates))
    notes.push_back(fmt::format(
        "{0} is not offered for {1} of {2} parts ({3}{4}), whose inputs are no multiple of the {5} of its "
        "blocks; there is no recipe with all parts in it.",
        recipe_name_of(each.format), each.items.size(), view.mix.items.size(), each.items.front(),
        each.items.size() > 1 ? " is the first" : "", block_inputs(each.format)));
  return notes;
}

bool fits_gguf(const MixView& view) {
  return std::all_of(view.mix.chosen.choice.begin(), view.mix.chosen.choice.end(), [&](std::size_t f) {
    const WeightFormat& format = view.options.candidates[f];
    return !is_quantized(format) || ggml::written_type(format) != nullptr;
  });
}

std::string mix_sentences(const MixView& view) {
  return contest_sentence(view.mix) + limit_sentence(view.mix, view.options.limit) +
         together_sentence(view.mix.together) + time_sentence(view) + slack_sentence(view);
}

nlohmann::ordered_json mix_json(const MixView& view, const std::string& model) {
  const Mix& mix = view.mix;
  const auto rows_json = [](const std::vector<MixRow>& rows) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const MixRow& row : rows) all.push_back(mix_row_json(row));
    return all;
  };
  nlohmann::ordered_json json{{"model", model},
                              {"baseline", view.baseline},
                              {"limit", limits_text(view.options)},
                              {"recipe", to_json(mix.chosen.recipe)}};
  json.update(mix_row_json(mix.chosen));
  json["protocol"] = mix.protocol;
  json["tokens_of_scores"] = mix.tokens_scored;
  json["tokens_held_out"] = mix.tokens_held_out;
  if (mix.table.base_step) json["baseline_step_s"] = *mix.table.base_step;
  json[has_slack_of_kl(view) ? "slack_kl" : "slack_bytes"] = mix.slack;
  json["beats_uniform"] = mix.has_beaten_all();
  json["left_out"] = left_out_json(view);
  json["together"] = together_json(mix.together);
  json["neighbours"] = rows_json(mix.neighbours);
  json["uniform"] = rows_json(mix.uniform);
  json["parts"] = parts_json(view);
  return json;
}

}  // namespace assay::cli
