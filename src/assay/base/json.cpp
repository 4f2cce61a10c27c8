#include "assay/base/json.h"

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/file.h"

namespace assay {

namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kLongestMessage = 300;  // the library quotes the whole token that it stopped at

// The library's own builder, with what it lets pass refused. (Its parser callbacks would do too, but look
// through the whole enclosing array after each object, which is quadratic.)
class StrictBuilder : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  StrictBuilder(Json& out, const std::string& where) : Base(out), where_(where) {}

  bool start_object(std::size_t size) {
    deepen();
    keys_.emplace_back();
    return Base::start_object(size);
  }
  bool end_object() {
    --depth_;
    keys_.pop_back();
    return Base::end_object();
  }
  bool start_array(std::size_t size) {
    deepen();
    return Base::start_array(size);
  }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }
  bool key(std::string& text) {
    if (!keys_.back().insert(text).second)
      throw Error("{}: the key '{}' stands twice in one object", where_, printable(text));
    return Base::key(text);
  }

 private:
  void deepen() {
    if (++depth_ > kMaxDepth) throw Error("{}: JSON is nested deeper than {} levels", where_, kMaxDepth);
  }
  const std::string& where_;
  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;  // of each open object
};

}  // namespace

Json parse_json_object(std::string_view text, const std::string& where) {
  try {
    Json json;
    StrictBuilder builder(json, where);
    Json::sax_parse(text.begin(), text.end(), &builder);
    if (!json.is_object()) throw Error("{}: expected a JSON object, found {}", where, json.type_name());
    return json;
  } catch (const Json::exception& e) {
    throw Error("{}: not valid JSON: {}", where, std::string_view(e.what()).substr(0, kLongestMessage));
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
  const bool is_whole = value.is_number_integer() ||
                        (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
  const double size = value.is_number() ? value.get<double>() : 0;
  if (!is_whole || size < static_cast<double>(min) || size > static_cast<double>(max))
    throw Error("{}: {}: expected a whole number from {} to {}, found {}", where_, key, min, max,
                value.dump().substr(0, 80));
  return value.is_number_integer() ? value.get<std::int64_t>() : static_cast<std::int64_t>(size);
}

std::int64_t JsonView::integer_or(std::string_view key, std::int64_t fallback, std::int64_t min,
                                  std::int64_t max) const {
  return has(key) ? integer(key, min, max) : fallback;
}

double JsonView::number(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    throw Error("{}: {}: expected a finite number, found {}", where_, key, value.dump().substr(0, 80));
  return value.get<double>();
}

double JsonView::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

bool JsonView::boolean_or(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const Json& value = at(key);
  if (!value.is_boolean())
    throw Error("{}: {}: expected true or false, found {}", where_, key, value.dump().substr(0, 80));
  return value.get<bool>();
}

std::string JsonView::text(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_string())
    throw Error("{}: {}: expected a string, found {}", where_, key, value.dump().substr(0, 80));
  return value.get<std::string>();
}

std::string JsonView::text_or(std::string_view key, std::string fallback) const {
  return has(key) ? text(key) : std::move(fallback);
}

JsonView JsonView::object(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_object())
    throw Error("{}: {}: expected an object, found {}", where_, key, value.dump().substr(0, 80));
  return {value, fmt::format("{}: {}", where_, key)};
}

}  // namespace assay
