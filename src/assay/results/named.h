// Enumerations that files and people know by a name: one table says it all.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/json_reader.h"

namespace assay {

// What a table says of a value. `name` is its form in files and stays; `title` heads a section or a column,
// `text` says what it means. Tables are in the order of their enumeration (tests check that).
template <typename Enum>
struct Named {
  Enum value;
  std::string_view name, title, text;
};

template <typename Info, typename Enum>
const Info& entry_of(std::span<const Info> table, Enum value) {
  return table[static_cast<std::size_t>(value)];
}

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
