#include "assay/cli/config.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/base/toml.h"

namespace assay::cli {

namespace {

using OrderedJson = nlohmann::ordered_json;

struct Entry {
  std::string key;
  std::vector<std::string> values;  // "true" and "false" of a switch
};

std::string text_of(const OrderedJson& value, const std::string& file, const std::string& key) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  throw Error("{}: key '{}': expected a text, a number, true or false, or a list of them, found {}", file,
              key,
              value.is_null()     ? "null"
              : value.is_object() ? "a table"
                                  : "a list in a list");
}

std::vector<Entry> read_entries(const std::string& file) {
  const OrderedJson json = read_toml_or_json(file);
  std::vector<Entry> entries;
  for (const auto& [key, value] : json.items()) {
    Entry& entry = entries.emplace_back(Entry{key, {}});
    if (!value.is_array())
      entry.values.push_back(text_of(value, file, key));
    else
      for (const OrderedJson& one : value) entry.values.push_back(text_of(one, file, key));
    if (entry.values.empty()) throw Error("{}: key '{}': the list is empty", file, key);
  }
  return entries;
}

bool is_given(const CLI::Option& option, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    for (const std::string& name : option.get_lnames())
      if (word == "--" + name || word.rfind("--" + name + "=", 0) == 0) return true;
    for (const std::string& name : option.get_snames())
      if (word.rfind("-" + name, 0) == 0 && word.rfind("--", 0) != 0) return true;
    return false;
  });
}

// Whether the word after this flag is its value: "-n" and "--max-new-tokens", not "-n5" or "--seed=1".
bool takes_next(const CLI::App& command, const std::string& word) {
  if (word.find('=') != std::string::npos || (word.size() > 2 && word[1] != '-')) return false;
  const CLI::Option* option = command.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0;
}

// One that may be given again for more: a prompt, a pattern.
bool is_repeatable(const CLI::Option& option) {
  return option.get_items_expected_max() > 1;
}

// A value may be empty or look like a flag: neither may take the next word for its own, or be one.
void put(const std::string& key, const std::string& value, std::vector<std::string>& out) {
  if (!value.empty()) {
    out.push_back(fmt::format("--{}={}", key, value));
    return;
  }
  out.push_back("--" + key);
  out.push_back(value);
}

void put_in(const Entry& entry, const CLI::App& command, const std::string& file,
            const std::vector<std::string>& given, std::vector<std::string>& out) {
  std::string key = entry.key;
  std::replace(key.begin(), key.end(), '_', '-');
  if (key == "model") {
    // The model first: what follows a list of values would be taken for one of them.
    out.insert(out.begin(), fmt::format("{}", fmt::join(entry.values, ",")));
    return;
  }
  const CLI::Option* option = command.get_option_no_throw("--" + key);
  if (option == nullptr || key == "config" || key == "help") {
    std::vector<std::string> names;
    for (const CLI::Option* known : command.get_options())
      for (const std::string& name : known->get_lnames())
        if (name != "config" && name != "help") names.push_back(name);
    throw Error("{}: unknown key '{}': the nearest is {}", file, entry.key, nearest_name(key, names));
  }
  if (is_given(*option, given)) return;
  if (option->get_items_expected_max() == 0) {  // a switch
    if (entry.values == std::vector<std::string>{"true"})
      out.push_back("--" + key);
    else if (entry.values != std::vector<std::string>{"false"})
      throw Error("{}: key '{}': expected true or false, found '{}'", file, entry.key,
                  fmt::join(entry.values, ","));
    return;
  }
  if (is_repeatable(*option)) {
    for (const std::string& value : entry.values) put(key, value, out);
    return;
  }
  put(key, fmt::format("{}", fmt::join(entry.values, ",")), out);
}

}  // namespace

std::string CommandLine::with_place(const std::string& sentence) const {
  const auto is_named = [&](const std::string& flag) {
    const std::size_t at = sentence.find(flag);
    if (at == std::string::npos) return false;
    const char after = at + flag.size() < sentence.size() ? sentence[at + flag.size()] : ' ';
    return after != '-' && std::isalnum(static_cast<unsigned char>(after)) == 0;
  };
  return std::any_of(flags.begin(), flags.end(), is_named) ? file + ": " + sentence : sentence;
}

CommandLine with_config(const CLI::App& app, std::vector<std::string> words) {
  std::optional<std::string> file;
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--config" && i + 1 < words.size())
      file = words[++i];
    else if (words[i].rfind("--config=", 0) == 0)
      file = words[i].substr(9);
    else
      rest.push_back(words[i]);
  }
  if (!file) return {std::move(words), "", {}};
  if (file->empty()) throw UsageError("--config: expected a file, found an empty name");
  // The command may be two words deep: sweep lengths.
  const CLI::App* command = &app;
  std::size_t depth = 0;
  while (depth < rest.size()) {
    const CLI::App* next = nullptr;
    for (const CLI::App* sub : command->get_subcommands({}))
      if (sub->get_name() == rest[depth]) next = sub;
    if (next == nullptr) break;
    command = next;
    ++depth;
  }
  if (command->get_option_no_throw("--config") == nullptr) return {std::move(words), "", {}};
  const std::vector<std::string> given(rest.begin() + static_cast<std::ptrdiff_t>(depth), rest.end());
  std::vector<std::string> all(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(depth)), from_file;
  // The model first, wherever it stands: what follows a list of values would be taken for one of them.
  std::vector<std::string> model, others;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool is_flag = given[i].size() > 1 && given[i].front() == '-';
    if (!is_flag && model.empty()) {
      model.push_back(given[i]);
      continue;
    }
    others.push_back(given[i]);
    if (is_flag && takes_next(*command, given[i]) && i + 1 < given.size()) others.push_back(given[++i]);
  }
  for (const Entry& entry : read_entries(*file))
    if (model.empty() || entry.key != "model") put_in(entry, *command, *file, given, from_file);
  for (const auto* part : {&model, &from_file, &others}) all.insert(all.end(), part->begin(), part->end());
  CommandLine line{std::move(all), *file, {}};
  for (const std::string& word : from_file)
    if (word.starts_with("--")) line.flags.push_back(word.substr(0, word.find('=')));
  return line;
}

std::string config_of(const CLI::App& command) {
  static constexpr const char* kNotMeasured[] = {"output",      "resume", "json", "quiet",  "format",
                                                 "no-progress", "config", "help", "dry-run"};
  OrderedJson json = OrderedJson::object();
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const bool is_model = option->get_lnames().empty();
    const std::string key = is_model ? "model" : option->get_lnames().front();
    if (std::find(std::begin(kNotMeasured), std::end(kNotMeasured), key) != std::end(kNotMeasured)) continue;
    const std::vector<std::string>& values = option->results();
    if (option->get_items_expected_max() == 0)
      json[key] = true;
    else if (is_repeatable(*option))
      json[key] = values;
    else
      json[key] = values.back();
  }
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace assay::cli
