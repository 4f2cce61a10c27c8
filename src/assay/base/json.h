// JSON from untrusted files: nlohmann/json behind a depth limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "assay/base/json_view.h"

namespace assay {

inline constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

// Parses `text`; `where` names the file in errors. Throws Error on bad JSON, nesting beyond 64, duplicate
// keys within one object, a top level that is not an object, or more than `max_values` numbers, texts, arrays
// and objects: one of two bytes in the text can take a hundred in memory.
Json parse_json_object(std::string_view text, const std::string& where, std::size_t max_values = kAnyNumber);
// A file of at most `limit` bytes; a longer one is an Error before it is read.
Json read_json_object(const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{256} << 20,
                      std::size_t max_values = kAnyNumber);

// The same, of files that Python's json module wrote or reads, such as config.json: NaN, Infinity and numbers
// that no double holds are read, of equal keys the last counts, and half a surrogate pair becomes U+FFFD.
Json parse_python_json(std::string_view text, const std::string& where, std::size_t max_values = kAnyNumber);
Json read_python_json(const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{256} << 20,
                      std::size_t max_values = kAnyNumber);

// The same, entry by entry in the order of the text: none is kept, and `max_values` bounds each by itself.
void parse_json_entries(std::string_view text, const std::string& where, std::size_t max_values,
                        const std::function<void(const std::string& key, const Json& value)>& on_entry);

// What a file has, for messages, as Python writes it: JSON has no word for NaN and Infinity.
std::string shown_value(const Json& value, std::size_t longest = 80);

}  // namespace assay
