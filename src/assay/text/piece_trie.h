// The pieces of a vocabulary that a text begins with: a trie of bytes, in one array.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/base/token_id.h"

namespace assay {

class PieceTrie {
 public:
  PieceTrie() : PieceTrie(std::vector<std::pair<std::string_view, TokenId>>()) {}
  // Empty pieces are left out; of equal ones the last stands. Takes 12 bytes for each byte of the pieces that
  // no other begins with too.
  explicit PieceTrie(std::vector<std::pair<std::string_view, TokenId>> pieces);

  // Calls `on_piece(length, id)` for each piece that `text` begins with, the shortest first.
  template <typename OnPiece>
  void for_each_prefix(std::string_view text, const OnPiece& on_piece) const {
    std::uint32_t node = kRoot;
    for (std::size_t at = 0; at < text.size(); ++at) {
      node = child(node, static_cast<unsigned char>(text[at]));
      if (node == kRoot) return;
      if (nodes_[node].id >= 0) on_piece(at + 1, nodes_[node].id);
    }
  }
  std::optional<TokenId> find(std::string_view text) const;

 private:
  static constexpr std::uint32_t kRoot = 0;
  struct Node {
    std::uint32_t children_begin = 0;  // they lie side by side, in the order of their bytes
    std::uint16_t children = 0;
    std::uint8_t byte = 0;
    TokenId id = -1;
  };

  // The root, which is nobody's child, where there is none.
  std::uint32_t child(std::uint32_t node, unsigned char byte) const {
    const Node* begin = nodes_.data() + nodes_[node].children_begin;
    const Node* end = begin + nodes_[node].children;
    const Node* found =
        std::lower_bound(begin, end, byte, [](const Node& a, unsigned char b) { return a.byte < b; });
    return found != end && found->byte == byte ? static_cast<std::uint32_t>(found - nodes_.data()) : kRoot;
  }

  std::vector<Node> nodes_;
};

}  // namespace assay
