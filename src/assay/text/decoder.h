// From tokens to text, as the decoders of the `tokenizers` library do it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/text/tokenizer.h"

namespace assay {

// What is done to each token by itself.
struct DecodeStep {
  enum class Kind : std::uint8_t {
    replace,     // every `pattern` becomes `content`
    marks,       // every `pattern` becomes a blank; those of the first token go where `is_first_special`
    word_piece,  // `pattern` goes from the start of a token, which else gets a blank, but not the first one
    spaces,      // a blank before each token but the first
    suffix,      // every `pattern` becomes a blank; those of the last token go
    strip,       // up to `at_start` and `at_end` of the one character `pattern` go
  };
  Kind kind = Kind::replace;
  std::string pattern = {}, content = {};
  bool is_first_special = true;
  bool cleans_up = false;  // for word_piece: no blanks before punctuation and in English contractions
  std::size_t at_start = 0, at_end = 0;

  std::string apply(std::string_view token, bool is_first, bool is_last) const;
};

struct DecodeRules {
  // Tokens are written in GPT-2's byte alphabet; nothing else is done then.
  bool is_byte_level = true;
  std::vector<DecodeStep> before;  // to tokens
  bool joins_bytes = false;        // then a run of tokens <0xNN> is one: the bytes of characters
  std::vector<DecodeStep> after;   // then to what tokens are now
  DecodeStep ends = {DecodeStep::Kind::strip, {}, {}, false, false, 0, 0};  // then to the whole text: a strip
};

class Decoder {
 public:
  // `tokens` are as the vocabulary writes them; the first `model_tokens` are the model's, the others were
  // added.
  Decoder(DecodeRules rules, std::vector<std::string> tokens, std::size_t model_tokens);

  // Appends the text of the token at `place` in that list, as far as it is known yet. With the byte alphabet
  // that may be part of a character; else whole ones are appended.
  void push(std::size_t place, DecodeState& state, std::string& out) const;
  // What is left when no token follows.
  void finish(DecodeState& state, std::string& out) const;

 private:
  void end_run(DecodeState& state, std::string& out) const;
  void append(std::string_view text, DecodeState& state, std::string& out) const;
  // A token, or what a run of bytes is, after the steps that follow.
  std::string after(std::string text, bool is_first) const;

  // Texts by place, and the byte that <0xNN> stands for, -1 for an ordinary token.
  struct Texts {
    std::vector<std::string> texts;
    std::vector<std::int16_t> byte_values;
  };
  Texts texts_of(const std::vector<std::string>& tokens, bool is_first, bool is_last) const;
  void push_text(const Texts& texts, const Texts& last_texts, std::size_t place, DecodeState& state,
                 std::string& out) const;

  DecodeRules rules_;
  Texts texts_;
  // Those of the first token, of the last one, and of one that is both, where they may differ; else empty.
  Texts first_texts_, last_texts_, only_texts_;
};

}  // namespace assay
