// assay mix: a format for each part of a model, chosen under a limit and measured on a text held out.
#include "assay/studies/mix.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/exchange_flags.h"
#include "assay/config/recipe_file.h"
#include "assay/report/table.h"

namespace assay::cli {

namespace {

struct MixFlags {
  ExchangeFlags shared;
  std::string limit, candidates = "nf4,int8-dynamic,bfloat16", file;
  std::int64_t held_out = 0;
};

// 97 % may be written as 0.97 too, a limit being one word here.
Limit limit_of_mix(const std::string& text) {
  constexpr std::string_view kAgreement = "agreement=";
  std::string given = text;
  if (given.starts_with(kAgreement) && !given.ends_with('%')) {
    const std::string number = given.substr(kAgreement.size());
    char* end = nullptr;
    const double share = std::strtod(number.c_str(), &end);
    if (!number.empty() && *end == '\0' && share > 0 && share <= 1) return {"agreement", share};
  }
  const Limits limits = limits_from_text(given);
  if (limits.limits.size() != 1)
    throw UsageError("--limit: expected one of memory, kl and agreement, found '{}'", text);
  const Limit& limit = limits.limits.front();
  if (limit.name != "memory" && limit.name != "kl" && limit.name != "agreement")
    throw UsageError("--limit: expected one of memory, kl and agreement, found '{}'", text);
  return limit;
}

std::vector<WeightFormat> candidate_formats(const std::string& list) {
  std::vector<WeightFormat> formats;
  for (const std::string& word : words_of(list)) {
    const WeightFormat format = format_from_name(word, "candidates");
    if (std::find(formats.begin(), formats.end(), format) != formats.end())
      throw UsageError("--candidates: expected each format once, found '{}' again", word);
    formats.push_back(format);
  }
  if (formats.empty()) throw UsageError("--candidates: expected formats joined by commas, found none");
  return formats;
}

// The first half of the text is for the scores, the second is held out.
struct Halves {
  std::vector<TokenId> scored, held_out;
};
Halves halves_of(const std::vector<TokenId>& ids, const MixFlags& flags) {
  const auto middle = ids.begin() + static_cast<std::ptrdiff_t>(ids.size() / 2);
  Halves halves{{ids.begin(), middle}, {middle, ids.end()}};
  const auto cut = [](std::vector<TokenId>& half, std::int64_t most) {
    if (most > 0 && most < std::ssize(half)) half.resize(static_cast<std::size_t>(most));
  };
  cut(halves.scored, flags.shared.max_tokens);
  cut(halves.held_out, flags.held_out);
  if (halves.scored.size() < 2 || halves.held_out.size() < 2)
    throw Error("the text has {} tokens; a mix needs at least 2 in each half", ids.size());
  return halves;
}

std::string toml_text(const std::string& text) {
  return nlohmann::json(text).dump();  // escapes of JSON are those of TOML
}

std::string recipe_toml(const Mix& mix, const Limit& limit) {
  const Recipe& recipe = mix.chosen.recipe;
  std::string text = fmt::format(
      "# Chosen under {}: {} bytes of weights; KL from float32 {:.4g} nats by the sum of the parts, {} "
      "measured.\n"
      "name = {}\ndefault = {}\n",
      text_of(limit), mix.chosen.bytes.value, *mix.chosen.predicted_kl, text_of_estimate(mix.chosen.kl),
      toml_text(recipe.name), toml_text(recipe_name_of(recipe.default_format)));
  if (recipe.lm_head) text += fmt::format("lm_head = {}\n", toml_text(recipe_name_of(*recipe.lm_head)));
  for (const RecipeRule& rule : recipe.rules)
    text += fmt::format("\n[[modules]]\nmatch = {}\nformat = {}\n", toml_text(rule.match),
                        toml_text(recipe_name_of(rule.format)));
  return text;
}

std::string table_of_mix(const Mix& mix) {
  report::Table table{{"Recipe", "Weights", "Predicted KL", "Measured KL (nats)", "Ratio", "Top-1 (%)"},
                      {false, true, true, true, true, true},
                      {},
                      {0, 0, 0, 0, 2, 1}};
  std::vector<MixRow> rows = mix.uniform;
  rows.push_back(mix.chosen);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const MixRow& a, const MixRow& b) { return a.bytes.value < b.bytes.value; });
  for (const MixRow& row : rows)
    table.rows.push_back({row.name, text_of_bytes(row.bytes), fmt::format("{:.3g}", *row.predicted_kl),
                          text_of_estimate(row.kl), fmt::format("{:.2f}", row.kl.value / *row.predicted_kl),
                          fmt::format("{:.1f}", 100 * row.top1_agreement.value)});
  return report::to_text(table, terminal_width());
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
  std::string text =
      fmt::format("It is not shown that the mix diverges less than {}", fmt::join(others, ", "));
  for (const MixRow& row : mix.uniform)
    if (row.is_in_contest && row.verdict >= 0)
      text += fmt::format("; its KL less that of {} is {}", row.name,
                          text_of_estimate(row.against_mix->difference));
  return text + ".\n";
}

std::string limit_sentence(const Mix& mix, const Limit& limit) {
  if (limit.name == "memory") return "";
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

nlohmann::ordered_json mix_row_json(const MixRow& row) {
  nlohmann::ordered_json json{{"name", row.name},
                              {"bytes", row.bytes.value},
                              {"predicted_kl", *row.predicted_kl},
                              {"measured_kl", row.kl.value},
                              {"measured_kl_interval", estimate_json(row.kl)},
                              {"top1_agreement", estimate_json(row.top1_agreement)}};
  if (!row.against_mix) return json;
  json["mix_less_this_kl"] = estimate_json(row.against_mix->difference);
  json["p_value"] = row.against_mix->p_value;
  json["is_in_contest"] = row.is_in_contest;
  json["verdict"] = row.verdict;
  return json;
}

nlohmann::ordered_json json_of_mix(const Mix& mix, const Limit& limit, const MixFlags& flags,
                                   const std::string& model) {
  nlohmann::ordered_json json{
      {"model", model}, {"limit", text_of(limit)}, {"recipe", to_json(mix.chosen.recipe)}};
  json["file"] = flags.file.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(flags.file);
  json.update(mix_row_json(mix.chosen));
  json["protocol"] = mix.protocol;
  json["tokens_of_scores"] = mix.tokens_scored;
  json["tokens_held_out"] = mix.tokens_held_out;
  json["slack_bytes"] = mix.slack;
  json["beats_uniform"] = mix.has_beaten_all();
  json["uniform"] = nlohmann::ordered_json::array();
  for (const MixRow& row : mix.uniform) json["uniform"].push_back(mix_row_json(row));
  return json;
}

int run_mix(const MixFlags& flags) {
  MixOptions options;
  options.candidates = candidate_formats(flags.candidates);
  options.limit = limit_of_mix(flags.limit);
  if (!flags.file.empty()) {
    const std::string stem = std::filesystem::path(flags.file).stem().string().substr(0, 64);
    options.name = stem.empty() ? "mix" : stem;
  }
  if (!flags.file.empty()) check_output_file(flags.file);
  ItemExchange model = flags.shared.load();
  const Halves halves = halves_of(flags.shared.ids(model.base()), flags);
  Progress progress(flags.shared.output.shows_progress());
  options.measuring.context = flags.shared.context;
  options.measuring.on_progress = [&](const std::string& what, std::int64_t done, std::int64_t all) {
    progress.show(fmt::format("{} of {}: {}", done + 1, all, what));
  };
  const Mix mix = find_mix(model, halves.scored, halves.held_out, options);
  progress.clear();
  if (!flags.file.empty()) write_file_atomically(flags.file, recipe_toml(mix, options.limit));
  if (flags.shared.output.is_json) {
    answer_json("mix", json_of_mix(mix, options.limit, flags, model.base().id));
    return 0;
  }
  if (flags.file.empty()) answer(recipe_toml(mix, options.limit) + "\n");
  answer(table_of_mix(mix) + "\n" + contest_sentence(mix) + limit_sentence(mix, options.limit));
  if (flags.shared.output.is_quiet) return 0;
  note(fmt::format("Scores from {} tokens, measured on {} others: {}", mix.tokens_scored, mix.tokens_held_out,
                   mix.protocol));
  if (!flags.file.empty()) note(fmt::format("Wrote {}: load it with --recipe {}", flags.file, flags.file));
  return 0;
}

}  // namespace

void add_mix(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<MixFlags>();
  CLI::App* command = app.add_subcommand(
      "mix", "Choose a format for each part of a model under a limit, and write the recipe");
  flags->shared.add_to(*command, "First tokens of the text's first half that scores are from; 0: all [2000]");
  command
      ->add_option("--limit", flags->limit,
                   "What the recipe must keep: memory=700MiB of weights, kl=0.02 or agreement=97%")
      ->required();
  command->add_option("--candidates", flags->candidates,
                      "Formats to choose from, joined by commas [nf4,int8-dynamic,bfloat16]");
  add_whole(*command, "--held-out-tokens", flags->held_out,
            "First tokens of the text's second half to measure on; 0: all [0]");
  command->add_option("-o,--output", flags->file, "Recipe to write, in TOML [none: it is printed]");
  command->footer("Example: assay mix demo --limit memory=3600KiB -o recipe.toml");
  command->callback([flags, &exit_code] { exit_code = run_mix(*flags); });
}

}  // namespace assay::cli
