// Numbers in files that may be missing.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "assay/base/json_reader.h"

namespace assay {

inline nlohmann::ordered_json or_null(std::optional<double> number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json(nullptr);
}
// Earlier files may lack it.
inline std::optional<double> number_at(const JsonReader& json, const char* key) {
  return json.has(key) ? std::optional(json.at(key).number()) : std::nullopt;
}

}  // namespace assay
