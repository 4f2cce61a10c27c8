#include "assay/base/toml.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>
#include <vector>

#include <toml++/toml.h>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/json_reader.h"

namespace assay {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMaxKeys = 4096;

class TomlReader {
 public:
  explicit TomlReader(const std::string& file) : file_(file) {}

  OrderedJson object(const toml::table& table) const {
    std::vector<std::pair<std::string, const toml::node*>> entries;
    for (const auto& [key, node] : table) entries.emplace_back(std::string(key.str()), &node);
    // toml++ sorts keys by name.
    const auto place = [](const auto& entry) {
      const toml::source_position at = entry.second->source().begin;
      return std::pair(at.line, at.column);
    };
    std::stable_sort(entries.begin(), entries.end(),
                     [&](const auto& a, const auto& b) { return place(a) < place(b); });
    if (entries.size() > kMaxKeys)  // an ordered object compares a new key with every earlier one
      throw Error("{}: expected at most {} keys in one table, found {}", file_, kMaxKeys, entries.size());
    OrderedJson json = OrderedJson::object();
    for (const auto& [key, node] : entries) json[key] = value(*node);
    return json;
  }

 private:
  OrderedJson value(const toml::node& node) const {
    if (const auto* table = node.as_table()) return object(*table);
    if (const auto* array = node.as_array()) {
      OrderedJson json = OrderedJson::array();
      for (const toml::node& each : *array) json.push_back(value(each));
      return json;
    }
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* truth = node.as_boolean()) return truth->get();
    if (const auto* whole = node.as_integer(); whole != nullptr && whole->flags() == toml::value_flags::none)
      return whole->get();
    if (const auto* number = node.as_floating_point()) {
      if (!std::isfinite(number->get()))
        throw Error("{}: line {}: expected a finite number, found {}", file_, node.source().begin.line,
                    number->get());
      return number->get();
    }
    std::ostringstream text;
    node.visit([&](const auto& each) { text << each; });
    return text.str();
  }

  const std::string& file_;
};

}  // namespace

OrderedJson parse_toml(std::string_view text, const std::string& file) {
  try {
    return TomlReader(file).object(toml::parse(text));
  } catch (const toml::parse_error& error) {
    throw Error("{}: line {}: not valid TOML: {}", file, error.source().begin.line, error.description());
  }
}

OrderedJson read_toml_or_json(const std::string& file) {
  return parse_toml_or_json(read_text_file(file), file);
}

OrderedJson parse_toml_or_json(std::string_view text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_empty = first == std::string::npos;
  if (is_empty || (text[first] != '{' && (OrderedJson::accept(text) || file.ends_with(".json"))))
    throw Error("{}: expected keys with their values, a JSON object or TOML, found {}", file,
                is_empty                    ? "an empty file"
                : OrderedJson::accept(text) ? fmt::format("a JSON {}", OrderedJson::parse(text).type_name())
                                            : fmt::format("'{}'", text.substr(first, 16)));
  return text[first] == '{' ? parse_ordered_json(text, file) : parse_toml(text, file);
}

}  // namespace assay
