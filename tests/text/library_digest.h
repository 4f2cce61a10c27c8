// Texts of the fixtures, and digests of what a tokenizer makes of them, as tools/make_tokenizer_fixtures.py
// takes them of the library.
#pragma once

#include <bit>
#include <span>
#include <string>

#include "assay/base/sha256.h"
#include "assay/text/tokenizer.h"
#include "assay/text/utf8.h"
#include "small_tokenizer.h"

namespace assay {

// Adds the ids of a text and the text of the ids.
inline void add_digested(Sha256& sha, const Tokenizer& tokenizer, const std::string& text) {
  static_assert(std::endian::native == std::endian::little);
  const Ids ids = tokenizer.encode(text);
  const std::string decoded = replace_malformed_utf8(tokenizer.decode(ids));
  sha.update(std::as_bytes(std::span(ids)));
  sha.update(std::as_bytes(std::span(decoded)));
}

// Every code point of a block behind a letter, a digit and a blank.
inline std::string text_of_block(const Json& block) {
  std::string text;
  for (char32_t c = block.at("first"); c <= block.at("last").get<char32_t>(); ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    for (const char* before : {"a", "1", " "}) {
      text += before;
      append_utf8(text, c);
    }
  }
  return text;
}

}  // namespace assay
