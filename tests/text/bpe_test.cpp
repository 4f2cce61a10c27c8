// Merging: against the definition, and in time.
#include "assay/text/bpe.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "assay/text/vocabulary.h"
#include "small_tokenizer.h"

namespace assay {
namespace {

BpeRules letters() {
  BpeRules rules;
  rules.byte_tokens.fill(-1);
  for (int c = 'a'; c <= 'z'; ++c) rules.byte_tokens[static_cast<std::size_t>(c)] = c - 'a';
  return rules;
}

Ids encoded(const Bpe& bpe, const std::string& word) {
  Ids ids;
  bpe.encode(word, ids);
  return ids;
}

// The definition: while any neighbours can merge, merge the leftmost of those with the lowest rank.
Ids by_definition(const std::vector<MergeRule>& merges, Ids ids) {
  for (;;) {
    std::size_t best_rank = merges.size(), best_at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      for (std::size_t rank = 0; rank < best_rank; ++rank)
        if (merges[rank].left == ids[i] && merges[rank].right == ids[i + 1]) best_rank = rank, best_at = i;
    if (best_rank == merges.size()) return ids;
    ids[best_at] = merges[best_rank].merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

TEST(Bpe, LowestRankFirstLeftmostAmongEquals) {
  BpeRules rules = letters();
  rules.merges = {{1, 2, 100}, {0, 1, 101}, {0, 0, 102}};  // bc, ab, aa
  const Bpe bpe(rules);
  EXPECT_EQ(encoded(bpe, "abc"), (Ids{0, 100}));
  EXPECT_EQ(encoded(bpe, "abd"), (Ids{101, 3}));
  EXPECT_EQ(encoded(bpe, "aaa"), (Ids{102, 0}));
  EXPECT_EQ(encoded(bpe, "aab"), (Ids{0, 101}));
  EXPECT_EQ(encoded(bpe, "z"), (Ids{25}));
  EXPECT_EQ(encoded(bpe, ""), Ids{});
}

TEST(Bpe, ShortAndLongWordsFollowTheDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    BpeRules rules = letters();
    std::vector<std::string> texts = {"a", "b", "c"};  // by id: a, b, c, then what merges make from 100 on
    std::vector<TokenId> ids = {0, 1, 2};
    for (int i = 0; i < 12; ++i) {
      const std::size_t left = random() % texts.size(), right = random() % texts.size();
      if (texts[left].size() + texts[right].size() > 12) continue;
      const std::string joined = texts[left] + texts[right];
      const auto known = std::find(texts.begin(), texts.end(), joined);
      const TokenId id =
          known == texts.end() ? 100 + i : ids[static_cast<std::size_t>(known - texts.begin())];
      const bool is_twice = std::any_of(rules.merges.begin(), rules.merges.end(), [&](const MergeRule& rule) {
        return rule.left == ids[left] && rule.right == ids[right];
      });
      if (!is_twice) rules.merges.push_back({ids[left], ids[right], id});
      if (known == texts.end()) texts.push_back(joined), ids.push_back(id);
    }
    const Bpe bpe(rules);
    for (const std::size_t length : {1, 2, 5, 31, 32, 33, 34, 90}) {
      std::string word;
      Ids start;
      for (std::size_t i = 0; i < length; ++i) {
        word += static_cast<char>('a' + random() % 3);
        start.push_back(word.back() - 'a');
      }
      ASSERT_EQ(encoded(bpe, word), by_definition(rules.merges, start)) << word;
    }
  }
}

TEST(Bpe, LastOfEqualRulesStands) {
  BpeRules rules = letters();
  rules.merges = {{0, 1, 100}, {1, 2, 101}, {0, 1, 102}};
  EXPECT_EQ(encoded(Bpe(rules), "abc"), (Ids{0, 101}));
  EXPECT_EQ(encoded(Bpe(rules), "ab"), (Ids{102}));
}

TEST(Bpe, BytesWithoutAToken) {
  BpeRules rules = letters();
  EXPECT_EQ(encoded(Bpe(rules), "a--b-"), (Ids{0, 1}));
  EXPECT_EQ(encoded(Bpe(rules), std::string(40, '-')), Ids{});
  rules.unknown = 99;
  EXPECT_EQ(encoded(Bpe(rules), "a--b-"), (Ids{0, 99, 99, 1, 99}));
  rules.fuse_unknown = true;
  EXPECT_EQ(encoded(Bpe(rules), "a--b-"), (Ids{0, 99, 1, 99}));
}

TEST(Bpe, WholeWordsComeBeforeMerges) {
  BpeRules rules = letters();
  rules.merges = {{0, 1, 100}};
  rules.whole_words = {{"abc", 200}};
  EXPECT_EQ(encoded(Bpe(rules), "abc"), (Ids{200}));
  EXPECT_EQ(encoded(Bpe(rules), "abcd"), (Ids{100, 2, 3}));
}

TEST(Bpe, AMillionLettersAreNotQuadratic) {
  BpeRules rules = letters();
  for (TokenId i = 0; i < 10; ++i)
    rules.merges.push_back({i == 0 ? 0 : 99 + i, i == 0 ? 0 : 99 + i, 100 + i});
  const Bpe bpe(rules);
  const auto begin = std::chrono::steady_clock::now();
  const Ids ids = encoded(bpe, std::string((1 << 20) + 3, 'a'));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  Ids expected(1024, 109);
  expected.insert(expected.end(), {100, 0});  // aa, a
  EXPECT_EQ(ids, expected);
  EXPECT_LT(seconds.count(), 20.0);  // a quadratic one would take hours
}

TEST(WordCache, GivesTheIdsOfAnEqualWord) {
  const std::string text = "one two one three one";
  WordCache cache(std::size_t{1} << 16);
  Ids out = {5};
  EXPECT_FALSE(cache.append(std::string_view(text).substr(0, 3), out));
  out.insert(out.end(), {7, 8});
  cache.keep(out);
  EXPECT_TRUE(cache.append(std::string_view(text).substr(8, 3), out));
  EXPECT_EQ(out, (Ids{5, 7, 8, 7, 8}));
  EXPECT_FALSE(cache.append(std::string_view(text).substr(4, 3), out));
}

TEST(WordCache, LeavesLongWordsAndShortTextsAlone) {
  const std::string word(65, 'a');
  Ids out;
  WordCache cache(std::size_t{1} << 16);
  EXPECT_FALSE(cache.append(word, out));
  cache.keep(out);
  EXPECT_FALSE(cache.append(word, out));
  WordCache none(10);
  EXPECT_FALSE(none.append("a", out));
  none.keep(out);
  EXPECT_FALSE(none.append("a", out));
}

TEST(Vocabulary, RefusesWhatRepeats) {
  Vocabulary vocabulary;
  vocabulary.add("a", 3, "v");
  EXPECT_EQ(error_of([&] { vocabulary.add("b", 3, "v"); }),
            "v: token 'b': expected an id of its own, found 3, which is that of 'a'");
  EXPECT_EQ(error_of([&] { vocabulary.add("a", 4, "v"); }), "v: duplicate token 'a' in the vocabulary");
  EXPECT_EQ(error_of([&] { vocabulary.add("b", 16777217, "v"); }),
            "v: token 'b': expected an id from 0 to 16777216, found 16777217");
  EXPECT_EQ(error_of([&] { vocabulary.add("b", -1, "v"); }),
            "v: token 'b': expected an id from 0 to 16777216, found -1");
  EXPECT_EQ(vocabulary.end_id(), 4);
  EXPECT_FALSE(vocabulary.has(0));
  EXPECT_FALSE(vocabulary.has(-1));
  EXPECT_FALSE(vocabulary.has(4));
}

TEST(Vocabulary, QuotesLongTextShortly) {
  EXPECT_EQ(in_quotes("a"), "'a'");
  EXPECT_EQ(in_quotes(std::string(59, 'a') + "\xE2\x82\xAC"), "'" + std::string(59, 'a') + "...' (62 bytes)");
}

}  // namespace
}  // namespace assay
