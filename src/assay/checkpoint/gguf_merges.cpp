#include "assay/checkpoint/gguf_merges.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <unordered_map>

namespace assay {

namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

bool begins_character(std::string_view text, std::size_t i) {
  return (byte_at(text, i) & 0xC0U) != 0x80U;
}

std::size_t characters_of(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) count += begins_character(text, i) ? 1 : 0;
  return count;
}

// Bytes of the character that begins at `i`; 0 where they are none.
std::size_t length_at(std::string_view text, std::size_t i) {
  const unsigned first = byte_at(text, i);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k)
    if (begins_character(text, i + k)) return 0;
  const unsigned second = length > 1 ? byte_at(text, i + 1) : 0;
  const bool is_bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return is_bad ? 0 : length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = length_at(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::vector<std::pair<std::size_t, std::size_t>> gguf_merges_of(std::span<const GgufScoredToken> tokens) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < tokens.size(); ++i) places.emplace(tokens[i].text, i);
  struct Merge {
    double score;
    std::size_t left_length, right_length, merged, left, right;
  };
  std::vector<Merge> merges;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view text = tokens[i].text;
    if (!tokens[i].is_merged || text.size() > kLongestMerged) continue;
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (!begins_character(text, at)) continue;
      const auto left = places.find(text.substr(0, at)), right = places.find(text.substr(at));
      if (left == places.end() || right == places.end()) continue;
      merges.push_back({tokens[i].score, characters_of(text.substr(0, at)), characters_of(text.substr(at)), i,
                        left->second, right->second});
    }
  }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(b.score, b.left_length, b.right_length, a.merged, a.left, a.right) <
           std::tuple(a.score, a.left_length, a.right_length, b.merged, b.left, b.right);
  });
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (const Merge& merge : merges) pairs.emplace_back(merge.left, merge.right);
  return pairs;
}

}  // namespace assay
