// Builds the trie level by level from the sorted pieces.
#include "assay/text/piece_trie.h"

#include <limits>

#include "assay/base/error.h"

namespace assay {

PieceTrie::PieceTrie(std::vector<std::pair<std::string_view, TokenId>> pieces) : nodes_(1) {
  std::erase_if(pieces, [](const auto& piece) { return piece.first.empty(); });
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // The pieces that begin with the bytes of a node, from which its children are made.
  struct Range {
    std::size_t begin, end;
  };
  std::vector<Range> level{{0, pieces.size()}};
  for (std::size_t depth = 0, first = 0; !level.empty(); ++depth) {
    std::vector<Range> next;
    const std::size_t first_child = nodes_.size();
    for (std::size_t i = 0; i < level.size(); ++i) {
      auto [begin, end] = level[i];
      Node& node = nodes_[first + i];
      // A piece that ends here sorts before those that go on.
      for (; begin < end && pieces[begin].first.size() == depth; ++begin) node.id = pieces[begin].second;
      const std::size_t children_begin = first_child + next.size();
      while (begin < end) {
        const char byte = pieces[begin].first[depth];
        const std::size_t from = begin;
        while (begin < end && pieces[begin].first[depth] == byte) ++begin;
        next.push_back({from, begin});
      }
      if (first_child + next.size() > std::numeric_limits<std::uint32_t>::max())
        throw Error("vocabulary: expected pieces of at most 4 GiB together, found more");
      node.children_begin = static_cast<std::uint32_t>(children_begin);
      node.children = static_cast<std::uint16_t>(first_child + next.size() - children_begin);
    }
    first = first_child;
    nodes_.resize(first_child + next.size());
    for (std::size_t i = 0; i < next.size(); ++i)
      nodes_[first_child + i].byte = static_cast<std::uint8_t>(pieces[next[i].begin].first[depth]);
    level = std::move(next);
  }
  nodes_.shrink_to_fit();
}

std::optional<TokenId> PieceTrie::find(std::string_view text) const {
  std::uint32_t node = kRoot;
  for (const char c : text) {
    node = child(node, static_cast<unsigned char>(c));
    if (node == kRoot) return std::nullopt;
  }
  return nodes_[node].id >= 0 ? std::optional(nodes_[node].id) : std::nullopt;
}

}  // namespace assay
