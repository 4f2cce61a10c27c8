// What is done to text before it is cut into words: literal prefixes and replacements.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// `text` with every occurrence of `pattern` (not empty) replaced, from the left and without overlaps.
std::string replace_all(std::string_view text, std::string_view pattern, std::string_view content);

// The steps Prepend and Replace (of a string) of the `tokenizers` library, in the order of the file.
// SentencePiece-like tokenizers write blanks as U+2581 and put one before the text this way.
class Normalizer {
 public:
  // What a file asks for cannot exhaust memory: replacements make a text at most this many times as long, and
  // the prefixes have at most this many bytes together; nor can it ask for many passes over a text.
  static constexpr std::size_t kLargestGrowth = 4, kLongestPrefix = 16, kMostSteps = 8;

  // Both throw Error, naming `where`, when the pattern is empty or the bounds are exceeded.
  void prepend(const std::string& prefix, const std::string& where);
  void replace(const std::string& pattern, const std::string& content, const std::string& where);

  bool is_empty() const { return steps_.empty(); }
  // Empty text stays empty.
  std::string normalize(std::string_view text) const;

 private:
  struct Step {
    std::string pattern;  // empty: `content` goes before the text
    std::string content;
  };
  void add(Step step, const std::string& where);
  std::vector<Step> steps_;
  std::size_t growth_ = 1;
  std::size_t prefix_bytes_ = 0;
};

}  // namespace assay
