// JSON as Python's json module reads it, made JSON that the library reads.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/json.h"
#include "assay/base/strict_json.h"

namespace assay {

namespace {

class PythonText {
 public:
  explicit PythonText(std::string_view text) : text_(text) {}

  // The text with marks in place of what JSON does not have.
  std::string rewritten() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"')
        take_string();
      else if (c == '-' || is_word(c))
        take_word();
      else
        out_ += text_[at_++];
    }
    return std::move(out_);
  }

 private:
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '+' || c == '-';
  }

  // A string that begins with NUL gets one more, so that none is taken for a mark.
  void take_string() {
    out_ += text_[at_++];
    if (text_.substr(at_).starts_with("\\u0000")) out_ += "\\u0000";
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') {
        out_ += text_[at_++];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == 'u') {
        take_code_unit();
      } else {
        out_ += text_.substr(at_, 2);
        at_ = std::min(at_ + 2, text_.size());
      }
    }
    if (at_ < text_.size()) out_ += text_[at_++];
  }

  // The unit that "\uXXXX" at this place means; -1 where there is none.
  int code_unit(std::size_t at) const {
    if (at + 6 > text_.size() || text_[at] != '\\' || text_[at + 1] != 'u') return -1;
    int unit = 0;
    for (std::size_t i = at + 2; i < at + 6; ++i) {
      const auto c = static_cast<unsigned char>(text_[i]);
      if (std::isxdigit(c) == 0) return -1;
      unit = unit * 16 + (std::isdigit(c) != 0 ? c - '0' : (c | 32) - 'a' + 10);
    }
    return unit;
  }

  void take_code_unit() {
    const int unit = code_unit(at_);
    const bool is_high = unit >= 0xD800 && unit < 0xDC00, is_low = unit >= 0xDC00 && unit < 0xE000;
    const int next = is_high ? code_unit(at_ + 6) : -1;
    const bool is_pair = next >= 0xDC00 && next < 0xE000;
    const std::size_t length = unit < 0 ? 2 : is_pair ? 12 : 6;
    if (is_low || (is_high && !is_pair))
      out_ += "\\ufffd";
    else
      out_ += text_.substr(at_, length);
    at_ = std::min(at_ + length, text_.size());
  }

  void take_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (word == "NaN")
      out_ += R"("\u0000n")";
    else if (word == "Infinity" || (is_number(word) && std::strtod(word.c_str(), nullptr) == HUGE_VAL))
      out_ += R"("\u0000i")";
    else if (word == "-Infinity" || (is_number(word) && std::strtod(word.c_str(), nullptr) == -HUGE_VAL))
      out_ += R"("\u0000-")";
    else
      out_ += word;
  }

  // By the grammar of JSON, of a text that could be too large for a double.
  static bool is_number(const std::string& word) {
    std::size_t i = word[0] == '-' ? 1 : 0;
    const auto digits = [&] {
      const std::size_t first = i;
      while (i < word.size() && std::isdigit(static_cast<unsigned char>(word[i])) != 0) ++i;
      return i - first;
    };
    const bool begins_with_0 = i < word.size() && word[i] == '0';
    const std::size_t whole = digits();
    if (whole == 0 || (begins_with_0 && whole > 1)) return false;
    if (i < word.size() && word[i] == '.' && (++i, digits() == 0)) return false;
    const bool has_exponent = i < word.size() && (word[i] == 'e' || word[i] == 'E');
    if (has_exponent) {
      ++i;
      if (i < word.size() && (word[i] == '+' || word[i] == '-')) ++i;
      if (digits() == 0) return false;
    }
    return i == word.size() && (has_exponent || whole > 300);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

Json parse_python_json(std::string_view text, const std::string& where, std::size_t max_values) {
  const std::string rewritten = PythonText(text).rewritten();
  Json json;
  strict_json::Builder<Json> builder(json, where, {.values = max_values, .is_python = true});
  // Places in messages are those of the text itself, but where marks stand before them.
  strict_json::parse<Json>(rewritten, where, builder);
  if (!json.is_object()) throw Error("{}: expected a JSON object, found {}", where, json.type_name());
  return json;
}

Json read_python_json(const std::filesystem::path& path, std::uint64_t limit, std::size_t max_values) {
  return parse_python_json(read_text_file(path, limit), path.string(), max_values);
}

}  // namespace assay
