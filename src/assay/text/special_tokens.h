// The tokens that the files beside a vocabulary add and name, as Transformers 5 reads them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/text/tokenizer_spec.h"

namespace assay {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// The keys and tokens that a class of Transformers has where its files name none: "bos_token" and "<s>".
using NamedTokens = std::vector<std::pair<std::string_view, std::string>>;

// Adds to `spec` what tokenizer_config.json, added_tokens.json and special_tokens_map.json add: the tokens of
// `added_tokens_decoder`, or where there is no such key those of the two other files; then special tokens
// that a key names (bos_token, image_token, ...) and the lists of further ones. Sets the end of text, what
// `split_special_tokens` asks for, and, unless tokenizer.json says so itself, the tokens around a text
// (`add_bos_token`, `add_eos_token`). Throws Error naming the file for what is no token.
void read_special_tokens(const TokenizerFiles& files, const NamedTokens& defaults, TokenizerSpec& spec);

}  // namespace assay
