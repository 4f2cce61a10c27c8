// The text of tokens as they come: whole characters only.
#include "assay/text/tokenizer.h"
#include "assay/text/utf8.h"

namespace assay {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special, std::span<const TokenId> before)
    : tokenizer_(&tokenizer), skip_special_(skip_special) {
  for (const TokenId id : before) push(id);
  // The bytes held back are part of the text before as it ends there: characters, or what replaces them.
  DecodeState state = state_;
  std::string held = held_;
  tokenizer_->decode_end(state, held);
  shown_ = replace_malformed_utf8(held);
}

void StreamDecoder::leave_out_shown(std::string& text) {
  if (text.empty() || shown_.empty()) return;
  std::size_t same = 0;
  while (same < text.size() && same < shown_.size()) {
    const std::size_t length = read_utf8(text, same).length;
    if (text.compare(same, length, shown_, same, length) != 0) break;
    same += length;
  }
  text.erase(0, same);
  shown_.clear();
}

std::string StreamDecoder::push(TokenId id) {
  tokenizer_->decode_next(id, skip_special_, state_, held_);
  std::string out;
  held_.erase(0, append_replacing_malformed(out, held_));
  leave_out_shown(out);
  return out;
}

std::string StreamDecoder::finish() {
  tokenizer_->decode_end(state_, held_);
  std::string out = replace_malformed_utf8(held_);
  held_.clear();
  leave_out_shown(out);
  return out;
}

std::string Tokenizer::decode_after(std::span<const TokenId> before, std::span<const TokenId> ids,
                                    bool skip_special) const {
  StreamDecoder decoder(*this, skip_special, before);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text += decoder.finish();
}

}  // namespace assay
