// What Python's str does with blanks, words and letters: lm-eval counts and cuts texts with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

// str.isspace() of one character, which is what \s is in Python's re.
bool is_python_space(char32_t character);
// len(re.split(r"\s+", text)): empty words at both ends count. The text is valid UTF-8, here and below.
std::int64_t count_words(std::string_view text);
// len(text).
std::int64_t count_characters(std::string_view text);
// text.strip() and text.rstrip().
std::string_view stripped(std::string_view text);
std::string_view right_stripped(std::string_view text);
// text.capitalize(), but for the few letters whose capital is two characters, which stay (U+00DF).
std::string capitalized(std::string_view text);

}  // namespace assay
