// Typed reading of a JSON document that we wrote ourselves once: each value knows its path, so that a message
// says where it is wrong ("results.json: rows[3].values.latency: expected a number, found a string").
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace assay {

// A view: the document must outlive it. Every function throws Error, with the file and the path, for a value
// that is missing or of another type.
class JsonReader {
 public:
  // `file` begins every message; empty: the path alone does.
  JsonReader(const nlohmann::ordered_json& value, std::string file = {});  // implicit: any value can be read

  bool has(std::string_view key) const;  // present and not null
  JsonReader at(std::string_view key) const;
  JsonReader at(std::size_t index) const;
  std::vector<JsonReader> items() const;                            // the elements of an array
  std::vector<std::pair<std::string, JsonReader>> members() const;  // the keys and values of an object

  bool is_null() const;
  bool is_text() const;
  bool is_number() const;
  bool is_boolean() const;
  bool is_array() const;
  bool is_object() const;
  // What stands there, for messages: "null", "2.5", "the string 'x'", "an array".
  std::string found() const;
  std::string dumped() const;  // as JSON on one line
  double number() const;
  double number(double min, double max) const;
  bool boolean() const;
  std::string text() const;
  std::int64_t integer(std::int64_t min, std::int64_t max) const;
  template <std::integral T>
  T whole() const {
    return static_cast<T>(integer(static_cast<std::int64_t>(std::numeric_limits<T>::min()),
                                  sizeof(T) < 8 ? static_cast<std::int64_t>(std::numeric_limits<T>::max())
                                                : std::numeric_limits<std::int64_t>::max()));
  }
  // A whole number from 0.
  template <std::integral T>
  T count() const {
    return static_cast<T>(integer(0, sizeof(T) < 8 ? static_cast<std::int64_t>(std::numeric_limits<T>::max())
                                                   : std::numeric_limits<std::int64_t>::max()));
  }
  std::optional<double> number_or_null() const;
  std::vector<double> numbers() const;
  std::vector<double> numbers(double min, double max) const;
  std::vector<std::string> texts() const;
  template <std::integral T>
  std::vector<T> whole_numbers() const {
    std::vector<T> all;
    for (const JsonReader& item : items()) all.push_back(item.whole<T>());
    return all;
  }

  // Throws Error naming a key of this object that is not among the known ones, and what those are.
  void require_known(std::span<const std::string_view> known) const;

  // "FILE: PATH: expected EXPECTED, found ...".
  [[noreturn]] void refuse(std::string_view expected) const;
  // "FILE: PATH: what".
  [[noreturn]] void fail(std::string_view what) const;

 private:
  JsonReader(const nlohmann::ordered_json& value, std::string file, std::string path);

  const nlohmann::ordered_json* value_;
  std::string file_, path_;
};

// Parses a document whose order of keys matters. Throws Error naming `file`, line and column for what is not
// JSON, and for nesting beyond 64 levels, more than 4096 keys in one object, or a duplicate key.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& file);

// A document with a line for each value, but an array of numbers on one line; malformed UTF-8 becomes U+FFFD.
// Ends with a line break.
std::string readable_json(const nlohmann::ordered_json& json);

}  // namespace assay
