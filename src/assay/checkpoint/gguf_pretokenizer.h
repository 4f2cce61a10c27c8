// How texts are cut into words, by tokenizer.ggml.pre: for gguf_tokenizer.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/json.h"

namespace assay {

// As the tokenizer.json has it that converters take a `pre` from; where they differ, llama.cpp's own regular
// expressions only approximate them.
// NOLINTNEXTLINE(bugprone-exception-escape): a Json that is null allocates nothing
struct GgufPretokenizer {
  Json pre_tokenizer = {};
  bool has_nfc = false;            // texts are normalized first
  bool takes_whole_words = false;  // words that are a token, whatever the merges say
  bool adds_bos = false;           // where the file has no key that says so
};

// False for an unknown name.
bool gguf_pretokenizer(std::string_view pre, GgufPretokenizer& out);
std::vector<std::string> gguf_pretokenizers();

// The way back: the first name whose steps these are, with these properties; nothing where there is none.
std::optional<std::string_view> gguf_pretokenizer_name(const std::vector<Json>& steps, bool has_nfc,
                                                       bool takes_whole_words);

}  // namespace assay
