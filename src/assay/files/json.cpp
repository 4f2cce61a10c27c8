#include "assay/files/json.h"

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/file.h"

namespace assay {

namespace {
constexpr int kMaxDepth = 64;
}

Json parse_json_object(std::string_view text, const std::string& where) {
  std::vector<std::set<std::string>> keys;  // of each open object
  const auto guard = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) throw Error("{}: JSON is nested deeper than {} levels", where, kMaxDepth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw Error("{}: the key '{}' stands twice in one object", where, parsed.get<std::string>());
    return true;
  };
  try {
    Json json = Json::parse(text.begin(), text.end(), guard);
    if (!json.is_object()) throw Error("{}: expected a JSON object, found {}", where, json.type_name());
    return json;
  } catch (const Json::exception& e) {
    throw Error("{}: not valid JSON: {}", where, e.what());
  }
}

Json read_json_object(const std::filesystem::path& path, std::uint64_t limit) {
  return parse_json_object(read_text_file(path, limit), path.string());
}

bool JsonView::has(std::string_view key) const {
  const auto it = object_->find(key);
  return it != object_->end() && !it->is_null();
}

const Json& JsonView::at(std::string_view key) const {
  if (!has(key)) throw Error("{}: the key '{}' is missing", where_, key);
  return *object_->find(key);
}

std::int64_t JsonView::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  const Json& value = at(key);
  const bool is_whole = value.is_number_integer() || (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
  const double size = value.is_number() ? value.get<double>() : 0;
  if (!is_whole || size < static_cast<double>(min) || size > static_cast<double>(max))
    throw Error("{}: {}: expected a whole number from {} to {}, found {}", where_, key, min, max, value.dump().substr(0, 80));
  return value.is_number_integer() ? value.get<std::int64_t>() : static_cast<std::int64_t>(size);
}

std::int64_t JsonView::integer_or(std::string_view key, std::int64_t fallback, std::int64_t min, std::int64_t max) const {
  return has(key) ? integer(key, min, max) : fallback;
}

double JsonView::number(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    throw Error("{}: {}: expected a finite number, found {}", where_, key, value.dump().substr(0, 80));
  return value.get<double>();
}

double JsonView::number_or(std::string_view key, double fallback) const { return has(key) ? number(key) : fallback; }

bool JsonView::boolean_or(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const Json& value = at(key);
  if (!value.is_boolean()) throw Error("{}: {}: expected true or false, found {}", where_, key, value.dump().substr(0, 80));
  return value.get<bool>();
}

std::string JsonView::text(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_string()) throw Error("{}: {}: expected a string, found {}", where_, key, value.dump().substr(0, 80));
  return value.get<std::string>();
}

std::string JsonView::text_or(std::string_view key, std::string fallback) const {
  return has(key) ? text(key) : std::move(fallback);
}

JsonView JsonView::object(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_object()) throw Error("{}: {}: expected an object, found {}", where_, key, value.dump().substr(0, 80));
  return {value, fmt::format("{}: {}", where_, key)};
}

}  // namespace assay
