// How the table of fields is written: what texts a type of value has, where a configuration keeps it, and an
// entry of the table made of both.
#pragma once

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/config/fields.h"

namespace assay::field_codecs {

// How the values of a type are written. `read` gives nothing for a text that is none or is out of range.
template <typename T>
struct Codec {
  std::string expected;  // "float32 or bfloat16"
  std::function<std::optional<T>(std::string_view)> read;
  std::function<std::string(const T&)> print;
  std::function<bool(const T&)> allows;
};

template <typename T>
using Names = std::vector<std::pair<std::string_view, T>>;

inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// "a, b or c".
template <typename T>
std::string alternatives(const Names<T>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += std::string(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + std::string(names[i].first);
  return text;
}

// The value's name; empty where it has none.
template <typename T>
std::string name_among(const Names<T>& names, const T& value) {
  for (const auto& [name, each] : names)
    if (each == value) return std::string(name);
  return "";
}

// One of a few, any case.
template <typename T>
Codec<T> choice(const Names<T>& names) {
  return {alternatives(names),
          [names](std::string_view text) -> std::optional<T> {
            const std::string wanted = lower(text);
            for (const auto& [name, value] : names)
              if (wanted == name) return value;
            return std::nullopt;
          },
          [names](const T& value) {
            const std::string name = name_among(names, value);
            return name.empty() ? "another" : name;
          },
          [names](const T& value) { return !name_among(names, value).empty(); }};
}

template <typename T>
std::optional<T> number_of(std::string_view text) {
  T number{};
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

template <typename T>
Codec<T> number(T min, T max, std::string expected) {
  const auto is_in = [min, max](const T& value) { return value >= min && value <= max; };
  return {std::move(expected),
          [is_in](std::string_view text) -> std::optional<T> {
            const std::optional<T> value = number_of<T>(text);
            return value && is_in(*value) ? value : std::nullopt;
          },
          [](const T& value) { return fmt::format("{}", value); }, is_in};
}

// As another part of the library reads and writes it; its own error says what is expected.
template <typename T>
Codec<T> delegated(std::function<T(std::string_view)> read, std::function<std::string(const T&)> print) {
  return {"", [read](std::string_view text) { return std::optional<T>(read(text)); }, std::move(print),
          [](const T&) { return true; }};
}

// Where a field's value is: nothing where it is not set.
template <typename T>
struct Place {
  std::function<std::optional<T>(const RunConfig&)> get;
  std::function<void(RunConfig&, std::optional<T>)> set;
};

template <typename T>
Place<T> at(std::optional<T> RunConfig::*member) {
  return {[member](const RunConfig& c) { return c.*member; },
          [member](RunConfig& c, std::optional<T> value) { c.*member = std::move(value); }};
}

// A member whose default stands for nothing set.
template <typename T>
Place<T> at(T RunConfig::*member) {
  return {
      [member](const RunConfig& c) -> std::optional<T> {
        return c.*member == RunConfig{}.*member ? std::nullopt : std::optional<T>(c.*member);
      },
      [member](RunConfig& c, std::optional<T> value) { c.*member = value.value_or(RunConfig{}.*member); }};
}

// Completes an entry of the table.
template <typename T>
Field made(Field field, const Place<T>& place, const Codec<T>& codec) {
  const std::string_view key = field.key, unset = field.unset;
  field.print = [place, codec](const RunConfig& c) {
    const std::optional<T> value = place.get(c);
    return value ? std::vector<std::string>{codec.print(*value)} : std::vector<std::string>{};
  };
  field.parse = [place, codec, key, unset](RunConfig& c, std::string_view text) {
    if (!unset.empty() && text == unset) return place.set(c, std::nullopt);
    std::optional<T> value = codec.read(text);
    if (!value) throw FieldError(key, "expected {}, found '{}'", codec.expected, text.substr(0, 64));
    place.set(c, std::move(value));
  };
  field.clear = [place](RunConfig& c) { place.set(c, std::nullopt); };
  field.check = [place, codec, key](const RunConfig& c) {
    const std::optional<T> value = place.get(c);
    if (value && !codec.allows(*value))
      throw FieldError(key, "expected {}, found {}", codec.expected, codec.print(*value));
  };
  return field;
}

inline Field made_list(Field field, std::vector<std::string> RunConfig::*member) {
  field.kind = FieldKind::list;
  field.print = [member](const RunConfig& c) { return c.*member; };
  field.parse = [member](RunConfig& c, std::string_view text) { (c.*member).emplace_back(text); };
  field.clear = [member](RunConfig& c) { (c.*member).clear(); };
  field.check = [](const RunConfig&) {};  // the model's modules say which patterns are wrong
  return field;
}

}  // namespace assay::field_codecs
