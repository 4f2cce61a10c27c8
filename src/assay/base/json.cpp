#include "assay/base/json.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/format.h"
#include "assay/base/strict_json.h"

namespace assay {

namespace {

using StrictBuilder = strict_json::Builder<Json>;

// Builds one entry of the outermost object at a time, and hands it on.
class EntryBuilder {
 public:
  using OnEntry = std::function<void(const std::string&, const Json&)>;
  EntryBuilder(const std::string& where, std::size_t max_values, const OnEntry& on_entry)
      : where_(where), limits_{.values = max_values}, on_entry_(on_entry) {}

  bool null() {
    return pass([](StrictBuilder& to) { to.null(); });
  }
  bool boolean(bool value) {
    return pass([&](StrictBuilder& to) { to.boolean(value); });
  }
  bool number_integer(Json::number_integer_t value) {
    return pass([&](StrictBuilder& to) { to.number_integer(value); });
  }
  bool number_unsigned(Json::number_unsigned_t value) {
    return pass([&](StrictBuilder& to) { to.number_unsigned(value); });
  }
  bool number_float(Json::number_float_t value, const std::string& text) {
    return pass([&](StrictBuilder& to) { to.number_float(value, text); });
  }
  bool string(std::string& text) {
    return pass([&](StrictBuilder& to) { to.string(text); });
  }
  bool binary(Json::binary_t&) { return false; }  // other formats than text have it
  bool start_array(std::size_t size) {
    return pass([&](StrictBuilder& to) { to.start_array(size); }, 1);
  }
  bool end_array() {
    return pass([](StrictBuilder& to) { to.end_array(); }, -1);
  }
  bool start_object(std::size_t size) {
    if (!is_inside_) return is_inside_ = true;
    return pass([&](StrictBuilder& to) { to.start_object(size); }, 1);
  }
  bool end_object() {
    if (open_ == 0) return true;  // the outermost
    return pass([](StrictBuilder& to) { to.end_object(); }, -1);
  }
  bool key(std::string& text) {
    if (open_ > 0) return builder_->key(text);
    if (!keys_.insert(text).second) throw Error("{}: duplicate key '{}'", where_, printable(text));
    key_ = text;
    entry_ = Json();
    builder_.emplace(entry_, where_, limits_, 1);
    return true;
  }
  template <typename Failure>
  bool parse_error(std::size_t, const std::string&, const Failure& failure) {
    throw failure;
  }

 private:
  // `opened`: arrays and objects that the event opens.
  template <typename Event>
  bool pass(const Event& event, int opened = 0) {
    if (!is_inside_) {
      StrictBuilder top(entry_, where_, limits_);
      event(top);
      throw Error("{}: expected a JSON object, found {}", where_, entry_.type_name());
    }
    event(*builder_);
    open_ += opened;
    if (open_ == 0) on_entry_(key_, entry_);
    return true;
  }

  const std::string& where_;
  const strict_json::Limits limits_;
  const OnEntry& on_entry_;
  bool is_inside_ = false;
  int open_ = 0;  // arrays and objects of the entry
  std::string key_;
  Json entry_;
  std::optional<StrictBuilder> builder_;
  std::set<std::string> keys_;
};

}  // namespace

void strict_json::refuse_at(std::string_view text, std::size_t byte, const std::string& where) {
  const std::size_t at = std::min(byte == 0 ? 0 : byte - 1, text.size());
  const std::string_view before = text.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  throw Error("{}: not valid JSON: line {}, column {}: {}", where, line, at - begin + 1,
              at == text.size() ? "the text ends too early" : "a character that JSON does not allow there");
}

Json parse_json_object(std::string_view text, const std::string& where, std::size_t max_values) {
  Json json;
  StrictBuilder builder(json, where, {.values = max_values});
  strict_json::parse<Json>(text, where, builder);
  if (!json.is_object()) throw Error("{}: expected a JSON object, found {}", where, json.type_name());
  return json;
}

Json read_json_object(const std::filesystem::path& path, std::uint64_t limit, std::size_t max_values) {
  return parse_json_object(read_text_file(path, limit), path.string(), max_values);
}

void parse_json_entries(std::string_view text, const std::string& where, std::size_t max_values,
                        const std::function<void(const std::string&, const Json&)>& on_entry) {
  EntryBuilder builder(where, max_values, on_entry);
  strict_json::parse<Json>(text, where, builder);
}

std::string shown_value(const Json& value, std::size_t longest) {
  const double number = value.is_number_float() ? value.get<double>() : 0;
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return printable(value.dump().substr(0, longest));
}

bool JsonView::has(std::string_view key) const {
  const auto it = object_->find(key);
  return it != object_->end() && !it->is_null();
}

std::string JsonView::name_of(std::string_view key) const {
  if (names_ == nullptr) return std::string(key);
  std::string whole = inside_ + std::string(key);
  const auto at = names_->find(whole);
  return at == names_->end() ? std::move(whole) : at->second;
}

std::string JsonView::where(std::string_view key) const {
  return fmt::format("{}: {}", where_, name_of(key));
}

const Json& JsonView::at(std::string_view key) const {
  if (!has(key)) throw Error("{}: the key '{}' is missing", where_, name_of(key));
  return *object_->find(key);
}

std::int64_t JsonView::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  const Json& value = at(key);
  const bool is_whole = value.is_number_integer() ||
                        (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
  const double size = value.is_number() ? value.get<double>() : 0;
  if (!is_whole || size < static_cast<double>(min) || size > static_cast<double>(max))
    throw Error("{}: expected a whole number from {} to {}, found {}", where(key), min, max,
                shown_value(value));
  return value.is_number_integer() ? value.get<std::int64_t>() : static_cast<std::int64_t>(size);
}

std::int64_t JsonView::integer_or(std::string_view key, std::int64_t fallback, std::int64_t min,
                                  std::int64_t max) const {
  return has(key) ? integer(key, min, max) : fallback;
}

double JsonView::number(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    throw Error("{}: expected a finite number, found {}", where(key), shown_value(value));
  return value.get<double>();
}

double JsonView::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

bool JsonView::boolean_or(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const Json& value = at(key);
  if (!value.is_boolean())
    throw Error("{}: expected true or false, found {}", where(key), shown_value(value));
  return value.get<bool>();
}

std::string JsonView::text(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_string()) throw Error("{}: expected a string, found {}", where(key), shown_value(value));
  return value.get<std::string>();
}

std::string JsonView::text_or(std::string_view key, std::string fallback) const {
  return has(key) ? text(key) : std::move(fallback);
}

JsonView JsonView::object(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_object()) throw Error("{}: expected an object, found {}", where(key), shown_value(value));
  if (names_ == nullptr) return {value, where(key)};
  JsonView inner(value, where_, names_);
  inner.inside_ = inside_ + std::string(key) + ".";
  return inner;
}

}  // namespace assay
