#include "assay/cli/options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/format.h"
#include "assay/cli/console.h"
#include "assay/session/sampled_text.h"
#include "assay/studies/precision_cases.h"
#include "assay/text/tokenizer.h"

namespace assay::cli {

namespace {

// The name to show in messages: the long one of "-n,--max-new-tokens".
std::string flag_name(const std::string& names) {
  return names.substr(names.find("--"));
}

template <typename Number>
bool parse(const std::string& text, Number& out) {
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc() && stop == text.data() + text.size();
}

std::int64_t whole(const std::string& names, const std::string& text, std::int64_t min, std::int64_t max) {
  std::int64_t number = 0;
  const bool is_one = parse(text, number);
  if (is_one && number >= min && number <= max) return number;
  const bool is_too_large =
      !text.empty() && text.find_first_not_of("0123456789") == std::string::npos && (!is_one || number > max);
  const bool shows_max = is_too_large || max < std::int64_t{1} << 40;
  throw UsageError("{}: expected a whole number from {}{}, found '{}'", flag_name(names), min,
                   shows_max ? fmt::format(" to {}", max) : "", text);
}

}  // namespace

CLI::Option* add_whole(CLI::App& app, const std::string& names, std::int64_t& target,
                       const std::string& description, std::int64_t min, std::int64_t max) {
  const auto read = [names, min, max, &target](const std::string& text) {
    target = whole(names, text, min, max);
  };
  return app.add_option_function<std::string>(names, read, description)->type_name("N");
}

CLI::Option* add_whole_list(CLI::App& app, const std::string& names, std::vector<std::int64_t>& target,
                            const std::string& description, std::int64_t min, std::int64_t max) {
  const auto read = [names, min, max, &target](const std::string& text) {
    target.clear();
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      target.push_back(whole(names, text.substr(at, comma - at), min, max));
      at = comma + 1;
    }
  };
  return app.add_option_function<std::string>(names, read, description)->type_name("LIST");
}

CLI::Option* add_sample_flag(CLI::App& app, std::int64_t& tokens) {
  const auto check = [](const std::string& text) -> std::string {
    constexpr std::int64_t kMost = 1 << 20;
    std::int64_t given = 0;
    if (parse(text, given) && given >= 2 && given <= kMost) return "";
    return fmt::format("expected 2 to {} tokens, as in --sample=2000, found '{}'", kMost, text);
  };
  return app
      .add_flag_function(
          fmt::format("--sample{{{}}}", kSampleTokens), [&tokens](std::int64_t given) { tokens = given; },
          fmt::format("Score a text of so many tokens that the baseline writes itself, as in --sample=2000 "
                      "(seed {}, temperature 1) [{}]",
                      kSampleSeed, kSampleTokens))
      ->check(check);
}

std::vector<std::string> with_optional_values(const std::vector<std::string>& words) {
  std::map<std::string, std::string> implied{{"--sample", ""}};  // what the flag alone means; empty: itself
  for (const Field& field : fields())
    if (!field.implied.empty()) implied[flag_of(field.key)] = field.implied;
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < words.size(); ++i) {
    joined.push_back(words[i]);
    if (words[i] == "--") {  // no flags behind it
      joined.insert(joined.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      break;
    }
    const auto flag = implied.find(words[i]);
    if (flag == implied.end()) continue;
    double number = 0;
    if (i + 1 < words.size() && parse(words[i + 1], number))
      joined.back() += "=" + words[++i];
    else if (!flag->second.empty())
      joined.back() += "=" + flag->second;
  }
  return joined;
}

CLI::Option* add_real(CLI::App& app, const std::string& names, double& target,
                      const std::string& description) {
  const auto read = [names, &target](const std::string& text) {
    if (!parse(text, target) || !std::isfinite(target))
      throw UsageError("{}: expected a finite number, found '{}'", flag_name(names), text);
  };
  return app.add_option_function<std::string>(names, read, description);
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) {
    const auto first = part.find_first_not_of(' ');
    if (first != std::string::npos)
      words.push_back(part.substr(first, part.find_last_not_of(' ') - first + 1));
  }
  return words;
}

std::vector<std::string> candidates_of(const std::string& model) {
  return candidates_from_text(model);
}

CLI::Option* add_field(CLI::App& app, const Field& field, RunConfig& config) {
  const std::string flag = flag_of(field.key), help(field.help),
                    names = field.short_flag.empty() ? flag : fmt::format("{},{}", field.short_flag, flag);
  if (field.kind == FieldKind::on)
    return app.add_flag_function(
        names, [&](std::int64_t) { field.parse(config, "true"); }, help);
  if (field.kind == FieldKind::list) {
    const auto read = [&](const std::vector<std::string>& values) {
      for (const std::string& value : values) field.parse(config, value);
    };
    return app.add_option_function<std::vector<std::string>>(names, read, help)
        ->allow_extra_args(false)
        ->type_name("PATTERN");
  }
  CLI::Option* option = app.add_option_function<std::string>(
      names, [&](const std::string& value) { field.parse(config, value); }, help);
  if (field.kind == FieldKind::whole) option->type_name("N");
  if (field.kind == FieldKind::real) option->type_name("X");
  if (!field.implied.empty()) option->expected(0, 1)->default_str(std::string(field.implied));
  return option;
}

void ModelFlags::add_fields_to(CLI::App& app, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) add_field(app, field(key), config);
}

void ModelFlags::add_fields_but(CLI::App& app, std::initializer_list<std::string_view> keys) {
  for (const Field& each : fields())
    if (each.has_flag && each.key != "precision" &&
        std::find(keys.begin(), keys.end(), each.key) == keys.end())
      add_field(app, each, config);
}

void ModelFlags::add_to(CLI::App& app, bool is_model_required) {
  CLI::Option* option = app.add_option(
      "MODEL", model,
      "Model: a folder, a GGUF file (FOLDER:Q4_K_M chooses one), a Hugging "
      "Face cache entry (gpt2, org/name[@revision]) or demo; several, joined by commas, are tried "
      "in order");
  if (is_model_required) option->required();
  app.add_option("--precision", precision, std::string(field("precision").help));
  add_fields_but(app, {});
}

RunConfig ModelFlags::configuration() const {
  std::vector<RunConfig> made;
  for (const std::string& word : words_of(precision)) made.push_back(run_config_from_text(word, config));
  if (made.empty()) return config;
  require_used(config, made);
  return made.front();
}

LoadedModel ModelFlags::load(bool needs_tokenizer) const {
  const bool is_stored = precision == kStoredPrecision;
  LoadedModel loaded = load_model_and_tokenizer(
      candidates_of(model), run_config_to_load(is_stored ? kAutoPrecision : precision, config),
      {.needs_tokenizer = needs_tokenizer, .pins_caller = true, .should_stop = is_interrupted});
  if (is_stored) require_stored(precision, loaded.model->precision().is_stored);
  return loaded;
}

void PromptFlags::add_to(CLI::App& app) {
  app.add_option("-p,--prompt,--text", prompts, "Prompt; repeat for more")->allow_extra_args(false);
  app.add_option("--prompts-file", prompts_file, "File with a prompt on each line");
  app.add_option("--ids", ids, "Prompt as token ids: 1,2,3");
  app.add_option("--truncate", truncate,
                 "Side to cut a prompt on that exceeds the context: left, right or none [none: an error]");
}

std::vector<Prompt> PromptFlags::read(const Reading& reading) const {
  std::vector<Prompt> all(prompts.begin(), prompts.end());
  if (!prompts_file.empty()) {
    TextFile file = read_text(prompts_file, reading.newlines);
    if (!file.change.empty() && !reading.is_quiet)
      note(fmt::format("warning: {}: {}; --newlines keep leaves them", prompts_file, file.change));
    std::stringstream lines(std::move(file.text));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      check_utf8(line, fmt::format("{}: line {}", prompts_file, number));
      if (!line.empty()) all.emplace_back(line);
    }
    if (all.size() == prompts.size()) throw Error("{}: holds no prompt", prompts_file);
  }
  if (!ids.empty()) all.emplace_back(ids_from_text(ids, "--ids"));
  if (all.empty())
    throw UsageError("no prompt: give one with --prompt TEXT, --prompts-file FILE or --ids 1,2,3");
  return all;
}

void SamplingFlags::add_to(CLI::App& app) {
  add_real(app, "--temperature", options.temperature,
           "Sampling temperature; 0 takes the most probable token [0]");
  add_whole(app, "--top-k", options.top_k, "Sample from the K most probable tokens; 0: all [0]");
  add_real(app, "--top-p", options.top_p,
           "Nucleus sampling: sample from the fewest tokens that reach this probability [1]");
  add_real(app, "--repetition-penalty", options.repetition_penalty,
           "Penalty on tokens that occurred before; above 1 makes them less probable [1]");
  add_whole(app, "--seed", seed, "Seed for sampling; the text does not depend on the number of threads [0]",
            0, std::numeric_limits<std::int64_t>::max())
      ->group("Sampling");
}

SamplingOptions SamplingFlags::checked() const {
  SamplingOptions checked = options;
  checked.seed = static_cast<std::uint64_t>(seed);
  check_sampling(checked);
  return checked;
}

void OutputFlags::add_to(CLI::App& app) {
  app.add_flag("--json", is_json, "Print one JSON document to standard output");
  app.add_flag("--quiet", is_quiet, "Print no timings, notes or progress to standard error");
  app.add_flag("--no-progress", has_no_progress, "Show no progress line");
}

bool OutputFlags::shows_progress() const {
  return !is_quiet && !has_no_progress && isatty(STDERR_FILENO) == 1;
}

std::vector<TokenId> ids_from_text(const std::string& text, const std::string& where) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  const auto is_separator = [](char c) {
    return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '[' || c == ']';
  };
  bool wants_id = false;  // after a comma
  while (at != end) {
    if (is_separator(*at)) {
      if (*at == ',' && (wants_id || ids.empty()))
        throw UsageError("{}: expected token ids such as 1,2,3, found nothing before a comma", where);
      wants_id = wants_id || *at == ',';
      ++at;
      continue;
    }
    TokenId id = 0;
    const auto [stop, code] = std::from_chars(at, end, id);
    if (code != std::errc() || (stop != end && !is_separator(*stop))) {
      const char* word_end = at;
      while (word_end != end && !is_separator(*word_end) && word_end - at < 40) ++word_end;
      throw UsageError("{}: expected token ids such as 1,2,3, found '{}'", where, std::string(at, word_end));
    }
    ids.push_back(id);
    wants_id = false;
    at = stop;
  }
  if (wants_id) throw UsageError("{}: expected token ids such as 1,2,3, found nothing after a comma", where);
  return ids;
}

void check_input(const std::string& file) {
  if (file.empty() || file == "-") return;
  if (access(file.c_str(), R_OK) != 0) throw Error("cannot open {}: {}", file, last_system_error());
  if (std::filesystem::is_directory(file)) throw Error("cannot read {}: expected a regular file", file);
}

std::string read_input(const std::string& file) {
  if (file != "-") return read_text_file(file);
  let_interrupts_end_reads();
  if (is_interrupted()) throw Error("interrupted");
  std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  if (is_interrupted()) throw Error("interrupted");
  return text;
}

std::string not_empty(const std::string& value) {
  return value.empty() ? "expected a value, found an empty text" : "";
}

void refuse_empty_values(const CLI::App& command) {
  for (const CLI::App* part : command.get_subcommands()) refuse_empty_values(*part);
  for (const CLI::Option* option : command.get_options()) {
    const bool is_flag = !option->get_lnames().empty();
    const std::string name = is_flag ? "--" + option->get_lnames().front() : option->get_name();
    if (name == "--prompt" || name == "MODEL") continue;
    for (const std::string& value : option->results())
      if (value.empty()) throw UsageError("{}: expected a value, found an empty one", name);
  }
}

void put_baseline_first(std::vector<std::string>& models, const std::string& baseline) {
  if (baseline.empty()) return;
  const auto is_named = [&](const std::string& model) {
    std::filesystem::path path(model);
    if (!path.has_filename()) path = path.parent_path();
    return baseline == model || baseline == path.filename();
  };
  const auto at = std::find_if(models.begin(), models.end(), is_named);
  if (at == models.end())
    throw UsageError("--baseline: expected one of {}, found '{}'", fmt::join(models, ", "), baseline);
  std::rotate(models.begin(), at, at + 1);
}

void add_limit_option(CLI::App& app, std::vector<std::string>& limits) {
  app.add_option("--limit", limits,
                 "What the recommended configuration must keep, joined by commas: memory=2GiB, ttft=200ms, "
                 "tokens-per-s=20, ppl-ratio=1.05, kl=0.05; or laptop, server, best-quality [none]")
      ->allow_extra_args(false);
}

std::optional<Limits> limits_of(const std::vector<std::string>& given) {
  if (given.empty()) return std::nullopt;
  return limits_from_text(fmt::format("{}", fmt::join(given, ",")));
}

}  // namespace assay::cli
