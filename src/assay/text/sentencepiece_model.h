// Reads SentencePiece's tokenizer.model: the fields of its protobuf message that tokenizers follow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// As sentencepiece_model.proto numbers them; fields that a file leaves out have these values.
struct SentencePieceModel {
  enum class PieceType : std::uint8_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
  };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
  };
  std::vector<Piece> pieces;  // by id

  enum class Kind : std::uint8_t { unigram = 1, bpe = 2 };
  Kind kind = Kind::unigram;
  bool byte_fallback = false;
  std::int32_t unknown_id = 0, bos_id = 1, eos_id = 2;  // -1: none
  std::string unknown_piece = "<unk>", bos_piece = "<s>", eos_piece = "</s>";

  std::string charsmap;  // precompiled; empty: characters stay as they are
  bool adds_dummy_prefix = true, removes_extra_blanks = true, escapes_blanks = true;
};

// Throws Error naming `where` for bytes that are no such model, for a model of words or characters, and for
// pieces that are too many, no valid UTF-8 or whose score is not a number.
SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& where);

}  // namespace assay
