// Cuts text into the words that BPE works on: by the regular expressions of known models, or at blanks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace assay {

enum class CharClass : std::uint8_t {
  other,
  letter,  // \p{L}
  number,  // \p{N}
  space,   // \s, which is White_Space
};

CharClass char_class(char32_t code_point);

// \w as the `single_word` flag of added tokens means it: letters, marks, digits, connectors, joiners.
bool is_word_char(char32_t code_point);

// What the Punctuation pre-tokenizer splits at: ASCII's, and P* of the Unicode version that `tokenizers`
// knows.
bool is_punctuation(char32_t code_point);

// The regular expressions that are scanned by hand. The matches of each cover any text without gaps.
enum class WordPattern : std::uint8_t {
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  gpt2,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
  // \s+(?!\S)|\s+
  llama3,
  qwen2,  // llama3 with \p{N} instead of \p{N}{1,3}
};

// The pattern that a tokenizer file writes so; nothing for any other.
std::optional<WordPattern> word_pattern(std::string_view regex);

// Where the match that begins at `begin` (< text.size()) ends. `text` must be valid UTF-8.
std::size_t word_end(WordPattern pattern, std::string_view text, std::size_t begin);

// The Metaspace pre-tokenizer: blanks become `replacement`, and one goes before the text.
struct Metaspace {
  enum class Prepend : std::uint8_t {
    always,  // before every text between added tokens that does not begin with one
    first,   // only where the whole text begins
    never,
  };
  std::string replacement;  // one character
  Prepend prepend = Prepend::always;
  bool splits = true;  // each replacement begins a word

  std::string apply(std::string_view text, bool is_first) const;
};

// Where the word that begins at `begin` (< text.size()) ends when `mark` begins a new one. With
// `keeps_runs` only the first of several marks does.
std::size_t marked_word_end(std::string_view mark, bool keeps_runs, std::string_view text, std::size_t begin);

}  // namespace assay
