// What is done to text before it is cut into words, as the normalizers of the `tokenizers` library do it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/text/charsmap.h"
#include "assay/text/regex.h"

namespace assay {

// `text` with every occurrence of `pattern` (not empty) replaced, from the left and without overlaps.
std::string replace_all(std::string_view text, std::string_view pattern, std::string_view content);

// Unicode's normalization forms (Unicode Standard Annex 15).
enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

// `text`, valid UTF-8, in the form: decomposed, marks in canonical order, and for NFC and NFKC composed. Time
// is n log n in the text, whatever marks it holds.
std::string to_normal_form(std::string_view text, NormalForm form);

// Character by character, as Rust's char::to_lowercase: no form depends on what is around.
std::string to_lower_case(std::string_view text);
// Without combining marks, as `tokenizers` knows them: those of Unicode 9.
std::string without_marks(std::string_view text);

// What BERT does to a text, in this order.
struct BertText {
  bool cleans = true;          // control characters go, and every white space becomes a blank
  bool parts_chinese = true;   // a blank before and after each Chinese character
  bool strips_accents = true;  // decomposes, and removes the marks that take no room
  bool lowers_case = true;
};
std::string to_bert_text(std::string_view text, const BertText& how);

// As SentencePiece's normalizer nmt_nfkc prepares a text for machine translation: control characters go, and
// other white space, joiners and the replacement character become blanks.
std::string to_nmt_text(std::string_view text);

// The steps of the `tokenizers` library, in the order of the file. SentencePiece-like tokenizers write blanks
// as U+2581 and put one before the text this way; Qwen2 asks for NFC.
class Normalizer {
 public:
  // What a file asks for cannot exhaust memory: one step with replacements makes a text at most this many
  // times as long, and the prefixes have at most this many bytes together; nor can it ask for many passes
  // over a text. A normal form makes a text at most 11 times as long, and what is in that form already no
  // longer. All steps together make a text at most kMaxTotalGrowth times as long, or kAnyText bytes where it
  // is short.
  static constexpr std::size_t kMaxGrowth = 4, kLongestPrefix = 16, kMaxSteps = 8;
  static constexpr std::size_t kMaxTotalGrowth = kMaxGrowth * 11, kAnyText = 256;

  // All throw Error, naming `where`, when a pattern is empty or the bounds are exceeded.
  void prepend(const std::string& prefix, const std::string& where);
  void replace(const std::string& pattern, const std::string& content, const std::string& where);
  // How long that makes a text depends on the text, and is checked when it does.
  void replace(Regex pattern, const std::string& content, const std::string& where);
  void form(NormalForm form, const std::string& where);
  void lower_case(const std::string& where);
  void strip_marks(const std::string& where);
  void strip_blanks(bool left, bool right, const std::string& where);
  void map_characters(Charsmap map, const std::string& where);
  void bert(const BertText& how, const std::string& where);
  void nmt(const std::string& where);
  // Writes the text in GPT-2's byte alphabet.
  void to_bytes(const std::string& where);
  // Blanks (U+0020 alone) at both ends go, and several are one, as SentencePiece does it.
  void single_blanks(const std::string& where);
  // A text that begins with `mark` gets another.
  void double_first(const std::string& mark, const std::string& where);

  bool is_empty() const { return steps_.empty(); }
  // The form of valid UTF-8. Empty text stays empty. Throws Error where a regular expression reaches its
  // limits, or the steps together make the text too long.
  std::string normalize(std::string_view text, RegexBudget& budget) const;
  std::string normalize(std::string_view text) const;  // with a budget of its own

  // Whether it writes texts in GPT-2's byte alphabet.
  bool maps_bytes() const;

 private:
  struct Step {
    enum class Kind : std::uint8_t {
      prepend,
      replace,
      replace_regex,
      form,
      lower_case,
      strip_marks,
      strip_blanks,
      map_characters,
      bert,
      nmt,
      bytes,
      single_blanks,
      double_first
    };
    Kind kind;
    std::string pattern, content;
    std::optional<Regex> regex;
    std::string where;
    NormalForm form = NormalForm::nfc;
    bool strips_left = false, strips_right = false;
    std::optional<Charsmap> map;
    BertText bert_text;
  };
  static std::string apply(const Step& step, std::string text, RegexBudget& budget);
  Step& add(Step::Kind kind, const std::string& where);
  std::vector<Step> steps_;
  std::size_t growth_ = 1;
  std::size_t prefix_bytes_ = 0;
};

}  // namespace assay
