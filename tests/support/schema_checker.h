// Whether a JSON document is what a JSON Schema says.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace assay::test {

// The part of JSON Schema that the files of docs/ use; another keyword fails.
class SchemaChecker {
 public:
  using Json = nlohmann::ordered_json;

  explicit SchemaChecker(const Json& root) : root_(root) {}

  std::string check(const Json& value, const Json& schema, const std::string& where) const {
    std::string wrong;
    for (const auto& [key, part] : schema.items()) {
      if (wrong.empty()) wrong = check_keyword(key, part, value, schema, where);
    }
    return wrong;
  }

 private:
  std::string check_keyword(const std::string& key, const Json& part, const Json& value, const Json& schema,
                            const std::string& where) const {
    if (key == "$schema" || key == "title" || key == "description" || key == "definitions") return "";
    if (key == "$ref")
      return check(value, root_.at(Json::json_pointer(part.get<std::string>().substr(1))), where);
    if (key == "anyOf") {
      for (const Json& choice : part)
        if (check(value, choice, where).empty()) return "";
      return where + ": none of the choices; the first says " + check(value, part[0], where);
    }
    if (key == "const") return value == part ? "" : where + ": another constant";
    if (key == "enum") return std::count(part.begin(), part.end(), value) > 0 ? "" : where + ": not listed";
    if (key == "minimum") return !value.is_number() || value >= part ? "" : where + ": too small";
    if (key == "maximum") return !value.is_number() || value <= part ? "" : where + ": too large";
    if (key == "type") return has_type(value, part) ? "" : where + ": not of type " + part.get<std::string>();
    if (key == "items")
      return each(
          value, [&](const auto&, const Json&) { return &part; }, where);
    if (key == "required") {
      for (const Json& name : part)
        if (value.is_object() && !value.contains(name.get<std::string>()))
          return where + ": lacks " + name.get<std::string>();
      return "";
    }
    if (key == "properties" || key == "additionalProperties") {
      if (key == "additionalProperties" && schema.contains("properties")) return "";  // with these
      const Json none;
      return each(
          value,
          [&](const std::string& name, const Json&) -> const Json* {
            if (key == "additionalProperties") return &part;
            return part.contains(name) ? &part[name] : nullptr;
          },
          where);
    }
    return where + ": the checker knows no keyword " + key;
  }

  template <typename Of>
  std::string each(const Json& value, const Of& of, const std::string& where) const {
    if (!value.is_structured()) return "";
    std::size_t i = 0;
    for (auto item = value.begin(); item != value.end(); ++item, ++i) {
      const std::string name = value.is_object() ? item.key() : std::to_string(i);
      const Json* own = of(name, *item);
      if (own == nullptr) return where + "." + name + " is not in the schema";
      if (std::string wrong = check(*item, *own, where + "." + name); !wrong.empty()) return wrong;
    }
    return "";
  }

  static bool has_type(const Json& value, const std::string& type) {
    return type == "object"    ? value.is_object()
           : type == "array"   ? value.is_array()
           : type == "string"  ? value.is_string()
           : type == "boolean" ? value.is_boolean()
           : type == "null"    ? value.is_null()
           : type == "integer" ? value.is_number_integer()
           : type == "number"  ? value.is_number()
                               : false;
  }

  const Json& root_;
};

}  // namespace assay::test
