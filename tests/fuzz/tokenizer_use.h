// What a tokenizer that was loaded is asked, and what its header promises.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "assay/text/tokenizer.h"
#include "fuzz.h"

namespace assay::fuzz {

inline constexpr std::size_t kMostText = 200;
inline constexpr const char* kAnyText =
    "Hello  world's 123 \n\t caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80 <s>x</s> e\xcc\x81 "
    "\xea\xb0\x80";

inline bool is_utf8(std::string_view text) {
  return is_accepted([&] { check_utf8(text, "text"); });
}

inline std::string streamed(StreamDecoder decoder, std::span<const TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  text += decoder.finish();
  expect(is_utf8(text), "the pieces of a stream are not valid UTF-8");
  return text;
}

inline void decode_all(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  const auto before = ids.first(ids.size() / 2), after = ids.subspan(ids.size() / 2);
  for (const bool skips_special : {false, true}) {
    const std::string whole = tokenizer.decode(ids, skips_special);
    expect(!is_utf8(whole) || streamed(StreamDecoder(tokenizer, skips_special), ids) == whole,
           "the pieces of a stream do not join to what decode gives");
    expect(streamed(StreamDecoder(tokenizer, skips_special, before), after) ==
               tokenizer.decode_after(before, after, skips_special),
           "the pieces of a stream do not join to what decode_after gives");
  }
}

inline void use(const Tokenizer& tokenizer, std::string_view given) {
  const std::string text =
      replace_malformed_utf8(given.empty() ? std::string_view(kAnyText) : given.substr(0, kMostText));
  for (const TokenId id : {0, 1, 5}) {
    tokenizer.token_text(id);
    tokenizer.is_special(id);
  }
  for (const bool adds_special : {true, false})
    is_accepted([&] { decode_all(tokenizer, tokenizer.encode(text, adds_special)); });
  std::vector<TokenId> ids;
  const std::int64_t most = std::clamp<std::int64_t>(tokenizer.vocab_size(), 1, 1 << 20);
  for (std::int64_t i = 0; i < 40; ++i) ids.push_back(static_cast<TokenId>(i * 7919 % most));
  is_accepted([&] { decode_all(tokenizer, ids); });
}

}  // namespace assay::fuzz
