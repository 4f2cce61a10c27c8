// What is done to text before it is cut into words: literal prefixes and replacements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// `text` with every occurrence of `pattern` (not empty) replaced, from the left and without overlaps.
std::string replace_all(std::string_view text, std::string_view pattern, std::string_view content);

// `text`, valid UTF-8, in Unicode's normalization form C (Unicode Standard Annex 15): decomposed, marks in
// canonical order, composed. Time is n log n in the text, whatever marks it holds.
std::string to_nfc(std::string_view text);

// The steps Prepend, Replace (of a string) and NFC of the `tokenizers` library, in the order of the file.
// SentencePiece-like tokenizers write blanks as U+2581 and put one before the text this way; Qwen2 asks for
// NFC.
class Normalizer {
 public:
  // What a file asks for cannot exhaust memory: replacements make a text at most this many times as long, and
  // the prefixes have at most this many bytes together; nor can it ask for many passes over a text. NFC makes
  // a text at most 3 times as long, and what is in that form already no longer.
  static constexpr std::size_t kLargestGrowth = 4, kLongestPrefix = 16, kMostSteps = 8;

  // All throw Error, naming `where`, when a pattern is empty or the bounds are exceeded.
  void prepend(const std::string& prefix, const std::string& where);
  void replace(const std::string& pattern, const std::string& content, const std::string& where);
  void nfc(const std::string& where);

  bool is_empty() const { return steps_.empty(); }
  // Of valid UTF-8. Empty text stays empty.
  std::string normalize(std::string_view text) const;

 private:
  struct Step {
    enum class Kind : std::uint8_t { prepend, replace, nfc } kind;
    std::string pattern, content;
  };
  void add(Step step, const std::string& where);
  std::vector<Step> steps_;
  std::size_t growth_ = 1;
  std::size_t prefix_bytes_ = 0;
};

}  // namespace assay
