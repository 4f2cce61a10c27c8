// TOML from files that people write, as JSON, which the same readers take.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace assay {

// A table as an object, its keys in the order of the text. A date or time, and a whole number in another base
// than ten (a mask of processors), become texts as they stand. Throws Error naming `file` and line for what
// is not TOML, a key that stands twice, or a number that is not finite.
nlohmann::ordered_json parse_toml(std::string_view text, const std::string& file);

// A file of keys and values: JSON where its first character is '{', else TOML. Throws Error naming the file
// where it cannot be read or parsed, is empty, or is a JSON text that is no object.
nlohmann::ordered_json read_toml_or_json(const std::string& file);
// The same of the text of such a file.
nlohmann::ordered_json parse_toml_or_json(std::string_view text, const std::string& file);

}  // namespace assay
