// assay mix: a format for each part of a model, chosen under a limit and measured on a text held out.
#include "assay/studies/mix.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/exchange_flags.h"
#include "assay/cli/mix_view.h"

namespace assay::cli {

namespace {

// Tokens of the first half that all parts are measured on together, where that is more than one part is.
constexpr std::int64_t kTogetherTokens = 2048;
// What a part is measured on: six blocks, so that there are intervals.
constexpr std::int64_t kPartTokens = 1600;

struct MixFlags {
  ExchangeFlags shared;
  std::string limit, candidates = "nf4,int8-dynamic,bfloat16", file;
  std::int64_t held_out = 0, exchanges = 12;
  bool is_forced = false;
};

// Before anything is measured. A device or a pipe of that name is written to.
void check_recipe_target(const MixFlags& flags) {
  if (std::filesystem::is_regular_file(flags.file) && !flags.is_forced)
    throw Error("{} exists already: expected a new name, or --force to replace the file there", flags.file);
  check_output_file(flags.file);
}

// A limit of memory, kl or agreement, a time of a decode step, or one of each.
void set_limits(MixOptions& options, const std::string& text) {
  const std::string expected = fmt::format(
      "--limit: expected one of memory, kl and agreement, or token or tokens-per-s, or one of each, found "
      "'{}'",
      text);
  constexpr std::string_view kNames[] = {"memory", "kl", "agreement", "token", "tokens-per-s"};
  for (const std::string& word : words_of(text)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || std::ranges::find(kNames, word.substr(0, equals)) == std::end(kNames))
      throw UsageError("{}", expected);
  }
  const Limits limits = limits_from_text(text);
  for (const Limit& limit : limits.limits) {
    const bool is_time = is_time_limit(limit);
    if (is_time && limits.limits.size() > 1) {
      if (options.time_limit) throw UsageError("{}", expected);
      options.time_limit = limit;
    } else {
      if (!options.limit.name.empty()) throw UsageError("{}", expected);
      options.limit = limit;
    }
  }
  if (options.limit.name.empty()) throw UsageError("{}", expected);
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

// A mix is chosen by the first half of the text, the second is held out.
struct Halves {
  std::vector<TokenId> chosen_by, held_out;
};
Halves halves_of(const std::vector<TokenId>& ids, const MixFlags& flags) {
  const auto middle = ids.begin() + static_cast<std::ptrdiff_t>(ids.size() / 2);
  Halves halves{{ids.begin(), middle}, {middle, ids.end()}};
  const auto cut = [](std::vector<TokenId>& half, std::int64_t most) {
    if (most > 0 && most < std::ssize(half)) half.resize(static_cast<std::size_t>(most));
  };
  const std::int64_t of_part = flags.shared.max_tokens;
  cut(halves.chosen_by, of_part == 0 ? 0 : std::max(of_part, kTogetherTokens));
  cut(halves.held_out, flags.held_out);
  if (halves.chosen_by.size() < 2 || halves.held_out.size() < 2)
    throw Error("the text has {} tokens; a mix needs at least 2 in each half", ids.size());
  return halves;
}

int run_mix(const MixFlags& flags) {
  MixOptions options;
  options.candidates = candidate_formats(flags.candidates);
  set_limits(options, flags.limit);
  options.item_tokens = flags.shared.max_tokens;
  options.most_exchanges = flags.exchanges;
  if (!flags.file.empty()) {
    const std::string stem = std::filesystem::path(flags.file).stem().string().substr(0, 64);
    options.name = stem.empty() ? "mix" : stem;
  }
  if (!flags.file.empty()) check_recipe_target(flags);
  ItemExchange model = flags.shared.load();
  const Halves halves = halves_of(flags.shared.ids(model.base()), flags);
  Progress progress(flags.shared.output.shows_progress());
  options.measuring.context = flags.shared.context;
  options.measuring.on_progress = [&](const std::string& what, std::int64_t done, std::int64_t all) {
    progress.show(fmt::format("{} of {}: {}", done + 1, all, what));
  };
  const Mix mix = find_mix(model, halves.chosen_by, halves.held_out, options);
  progress.clear();
  const MixView view{mix, options, flags.shared.baseline};
  if (!flags.file.empty()) write_file_atomically(flags.file, recipe_toml(view));
  if (flags.shared.output.is_json) {
    nlohmann::ordered_json json = mix_json(view, model.base().id);
    json["file"] = flags.file.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(flags.file);
    answer_json("mix", json);
    return 0;
  }
  if (flags.file.empty()) answer(recipe_toml(view) + "\n");
  answer(mix_table_text(view) + "\n" + mix_sentences(view));
  if (flags.shared.output.is_quiet) return 0;
  note(fmt::format("Each part was measured on {} tokens, all together on {}; the table is of {} others: {}",
                   mix.tokens_scored, mix.together.tokens, mix.tokens_held_out, mix.protocol));
  for (const std::string& text : left_out_notes(view)) note(text);
  if (!flags.file.empty())
    note(fmt::format("Wrote {}: load it with --recipe {}{}", flags.file, flags.file,
                     flags.shared.baseline == "bfloat16" ? " --dtype bfloat16" : ""));
  if (fits_gguf(view))
    note(fmt::format("As a GGUF file: assay quantize {} OUT.gguf --recipe {}", model.base().id,
                     flags.file.empty() ? "RECIPE.toml" : flags.file));
  return 0;
}

}  // namespace

void add_mix(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<MixFlags>();
  CLI::App* command = app.add_subcommand(
      "mix", "Choose a format for each part of a model under a limit, and write the recipe");
  flags->shared.max_tokens = kPartTokens;
  flags->shared.add_to(*command,
                       "First tokens of the text's first half that each part is measured on; 0: all [1600]");
  command
      ->add_option("--limit", flags->limit,
                   "What the recipe must keep: memory=700MiB of weights, kl=0.02 or agreement=97%; beside "
                   "memory or kl, or alone, token=8ms or tokens-per-s=120 of decode steps")
      ->required();
  command->add_option("--candidates", flags->candidates,
                      "Formats to choose from, joined by commas; q3_k,q4_k,q5_k,q6_k,q8_0 for a GGUF file "
                      "[nf4,int8-dynamic,bfloat16]");
  add_whole(*command, "--held-out-tokens", flags->held_out,
            "First tokens of the text's second half to measure on; 0: all [0]");
  add_whole(*command, "--exchanges", flags->exchanges,
            "Exchanges of two parts' formats to try where the sum of the parts misleads [12]");
  command->add_option("-o,--output", flags->file, "Recipe to write, in TOML [none: it is printed]")
      ->type_name("FILE");
  command->add_flag("--force", flags->is_forced, "Replace a file that exists at FILE of -o");
  command->footer(
      "Examples: assay mix demo --limit memory=3600KiB -o recipe.toml\n"
      "          assay mix model --limit memory=4GiB --candidates q3_k,q4_k,q5_k,q6_k,q8_0 -o recipe.toml");
  command->callback([flags, &exit_code] { exit_code = run_mix(*flags); });
}

}  // namespace assay::cli
