// The wire format of protocol buffers, by hand: every length is checked against the bytes that are left.
#include "assay/text/sentencepiece_model.h"

#include <bit>
#include <cmath>
#include <utility>

#include "assay/base/error.h"
#include "assay/text/tokenizer.h"
#include "assay/text/vocabulary.h"

namespace assay {

namespace {

// The fields of a message, one after another.
class Message {
 public:
  Message(std::string_view bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  // Moves to the next field; false behind the last.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const std::uint64_t tag = varint();
    number_ = tag >> 3;
    wire_ = static_cast<unsigned>(tag & 7);
    switch (wire_) {
      case 0:
        value_ = varint();
        break;
      case 1:
        content_ = take(8);
        break;
      case 2:
        content_ = take(varint());
        break;
      case 5:
        content_ = take(4);
        break;
      default:
        fail();
    }
    return true;
  }

  std::uint64_t number() const { return number_; }
  std::uint64_t whole() const { return expect(0), value_; }
  std::int32_t id() const {
    const auto value = static_cast<std::int64_t>(whole());
    if (value < -1 || value > Vocabulary::kMaxId)
      throw Error("{}: field {}: expected an id from -1 to {}, found {}", where_, number_, Vocabulary::kMaxId,
                  value);
    return static_cast<std::int32_t>(value);
  }
  std::string_view content() const { return expect(2), content_; }
  Message message(std::string name) const { return {content(), where_ + ": " + std::move(name)}; }
  std::string text() const {
    check_utf8(content(), fmt::format("{}: field {}", where_, number_));
    return std::string(content_);
  }
  float number32() const {
    expect(5);
    std::uint32_t bits = 0;
    for (std::size_t i = 4; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(content_[i]);
    return std::bit_cast<float>(bits);
  }
  const std::string& where() const { return where_; }

 private:
  [[noreturn]] void fail() const {
    throw Error("{}: not a SentencePiece model: no field can stand at byte {} of {}", where_, at_,
                bytes_.size());
  }
  void expect(unsigned wire) const {
    if (wire_ != wire) fail();
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) fail();
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    fail();
  }
  std::string_view take(std::uint64_t length) {
    if (length > bytes_.size() - at_) fail();
    const std::string_view content = bytes_.substr(at_, static_cast<std::size_t>(length));
    at_ += content.size();
    return content;
  }

  std::string_view bytes_, content_;
  std::string where_;
  std::size_t at_ = 0;
  std::uint64_t number_ = 0, value_ = 0;
  unsigned wire_ = 0;
};

SentencePieceModel::Piece read_piece(Message message) {
  SentencePieceModel::Piece piece;
  while (message.next()) {
    if (message.number() == 1) piece.text = message.text();
    if (message.number() == 2) piece.score = message.number32();
    if (message.number() == 3) {
      const std::uint64_t type = message.whole();
      if (type < 1 || type > 6)
        throw Error("{}: type of {}: expected 1 to 6, found {}", message.where(), in_quotes(piece.text),
                    type);
      piece.type = static_cast<SentencePieceModel::PieceType>(type);
    }
  }
  if (piece.text.empty()) throw Error("{}: expected its text, found none", message.where());
  if (!std::isfinite(piece.score))
    throw Error("{}: score of {}: expected a finite number, found {}", message.where(), in_quotes(piece.text),
                piece.score);
  return piece;
}

void read_trainer(Message message, SentencePieceModel& model) {
  while (message.next()) {
    switch (message.number()) {
      case 3: {
        const std::uint64_t kind = message.whole();
        if (kind != 1 && kind != 2)
          throw Error("{}: model_type: expected 1 (Unigram) or 2 (BPE), found {}", message.where(), kind);
        model.kind = static_cast<SentencePieceModel::Kind>(kind);
        break;
      }
      case 35:
        model.byte_fallback = message.whole() != 0;
        break;
      case 40:
        model.unknown_id = message.id();
        break;
      case 41:
        model.bos_id = message.id();
        break;
      case 42:
        model.eos_id = message.id();
        break;
      case 45:
        model.unknown_piece = message.text();
        break;
      case 46:
        model.bos_piece = message.text();
        break;
      case 47:
        model.eos_piece = message.text();
        break;
      default:
        break;
    }
  }
}

void read_normalizer_spec(Message message, SentencePieceModel& model) {
  while (message.next()) {
    if (message.number() == 2) model.charsmap = message.content();
    if (message.number() == 3) model.adds_dummy_prefix = message.whole() != 0;
    if (message.number() == 4) model.removes_extra_blanks = message.whole() != 0;
    if (message.number() == 5) model.escapes_blanks = message.whole() != 0;
  }
}

}  // namespace

SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& where) {
  SentencePieceModel model;
  Message message(bytes, where);
  while (message.next()) {
    if (message.number() == 1) {
      if (model.pieces.size() == Vocabulary::kMaxTokens)
        throw Error("{}: expected at most {} pieces, found more", where, Vocabulary::kMaxTokens);
      model.pieces.push_back(read_piece(message.message("piece")));
    }
    if (message.number() == 2) read_trainer(message.message("trainer_spec"), model);
    if (message.number() == 3) read_normalizer_spec(message.message("normalizer_spec"), model);
  }
  if (model.pieces.empty()) throw Error("{}: not a SentencePiece model: it holds no pieces", where);
  return model;
}

}  // namespace assay
