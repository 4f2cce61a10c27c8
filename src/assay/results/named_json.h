// Reading the names of enumerations from files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/format.h"
#include "assay/base/json_reader.h"

namespace assay {

// The entry of a name in a file. Throws Error with its path and the names that exist.
template <typename Info>
const Info& entry_at(std::span<const Info> table, const JsonReader& json) {
  const std::string name = json.text();
  for (const Info& info : table)
    if (info.name == name) return info;
  std::vector<std::string_view> names;
  for (const Info& info : table) names.push_back(info.name);
  json.refuse(fmt::format("one of {}", fmt::join(names, ", ")));
}

}  // namespace assay
