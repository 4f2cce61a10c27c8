// From tokens to text, as the decoders of the `tokenizers` library do it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "assay/text/normalizer.h"
#include "assay/text/tokenizer.h"

namespace assay {

struct DecodeRules {
  enum class Kind : std::uint8_t {
    byte_level,  // tokens are written in GPT-2's byte alphabet
    metaspace,   // `mark` is a blank
    steps,       // a Sequence of Replace, ByteFallback, Fuse and Strip, in this order
  };
  Kind kind = Kind::byte_level;
  // For metaspace.
  std::string mark;
  bool drops_first_marks = true;  // those of the first token
  // Of steps.
  Normalizer replacements;   // within each token
  bool joins_bytes = false;  // a run of tokens <0xNN> is the bytes of characters
  std::string strip;         // one character, removed from the start of the whole text
  std::size_t most_stripped = 0;
};

class Decoder {
 public:
  // `tokens` are as the vocabulary writes them; the first `model_tokens` are the model's, the others were
  // added.
  Decoder(DecodeRules rules, std::vector<std::string> tokens, std::size_t model_tokens);

  // Appends the text of the token at `place` in that list, as far as it is known yet. With byte_level
  // that may be part of a character; the other kinds append whole ones.
  void push(std::size_t place, DecodeState& state, std::string& out) const;
  // What is left when no token follows.
  void finish(DecodeState& state, std::string& out) const;

 private:
  void end_run(DecodeState& state, std::string& out) const;
  void append(std::string_view text, DecodeState& state, std::string& out) const;

  DecodeRules rules_;
  std::vector<std::string> texts_;         // by place
  std::vector<std::string> first_texts_;   // likewise, of the first token where that differs
  std::vector<std::int16_t> byte_values_;  // by place, of <0xNN>; -1: an ordinary token
};

}  // namespace assay
