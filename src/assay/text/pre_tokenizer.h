// Cuts the text between added tokens into the words that BPE works on, step by step, as the pre-tokenizers of
// the `tokenizers` library do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "assay/text/pretokenize.h"
#include "assay/text/regex.h"

namespace assay {

// What becomes of the matches of a Split: "a-b" cut at "-" gives
enum class SplitBehavior : std::uint8_t {
  removed,               // a b
  isolated,              // a - b
  merged_with_previous,  // a- b
  merged_with_next,      // a -b
  contiguous,            // as isolated, neighbouring matches together
};

// Characters that are matches, each by itself.
enum class CharSet : std::uint8_t {
  numbers,      // Nd, Nl and No
  punctuation,  // punctuation of ASCII, and P* of Unicode
  blanks,       // White_Space
};

// \w+|[^\w\s]+, the matches of the Whitespace pre-tokenizer.
struct WordsAndSymbols {};

class PatternFinder;  // added_tokens.h: the longest of some texts

struct SplitStep {
  // A WordPattern covers a text without gaps: there is nothing between its matches.
  std::variant<WordPattern, std::string, Regex, CharSet, WordsAndSymbols,
               std::shared_ptr<const PatternFinder>>
      matches;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool inverts = false;  // the matches are what is between, and the other way round
};

// GPT-2's byte alphabet, and before it the optional blank and GPT-2's expression.
struct ByteLevelStep {
  bool adds_prefix_space = false;  // before a piece that begins with none
  bool splits = true;
  bool maps = false;  // writes the words in the alphabet; else they stay bytes, for BPE on bytes
};

// So many characters to a piece; the last has what is left.
struct FixedLengthStep {
  std::size_t characters = 1;
};

// Texts that are made while one text is encoded. They stay where they are: words point into them.
class MadeTexts {
 public:
  explicit MadeTexts(std::size_t text_bytes) : most_bytes_(kAnyText + kMaxGrowth * text_bytes) {}

  // Throws Error where the steps of a tokenizer make more of the text than memory should hold.
  std::string_view keep(std::string text);

 private:
  // Steps in use make a text up to ten times as long, all together.
  static constexpr std::size_t kAnyText = std::size_t{1} << 16, kMaxGrowth = 64;
  std::deque<std::string> texts_;
  std::size_t bytes_ = 0, most_bytes_;
};

class PreTokenizer {
 public:
  static constexpr std::size_t kMaxSteps = 16;
  using Step = std::variant<SplitStep, Metaspace, ByteLevelStep, FixedLengthStep>;
  using OnWord = std::function<void(std::string_view)>;

  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  bool is_empty() const { return steps_.empty(); }
  // Calls `on_word` for each word of valid UTF-8 `text`, in order; none is empty. `is_first`: the whole text
  // begins here. Words are views of `text` or of what is kept in `made`. Throws Error where a pattern reaches
  // its limits.
  void cut(std::string_view text, bool is_first, MadeTexts& made, RegexBudget& budget,
           const OnWord& on_word) const;

 private:
  struct Work {
    MadeTexts& made;
    RegexBudget& budget;
    const OnWord& on_word;
  };
  void run(std::size_t step, std::string_view text, bool is_first, Work& work) const;

  std::vector<Step> steps_;
};

}  // namespace assay
