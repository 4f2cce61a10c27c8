// Merges by scanning in short words and by a heap over a linked list in long ones; both give the same ids.
#include "assay/text/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "assay/base/error.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

// Scanning all ranks after each merge is quadratic, and faster than the heap up to about here.
constexpr std::size_t kShortWord = 32;
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

std::uint64_t hash_word(std::string_view word) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;
  std::uint64_t hash = word.size() * kOdd;
  const auto mix = [&](std::uint64_t value) { hash = std::rotl((hash ^ value) * kOdd, 29); };
  const auto load = [&]<typename T>(std::size_t at, T value) {
    std::memcpy(&value, word.data() + at, sizeof value);
    mix(value);
  };
  if (word.size() >= 8) {
    for (std::size_t at = 0; at + 8 < word.size(); at += 8) load(at, std::uint64_t{});
    load(word.size() - 8, std::uint64_t{});
  } else if (word.size() >= 4) {
    load(0, std::uint32_t{});
    load(word.size() - 4, std::uint32_t{});
  } else {
    for (const char c : word) mix(static_cast<unsigned char>(c));
  }
  return hash ^ hash >> 32;
}

}  // namespace

Bpe::Bpe(BpeRules rules) : rules_(std::move(rules)), merges_(rules_.merges.size()) {
  std::uint32_t rank = 0;
  for (const MergeRule& rule : rules_.merges)
    merges_.set(static_cast<std::uint32_t>(rule.left), static_cast<std::uint32_t>(rule.right),
                {rank++, rule.merged});
  rules_.merges = {};
}

std::optional<Bpe::Merge> Bpe::merge_of(TokenId left, TokenId right) const {
  const Merge* merge = merges_.find(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right));
  return merge == nullptr ? std::nullopt : std::optional(*merge);
}

template <typename Sink>
void Bpe::start_characters(std::string_view word, const Sink& sink) const {
  // An unknown token is held back until the next character with a token of its own, also where byte tokens
  // come between: so does the `tokenizers` library.
  bool holds_unknown = false;
  std::size_t length = 0;
  for (std::size_t at = 0; at < word.size(); at += length) {
    const char32_t character = read_valid_utf8(word, at, length);
    const bool has_prefix = at > 0 && !rules_.prefix.empty(),
               has_suffix = at + length == word.size() && !rules_.suffix.empty();
    if (const TokenId* id = rules_.characters.find(place_in_word(!has_prefix, has_suffix), character)) {
      if (holds_unknown) sink(*rules_.unknown);
      holds_unknown = false;
      sink(*id);
      continue;
    }
    std::string_view bytes = word.substr(at, length);
    std::string spelled;
    if (has_prefix || has_suffix) {
      spelled =
          fmt::format("{}{}{}", has_prefix ? rules_.prefix : "", bytes, has_suffix ? rules_.suffix : "");
      bytes = spelled;
    }
    const auto token_of = [&](char byte) { return rules_.byte_tokens[static_cast<unsigned char>(byte)]; };
    if (std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return token_of(byte) >= 0; })) {
      for (const char byte : bytes) sink(token_of(byte));
    } else if (rules_.unknown) {
      if (holds_unknown && !rules_.fuse_unknown) sink(*rules_.unknown);
      holds_unknown = true;
    }
  }
  if (holds_unknown) sink(*rules_.unknown);
}

template <typename Sink>
void Bpe::start_symbols(std::string_view word, const Sink& sink) const {
  if (rules_.symbols == BpeSymbols::characters) return start_characters(word, sink);
  bool after_unknown = false;
  for (const char c : word) {
    const TokenId id = rules_.byte_tokens[static_cast<unsigned char>(c)];
    if (id >= 0) sink(id);
    if (id < 0 && rules_.unknown && !(after_unknown && rules_.fuse_unknown)) sink(*rules_.unknown);
    after_unknown = id < 0;
  }
}

void Bpe::encode(std::string_view word, std::vector<TokenId>& out) const {
  if (!rules_.whole_words.empty()) {
    const auto it = rules_.whole_words.find(std::string(word));
    if (it != rules_.whole_words.end()) return out.push_back(it->second);
  }
  // The bytes of a prefix or suffix may be symbols too: there can be more of them than the word has bytes.
  const bool has_affixes = !rules_.prefix.empty() || !rules_.suffix.empty();
  if (word.size() <= kShortWord && !has_affixes) return encode_short(word, out);
  if (word.size() >= kNone) throw Error("text: a word of {} bytes is too long to encode", word.size());
  encode_long(word, out);
}

void Bpe::encode_short(std::string_view word, std::vector<TokenId>& out) const {
  TokenId ids[kShortWord];
  Merge with_next[kShortWord];  // what symbol i and the one after it would become
  std::size_t count = 0;
  start_symbols(word, [&](TokenId id) { ids[count++] = id; });
  const auto look_up = [&](std::size_t i) {
    with_next[i] = merge_of(ids[i], ids[i + 1]).value_or(Merge{kNone, -1});
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);

  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (with_next[i].rank < with_next[best].rank) best = i;
    if (with_next[best].rank == kNone) break;
    ids[best] = with_next[best].merged;
    --count;
    for (std::size_t i = best + 1; i < count; ++i) {
      ids[i] = ids[i + 1];
      with_next[i] = with_next[i + 1];
    }
    if (best + 1 < count) look_up(best);
    if (best > 0) look_up(best - 1);
  }
  out.insert(out.end(), ids, ids + count);
}

void Bpe::encode_long(std::string_view word, std::vector<TokenId>& out) const {
  struct Symbol {
    TokenId id;  // -1: merged into the one before
    std::uint32_t previous, next;
  };
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  start_symbols(word, [&](TokenId id) {
    const auto at = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({id, at == 0 ? kNone : at - 1, at + 1});
  });
  if (symbols.empty()) return;
  symbols.back().next = kNone;

  // Candidates, rank above position; one whose pair has changed since is passed over when it comes up.
  std::vector<std::uint64_t> candidates;
  const auto candidate = [&](std::uint32_t at) -> std::optional<std::uint64_t> {
    if (at == kNone || symbols[at].next == kNone) return std::nullopt;
    const auto merge = merge_of(symbols[at].id, symbols[symbols[at].next].id);
    return merge ? std::optional(std::uint64_t{merge->rank} << 32 | at) : std::nullopt;
  };
  for (std::uint32_t at = 0; at < symbols.size(); ++at)
    if (const auto found = candidate(at)) candidates.push_back(*found);
  std::priority_queue heap(std::greater<>{}, std::move(candidates));

  while (!heap.empty()) {
    const std::uint64_t top = heap.top();
    heap.pop();
    const auto at = static_cast<std::uint32_t>(top);
    if (symbols[at].id < 0 || candidate(at) != top) continue;
    Symbol& left = symbols[at];
    Symbol& right = symbols[left.next];
    left.id = merge_of(left.id, right.id)->merged;
    right.id = -1;
    left.next = right.next;
    if (left.next != kNone) symbols[left.next].previous = at;
    for (const std::uint32_t changed : {left.previous, at})
      if (const auto found = candidate(changed)) heap.push(*found);
  }
  for (const Symbol& symbol : symbols)
    if (symbol.id >= 0) out.push_back(symbol.id);
}

WordCache::WordCache(std::size_t text_bytes) {
  constexpr std::size_t kShortText = 256, kBytesPerEntry = 8, kMaxEntries = std::size_t{1} << 14;
  if (text_bytes >= kShortText)
    entries_.resize(std::bit_floor(std::min(text_bytes / kBytesPerEntry, kMaxEntries)));
}

bool WordCache::append(std::string_view word, std::vector<TokenId>& out) {
  open_ = nullptr;
  if (entries_.empty() || word.size() > kLongestWord) return false;
  Entry& entry = entries_[static_cast<std::size_t>(hash_word(word)) & (entries_.size() - 1)];
  if (entry.length == word.size() && std::memcmp(entry.word, word.data(), word.size()) == 0) {
    const std::size_t end = out.size();
    out.resize(end + entry.ids);
    for (std::size_t i = 0; i < entry.ids; ++i) out[end + i] = out[entry.first_id + i];
    return true;
  }
  entry = {word.data(), out.size(), static_cast<std::uint32_t>(word.size()), 0};
  open_ = &entry;
  return false;
}

void WordCache::keep(const std::vector<TokenId>& out) {
  if (open_ != nullptr) open_->ids = static_cast<std::uint32_t>(out.size() - open_->first_id);
}

}  // namespace assay
