// Finds the parts of each piece by rolling hashes, so that time grows with the pieces and not with their
// square.
#include "assay/base/piece_merges.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "assay/base/error.h"

namespace assay {

namespace {

// Polynomials modulo the prime 2^61 - 1 (Karp and Rabin 1987).
constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1, kBase = 0x1234567'89ABCDEFULL % kPrime;

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  const auto sum = static_cast<std::uint64_t>(product & kPrime) + static_cast<std::uint64_t>(product >> 61);
  return sum >= kPrime ? sum - kPrime : sum;
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  return a + b >= kPrime ? a + b - kPrime : a + b;
}

// A piece is taken for a text by its hash first, then byte by byte.
class PieceIndex {
 public:
  explicit PieceIndex(std::span<const std::string> pieces) : pieces_(pieces) {
    std::size_t longest = 0;
    for (const std::string& piece : pieces) {
      longest = std::max(longest, piece.size());
      bytes_ += piece.size();
    }
    powers_.resize(longest + 1, 1);
    for (std::size_t i = 1; i <= longest; ++i) powers_[i] = times(powers_[i - 1], kBase);
    places_.reserve(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) last_.push_back(i);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto [found, is_new] = places_.emplace(hashes_of(pieces[i]).back(), i);
      if (!is_new && pieces[found->second] == pieces[i]) {
        last_[found->second] = i;
        last_[i] = kRepeats;
      }
    }
  }

  // Whether the piece stands first here; its score is that of place last_of().
  bool is_first(std::size_t place) const { return last_[place] != kRepeats; }
  std::size_t last_of(std::size_t place) const { return last_[place]; }

  // Calls `on_split` with the places of each two pieces that join to the piece.
  template <typename OnSplit>
  void split(std::size_t place, const OnSplit& on_split) {
    const std::string_view piece = pieces_[place];
    const std::vector<std::uint64_t>& hashes = hashes_of(piece);
    for (std::size_t at = 1; at < piece.size(); ++at) {
      const auto left = places_.find(hashes[at]);
      if (left == places_.end()) continue;
      const std::uint64_t before = times(hashes[at], powers_[piece.size() - at]);
      const auto right = places_.find(plus(hashes[piece.size()], kPrime - before));
      if (right == places_.end()) continue;
      count(piece.size());
      if (pieces_[left->second] == piece.substr(0, at) && pieces_[right->second] == piece.substr(at))
        on_split(left->second, right->second);
    }
  }

 private:
  static constexpr std::size_t kRepeats = ~std::size_t{0};

  const std::vector<std::uint64_t>& hashes_of(std::string_view text) {
    hashes_.resize(1, 0);
    for (const char c : text)
      hashes_.push_back(plus(times(hashes_.back(), kBase), std::uint64_t{static_cast<unsigned char>(c)} + 1));
    return hashes_;
  }

  // A vocabulary of "a", "aa", "aaa" and so on would otherwise make merges of the square of its size.
  void count(std::size_t bytes) {
    constexpr std::size_t kAnyVocabulary = std::size_t{16} << 20, kMostGrowth = 16;
    merged_ += bytes;
    if (merged_ > kAnyVocabulary + kMostGrowth * bytes_)
      throw Error("merges of {} pieces: expected at most {} bytes, {} times the pieces, found more",
                  pieces_.size(), kAnyVocabulary + kMostGrowth * bytes_, kMostGrowth);
  }

  std::span<const std::string> pieces_;
  std::vector<std::uint64_t> powers_, hashes_;
  std::unordered_map<std::uint64_t, std::size_t> places_;
  std::vector<std::size_t> last_;
  std::size_t bytes_ = 0, merged_ = 0;
};

// Places of pieces, and the lengths of the parts in characters.
struct Split {
  std::size_t whole, left, right;
  std::size_t left_length, right_length;
};

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::vector<Split> all_splits(PieceIndex& index, std::span<const std::string> pieces) {
  std::vector<Split> splits;
  for (std::size_t place = 0; place < pieces.size(); ++place)
    if (index.is_first(place))
      index.split(place, [&](std::size_t left, std::size_t right) {
        splits.push_back({place, left, right, characters(pieces[left]), characters(pieces[right])});
      });
  return splits;
}

// The merges in the order of `key`, a tuple of a Split.
template <typename Key>
PieceMerges in_order_of(std::vector<Split> splits, std::span<const std::string> pieces, const Key& key) {
  std::stable_sort(splits.begin(), splits.end(),
                   [&](const Split& a, const Split& b) { return key(a) < key(b); });
  PieceMerges merges;
  merges.reserve(splits.size());
  for (const Split& split : splits) merges.emplace_back(pieces[split.left], pieces[split.right]);
  return merges;
}

void check_scores(std::span<const std::string> pieces, std::span<const float> scores) {
  if (pieces.size() != scores.size())
    throw Error("scores of pieces: expected {}, one for each piece, found {}", pieces.size(), scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (std::isnan(scores[i])) throw Error("scores of pieces: expected a number at {}, found NaN", i);
}

}  // namespace

PieceMerges merges_from_scores(std::span<const std::string> pieces, std::span<const float> scores) {
  check_scores(pieces, scores);
  PieceIndex index(pieces);
  return in_order_of(all_splits(index, pieces), pieces, [&](const Split& split) {
    return std::tuple(-scores[index.last_of(split.whole)], ~split.left_length, ~split.right_length,
                      split.whole);
  });
}

PieceMerges merges_from_order(std::span<const std::string> pieces) {
  PieceIndex index(pieces);
  return in_order_of(all_splits(index, pieces), pieces, [&](const Split& split) {
    return std::tuple(index.last_of(split.whole), split.left_length);
  });
}

PieceMerges merges_as_ranked(std::span<const std::string> pieces, std::span<const float> scores) {
  check_scores(pieces, scores);
  PieceIndex index(pieces);
  return in_order_of(all_splits(index, pieces), pieces, [&](const Split& split) {
    return std::tuple(-scores[index.last_of(split.whole)], index.last_of(split.whole), split.left_length);
  });
}

}  // namespace assay
