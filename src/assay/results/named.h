// Enumerations that files and people know by a name: one table says it all.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

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

}  // namespace assay
