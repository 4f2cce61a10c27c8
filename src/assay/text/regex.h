// The regular expressions of tokenizer files, by Oniguruma (Kosako): the library, and the syntax, that
// `tokenizers` uses. libonig.so.5 is loaded when the first expression is compiled, so that a program that
// needs none runs where the library is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace assay {

// The processor time that the expressions of a tokenizer may take on one text: 10 s and 10 us for each byte,
// fifty times what those in use take. Of one thread.
class RegexBudget {
 public:
  explicit RegexBudget(std::size_t text_bytes, double least_seconds = 10);
  // Looks at the clock at every fourth call: a search is bounded by itself.
  bool is_spent();
  double seconds() const { return seconds_; }

 private:
  static constexpr unsigned kCallsPerLook = 4;
  double seconds_;
  std::optional<double> begin_;  // the thread's processor time, from the first call on
  unsigned calls_ = 0;
};

class Regex {
 public:
  static constexpr std::size_t kLongestPattern = 8192;  // bytes; the longest in use has 2,500
  // A place in a text where more alternatives than this fail is an error, as in `tokenizers`.
  static constexpr unsigned long kMaxRetries = 10'000'000;
  // Alternatives that one match may leave open; 40 bytes each. A run of a million letters needs a million.
  static constexpr unsigned kMaxOpenAlternatives = 4'000'000;

  // `pattern` is valid UTF-8. Throws Error, naming `where` and the pattern, when it is too long or Oniguruma
  // refuses it, and when Oniguruma is not installed.
  Regex(std::string_view pattern, std::string where);

  struct Match {
    std::size_t begin, end;  // bytes; equal where the match is empty
  };
  class Search;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;  // immutable
};

// The matches of an expression in a text, from left to right, as `tokenizers` finds them: none overlap, and
// none is empty where the one before ends. Characters are classified by Unicode 16, like there. `regex`,
// `text` (valid UTF-8) and `budget` must outlive it.
class Regex::Search {
 public:
  Search(const Regex& regex, std::string_view text, RegexBudget& budget);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // Nothing after the last. Throws Error, naming the file and the pattern, when the limits above are reached.
  std::optional<Match> next();

 private:
  struct State;
  [[noreturn]] void fail(int code) const;

  const Compiled& compiled_;
  std::string stand_in_;  // the text with characters of the same class where Oniguruma is too old for them
  std::string_view text_;
  RegexBudget& budget_;
  std::unique_ptr<State> state_;
  std::size_t at_ = 0;
  std::optional<std::size_t> last_end_;
};

// `text` with every character that Unicode 15, 15.1 and 16 added replaced by an older one of the same general
// category and length in UTF-8; nothing where it has none.
std::optional<std::string> with_older_characters(std::string_view text);

}  // namespace assay
