// The text of tokens as they come: whole characters only.
#include "assay/text/tokenizer.h"
#include "assay/text/utf8.h"

namespace assay {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(&tokenizer), skip_special_(skip_special) {}

std::string StreamDecoder::push(TokenId id) {
  tokenizer_->decode_next(id, skip_special_, state_, held_);
  std::string out;
  held_.erase(0, append_replacing_malformed(out, held_));
  return out;
}

std::string StreamDecoder::finish() {
  tokenizer_->decode_end(state_, held_);
  const std::string out = replace_malformed_utf8(held_);
  held_.clear();
  return out;
}

}  // namespace assay
