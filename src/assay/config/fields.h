// The table of the configuration's fields, from which come flags, help, JSON, configuration files, labels,
// keys and validation. A new option is a member of RunConfig and an entry here.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/config/run_config.h"

namespace assay {

// What a field's value is in JSON: a text, a whole number, a number, true, a list of texts, or an object,
// which parse() and print() have as JSON.
enum class FieldKind { text, whole, real, on, list, object };

struct Field {
  std::string_view key;              // "llm_int8_threshold": in JSON and configuration files
  std::string_view short_flag = {};  // "-t"
  std::string_view help = {};        // its default in brackets
  FieldKind kind = FieldKind::text;
  std::string_view unset = {};    // the text that leaves it unset: "auto"
  std::string_view implied = {};  // what its flag means without a value
  bool has_flag = true;
  std::string_view group = {};    // heading of its flag in a help text
  bool is_about_numbers = false;  // it changes how results are computed

  // The values as parse() reads them, one but for lists; none where the field is not set.
  std::function<std::vector<std::string>(const RunConfig&)> print = {};
  // Sets it, or adds to a list. Throws FieldError for what it does not allow.
  std::function<void(RunConfig&, std::string_view)> parse = {};
  // What stands for a value in keys, where the value itself is long.
  std::function<std::string(const RunConfig&)> identity = {};
  std::function<void(RunConfig&)> clear = {};
  std::function<void(const RunConfig&)> check = {};  // throws FieldError for a value out of range
  // "dtype bfloat16", behind a comma unless it begins with "+" or a space; empty where there is nothing to
  // say.
  std::function<std::string(const RunConfig&)> label = {};
  // Whether a precision takes it, where not all do, and the change that it makes.
  std::function<bool(const Precision&)> applies = {};
  std::function<void(Precision&, const RunConfig&)> apply = {};

  bool is_set(const RunConfig& config) const { return !print(config).empty(); }
};

// In the order in which they change a precision.
std::span<const Field> fields();
// Throws std::out_of_range for a key that is none.
const Field& field(std::string_view key);
// "--llm-int8-threshold" of "llm_int8_threshold".
std::string flag_of(std::string_view key);

}  // namespace assay
