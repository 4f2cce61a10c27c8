// Merges of a SentencePiece vocabulary: for gguf_tokenizer.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace assay {

// tokenizer.ggml.token_type.
enum class GgufTokenType { normal = 1, unknown, control, user_defined, unused, byte };

// The longest in use have some hundred bytes, and all of their parts are looked up.
inline constexpr std::size_t kLongestGgufToken = 4096, kLongestMerged = 1024;

struct GgufScoredToken {
  std::string_view text;
  double score = 0;
  bool is_merged = true;  // whether merges may give it
};
// The pairs of tokens (places in `tokens`) that join to a token, best score of it first, among equals the
// longest left one: the order that Transformers' converters give them.
std::vector<std::pair<std::size_t, std::size_t>> gguf_merges_of(std::span<const GgufScoredToken> tokens);

// Well-formed UTF-8 (Unicode 15, table 3-7).
bool is_utf8(std::string_view text);

}  // namespace assay
