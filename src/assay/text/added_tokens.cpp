// The search for added tokens, and what their flags make of a match.
#include "assay/text/added_tokens.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "assay/text/pretokenize.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t length = 0;
  if (begin > 0 && is_word_char(read_valid_utf8(text, previous_utf8(text, begin), length))) return true;
  return end < text.size() && is_word_char(read_valid_utf8(text, end, length));
}

bool is_space(std::string_view text, std::size_t at, std::size_t& length) {
  return char_class(read_valid_utf8(text, at, length)) == CharClass::space;
}

std::size_t spaces_begin(std::string_view text, std::size_t at, std::size_t lowest) {
  std::size_t length = 0;
  while (at > lowest) {
    const std::size_t before = previous_utf8(text, at);
    if (!is_space(text, before, length)) break;
    at = before;
  }
  return at;
}

std::size_t spaces_end(std::string_view text, std::size_t at) {
  std::size_t length = 0;
  while (at < text.size() && is_space(text, at, length)) at += length;
  return at;
}

}  // namespace

PatternFinder::PatternFinder(const std::vector<std::string_view>& patterns) : states_(1) {
  struct Edge {
    std::uint32_t parent, child;
    std::size_t depth;
    unsigned char byte;
  };
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    lengths_.push_back(patterns[i].size());
    std::uint32_t state = kRoot;
    for (std::size_t depth = 0; depth < patterns[i].size(); ++depth) {
      const auto byte = static_cast<unsigned char>(patterns[i][patterns[i].size() - 1 - depth]);
      const std::uint32_t* child = children_.find(state, byte);
      if (child == nullptr) {
        const auto added = static_cast<std::uint32_t>(states_.size());
        edges.push_back({state, added, depth, byte});
        children_.set(state, byte, added);
        states_.emplace_back();
        state = added;
      } else {
        state = *child;
      }
    }
    states_[state].longest = static_cast<std::int32_t>(i);
  }
  // Fallbacks lead to shallower states, so those come first.
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.depth < b.depth; });
  for (const Edge& edge : edges) {
    State& child = states_[edge.child];
    if (edge.parent == kRoot) {
      from_root_[edge.byte] = edge.child;
    } else {
      child.fallback = step(states_[edge.parent].fallback, edge.byte);
    }
    if (child.longest < 0) child.longest = states_[child.fallback].longest;
  }
}

std::uint32_t PatternFinder::step(std::uint32_t state, unsigned char byte) const {
  while (state != kRoot) {
    if (const std::uint32_t* child = children_.find(state, byte)) return *child;
    state = states_[state].fallback;
  }
  return from_root_[byte];
}

std::vector<PatternFinder::Match> PatternFinder::find(std::string_view text) const {
  std::vector<Match> matches;
  if (states_.size() == 1) return matches;
  std::uint32_t state = kRoot;
  for (std::size_t at = text.size(); at-- > 0;) {
    state = step(state, static_cast<unsigned char>(text[at]));
    if (states_[state].longest >= 0)
      matches.push_back({at, static_cast<std::uint32_t>(states_[state].longest)});
  }
  return matches;
}

AddedTokens::Group AddedTokens::group_of(std::vector<AddedToken> members) {
  std::vector<std::string_view> patterns;
  for (const AddedToken& token : members) patterns.push_back(token.content);
  PatternFinder finder(patterns);
  return {std::move(members), std::move(finder)};
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, const Normalizer& normalizer,
                         bool splits_special, RegexBudget& budget)
    : plain_{{}, PatternFinder({})}, normalized_{{}, PatternFinder({})}, splits_special_(splits_special) {
  std::vector<AddedToken> plain, normalized;
  std::unordered_set<std::string> seen;
  for (const AddedToken& token : tokens) {
    if (!token.normalized) {
      plain.push_back(token);
      continue;
    }
    AddedToken member = token;
    member.content = normalizer.normalize(token.content, budget);
    // Two that normalization makes the same cannot be told apart: the first stands.
    if (!member.content.empty() && seen.insert(member.content).second)
      normalized.push_back(std::move(member));
  }
  plain_ = group_of(std::move(plain));
  normalized_ = group_of(std::move(normalized));
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) : AddedTokens(tokens, RegexBudget(0)) {}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, RegexBudget budget)
    : AddedTokens(tokens, Normalizer(), false, budget) {}

std::vector<TextPiece> AddedTokens::split_by(const Group& group, std::string_view text) const {
  std::vector<TextPiece> out;
  const std::vector<PatternFinder::Match> matches = group.finder.find(text);
  std::size_t taken = 0;     // up to here pieces cover the text
  std::size_t searched = 0;  // matches begin here or later: they do not overlap, what they strip may
  std::size_t known_spaces_begin = 0, known_spaces_end = 0;
  for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
    if (match->begin < searched) continue;
    const AddedToken& token = group.tokens[match->pattern];
    std::size_t begin = match->begin, end = begin + token.content.size();
    searched = end;
    if (splits_special_ && token.special) continue;
    if (token.single_word && touches_word(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(taken, spaces_begin(text, begin, taken));
    if (token.rstrip) {
      // A token of spaces can match many times within one run of them: the run is measured once.
      if (end < known_spaces_begin || end >= known_spaces_end) {
        known_spaces_begin = end;
        known_spaces_end = spaces_end(text, end);
      }
      end = known_spaces_end;
    }
    // Nothing is left of a token that strips to its left where the one before has stripped all of it.
    if (begin >= end) continue;
    if (taken < begin) out.push_back({taken, begin, -1});
    out.push_back({begin, end, token.id});
    taken = end;
  }
  if (taken < text.size()) out.push_back({taken, text.size(), -1});
  return out;
}

std::vector<TextPiece> AddedTokens::split(std::string_view text) const {
  return split_by(plain_, text);
}

std::vector<TextPiece> AddedTokens::split_normalized(std::string_view text) const {
  return split_by(normalized_, text);
}

}  // namespace assay
