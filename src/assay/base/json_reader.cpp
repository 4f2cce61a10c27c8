#include "assay/base/json_reader.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/strict_json.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

constexpr std::size_t kLongestQuote = 60;

// What stands there, in a few words. Arrays and objects are not written out: they may be large and deep.
std::string found_in(const OrderedJson& value) {
  if (value.is_null()) return "null";
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number()) return value.dump();
  const std::string text = value.get<std::string>();
  if (text.size() > kLongestQuote) return fmt::format("a string of {} bytes", text.size());
  return "the string '" + text + "'";
}

std::string shortened_key(std::string_view key) {
  return key.size() <= kLongestQuote ? std::string(key) : std::string(key.substr(0, kLongestQuote)) + "...";
}

constexpr std::size_t kMaxKeys = 4096;  // an ordered object compares a new key with every earlier one

}  // namespace

JsonReader::JsonReader(const OrderedJson& value, std::string file) : value_(&value), file_(std::move(file)) {}
JsonReader::JsonReader(const OrderedJson& value, std::string file, std::string path)
    : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

void JsonReader::fail(std::string_view what) const {
  std::string where = file_;
  if (!path_.empty()) where += (where.empty() ? "" : ": ") + path_;
  if (where.empty()) where = "the document";
  throw Error("{}: {}", where, what);
}

void JsonReader::refuse(std::string_view expected) const {
  fail(fmt::format("expected {}, found {}", expected, found()));
}

bool JsonReader::has(std::string_view key) const {
  if (!value_->is_object()) refuse("an object");
  const auto at = value_->find(key);
  return at != value_->end() && !at->is_null();
}

JsonReader JsonReader::at(std::string_view key) const {
  if (!value_->is_object()) refuse("an object");
  const auto at = value_->find(key);
  if (at == value_->end()) fail(fmt::format("the key '{}' is missing", key));
  return {*at, file_, path_.empty() ? shortened_key(key) : path_ + "." + shortened_key(key)};
}

JsonReader JsonReader::at(std::size_t index) const {
  if (!value_->is_array()) refuse("an array");
  if (index >= value_->size())
    fail(fmt::format("expected at least {} elements, found {}", index + 1, value_->size()));
  return {(*value_)[index], file_, fmt::format("{}[{}]", path_, index)};
}

std::vector<JsonReader> JsonReader::items() const {
  if (!value_->is_array()) refuse("an array");
  std::vector<JsonReader> all;
  for (std::size_t i = 0; i < value_->size(); ++i) all.push_back(at(i));
  return all;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members() const {
  if (!value_->is_object()) refuse("an object");
  std::vector<std::pair<std::string, JsonReader>> all;
  for (auto item = value_->begin(); item != value_->end(); ++item)
    all.emplace_back(item.key(), at(item.key()));
  return all;
}

bool JsonReader::is_null() const {
  return value_->is_null();
}
bool JsonReader::is_text() const {
  return value_->is_string();
}
bool JsonReader::is_number() const {
  return value_->is_number();
}
bool JsonReader::is_boolean() const {
  return value_->is_boolean();
}
bool JsonReader::is_array() const {
  return value_->is_array();
}

bool JsonReader::is_object() const {
  return value_->is_object();
}

std::string JsonReader::dumped() const {
  return value_->dump();
}

std::string JsonReader::found() const {
  return found_in(*value_);
}

void JsonReader::require_known(std::span<const std::string_view> known) const {
  for (const auto& [key, value] : members())
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(fmt::format("unknown key '{}': expected {}", shortened_key(key), fmt::join(known, ", ")));
}

double JsonReader::number() const {
  if (!value_->is_number()) refuse("a number");
  return value_->get<double>();
}

double JsonReader::number(double min, double max) const {
  const double value = number();
  if (!(value >= min && value <= max)) refuse(fmt::format("a number from {:g} to {:g}", min, max));
  return value;
}

std::vector<double> JsonReader::numbers(double min, double max) const {
  std::vector<double> all = numbers();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!(all[i] >= min && all[i] <= max)) at(i).number(min, max);
  return all;
}

std::optional<double> JsonReader::number_or_null() const {
  return value_->is_null() ? std::nullopt : std::optional(number());
}

bool JsonReader::boolean() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

std::string JsonReader::text() const {
  if (!value_->is_string()) refuse("a string");
  return value_->get<std::string>();
}

std::int64_t JsonReader::integer(std::int64_t min, std::int64_t max) const {
  const bool is_whole =
      value_->is_number_integer() &&
      (!value_->is_number_unsigned() ||
       value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!is_whole || value_->get<std::int64_t>() < min || value_->get<std::int64_t>() > max)
    refuse(fmt::format("a whole number from {} to {}", min, max));
  return value_->get<std::int64_t>();
}

std::vector<double> JsonReader::numbers() const {
  if (!value_->is_array()) refuse("an array of numbers");
  std::vector<double> all;
  all.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i)
    all.push_back((*value_)[i].is_number() ? (*value_)[i].get<double>() : at(i).number());
  return all;
}

std::vector<std::string> JsonReader::texts() const {
  std::vector<std::string> all;
  for (const JsonReader& item : items()) all.push_back(item.text());
  return all;
}

namespace {

std::string dumped(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

bool is_of_numbers(const OrderedJson& json) {
  return std::all_of(json.begin(), json.end(), [](const OrderedJson& item) { return item.is_number(); });
}

void write_readable(const OrderedJson& json, std::size_t depth, std::string& out) {
  if (!json.is_structured() || json.empty() || (json.is_array() && is_of_numbers(json))) {
    out += dumped(json);
    return;
  }
  out += json.is_object() ? "{" : "[";
  const char* separator = "\n";
  for (auto item = json.begin(); item != json.end(); ++item) {
    out += separator;
    out.append(depth + 1, ' ');
    if (json.is_object()) out += dumped(item.key()) + ": ";
    write_readable(*item, depth + 1, out);
    separator = ",\n";
  }
  out += "\n";
  out.append(depth, ' ');
  out += json.is_object() ? "}" : "]";
}

}  // namespace

std::string readable_json(const OrderedJson& json) {
  std::string out;
  write_readable(json, 0, out);
  return out + "\n";
}

OrderedJson parse_ordered_json(std::string_view text, const std::string& file) {
  OrderedJson json;
  strict_json::Builder<OrderedJson> builder(json, file, {.keys = kMaxKeys});
  strict_json::parse<OrderedJson>(text, file, builder);
  return json;
}

}  // namespace assay
