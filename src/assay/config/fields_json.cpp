#include "assay/config/fields_json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/config/fields.h"

namespace assay {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson json_of(const Field& field, const std::vector<std::string>& values) {
  switch (field.kind) {
    case FieldKind::list:
      return values;
    case FieldKind::on:
      return values.front() == "true";
    case FieldKind::real:
      return OrderedJson::parse(values.front()).get<double>();
    case FieldKind::whole:
    case FieldKind::object:
      return OrderedJson::parse(values.front());
    case FieldKind::text:
      break;
  }
  return values.front();
}

std::string_view json_type_of(FieldKind kind) {
  switch (kind) {
    case FieldKind::list:
      return "a list of texts";
    case FieldKind::on:
      return "true or false";
    case FieldKind::whole:
    case FieldKind::real:
      return "a number";
    case FieldKind::object:
      return "an object";
    case FieldKind::text:
      break;
  }
  return "a text";
}

// As the field's parse() reads them.
std::vector<std::string> values_of(const Field& field, const JsonReader& json) {
  const auto refuse = [&](const JsonReader& found) {
    throw FieldError(field.key, "expected {}, found {}", json_type_of(field.kind), found.found());
  };
  if (field.kind == FieldKind::list) {
    if (!json.is_array()) refuse(json);
    std::vector<std::string> values;
    for (const JsonReader& each : json.items()) {
      if (!each.is_text()) refuse(each);
      values.push_back(each.text());
    }
    return values;
  }
  if (field.kind == FieldKind::object) {
    if (!json.is_object()) refuse(json);
    return {json.dumped()};
  }
  const bool is_number = field.kind == FieldKind::whole || field.kind == FieldKind::real;
  if (is_number ? !json.is_number() : field.kind == FieldKind::on ? !json.is_boolean() : !json.is_text())
    refuse(json);
  return {json.is_text() ? json.text() : json.found()};
}

}  // namespace

OrderedJson to_json(const RunConfig& config) {
  OrderedJson json = OrderedJson::object();
  for (const Field& each : fields())
    if (const auto values = each.print(config); !values.empty())
      json[std::string(each.key)] = json_of(each, values);
  return json;
}

RunConfig run_config_from_json(const JsonReader& json) {
  RunConfig config;
  for (const auto& [key, value] : json.members()) {
    const auto at = std::find_if(fields().begin(), fields().end(),
                                 [&key = key](const Field& each) { return each.key == key; });
    if (at == fields().end()) {
      std::vector<std::string_view> known;
      for (const Field& each : fields()) known.push_back(each.key);
      json.fail(fmt::format("unknown key '{}': expected {}", key.substr(0, 64), fmt::join(known, ", ")));
    }
    if (value.is_null()) continue;
    for (const std::string& text : values_of(*at, value)) at->parse(config, text);
  }
  return config;
}

}  // namespace assay
