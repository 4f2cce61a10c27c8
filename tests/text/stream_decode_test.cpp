// Text as it streams: whole characters only, and in the end the same text.
#include <random>
#include <string>

#include "assay/text/utf8.h"
#include "small_tokenizer.h"
#include "support/paths.h"

namespace assay {
namespace {

const std::string kR(kReplacementCharacter);

TEST(StreamDecoder, HoldsBackAnUnfinishedCharacter) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(decoder.push(259), "hello");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, ReplacesOnlyWhatCannotBecomeACharacter) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(0xFF), kR);  // nothing begins so
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.push(0x82), "");
  EXPECT_EQ(decoder.push('a'), kR + "a");
  EXPECT_EQ(decoder.push(0xE0), "");
  EXPECT_EQ(decoder.push(0x80), kR + kR);  // E0 asks for A0 or more
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.finish(), kR);
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, SkipsSpecialTokensWhenAsked) {
  const Tokenizer tokenizer = with_added({added_token("<e>", 262, {"special"}), added_token("<x>", 263)});
  StreamDecoder all(tokenizer), skipping(tokenizer, true);
  EXPECT_EQ(all.push(262), "<e>");
  EXPECT_EQ(skipping.push(262), "");
  EXPECT_EQ(skipping.push(263), "<x>");
  // A skipped token does not come between the bytes of a character.
  EXPECT_EQ(skipping.push(0xC3), "");
  EXPECT_EQ(skipping.push(262), "");
  EXPECT_EQ(skipping.push(0xA9), "\xC3\xA9");
}

TEST(StreamDecoder, AnIdWithoutATokenIsNoText) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.push(262), "");
  EXPECT_EQ(decoder.push(0xA9), "\xC3\xA9");
}

TEST(StreamDecoder, PiecesJoinToTheWholeText) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  std::mt19937 random(23);
  // Bytes near the borders of the ranges of UTF-8, so that most sequences are nearly right.
  const TokenId likely[] = {0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF,
                            0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF, 259};
  for (int round = 0; round < 5000; ++round) {
    Ids ids;
    for (unsigned i = 0; i < random() % 12; ++i) ids.push_back(likely[random() % std::size(likely)]);
    StreamDecoder decoder(tokenizer);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string piece = decoder.push(id);
      ASSERT_NO_THROW(check_utf8(piece, "piece"));
      joined += piece;
    }
    joined += decoder.finish();
    ASSERT_EQ(joined, replace_malformed_utf8(tokenizer.decode(ids)));
  }
}

// What new tokens add to a prompt, whole and as it streams.
void expect_added(const Tokenizer& tokenizer, const Ids& before, const Ids& ids, const std::string& text) {
  EXPECT_EQ(tokenizer.decode_after(before, ids), text) << Json(before).dump() << " " << Json(ids).dump();
  StreamDecoder decoder(tokenizer, false, before);
  std::string joined;
  for (const TokenId id : ids) joined += decoder.push(id);
  EXPECT_EQ(joined + decoder.finish(), text) << Json(before).dump() << " " << Json(ids).dump();
}

TEST(StreamDecoder, ContinuesTheTextBefore) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  expect_added(tokenizer, {'a'}, {260, 259}, " whello");
  expect_added(tokenizer, {}, {'a'}, "a");
  expect_added(tokenizer, {'a', 0xC3}, {0xA9, 'b'},
               "\xC3\xA9"
               "b");                                       // the prompt is cut in a character
  expect_added(tokenizer, {'a', 0xE2, 0x82}, {'b'}, "b");  // U+FFFD was the prompt's own
  expect_added(tokenizer, {'a', 0xE2, 0x82}, {}, "");
  expect_added(tokenizer, {'a'}, {0xE2, 0x82}, kR);  // the new text is cut in one
  expect_added(tokenizer, {0xFF}, {0xFF}, kR);
}

// SentencePiece's blanks and bytes; "the" and what follows are of the fixture's vocabulary.
TEST(StreamDecoder, KeepsTheFirstBlankOfAContinuation) {
  const Tokenizer tokenizer = Tokenizer::load(source_folder() + "/tests/fixtures/tokenizers/llama2");
  const TokenId mark = *tokenizer.id_of("\xE2\x96\x81"), the = *tokenizer.id_of("\xE2\x96\x81the"),
                bos = *tokenizer.id_of("<s>");
  const auto bytes = [&](const std::string& text) {
    Ids ids;
    for (const char c : text)
      ids.push_back(*tokenizer.id_of(fmt::format("<0x{:02X}>", static_cast<unsigned char>(c))));
    return ids;
  };
  expect_added(tokenizer, {bos, the}, {the, the}, " the the");
  expect_added(tokenizer, {the}, {mark, the}, "  the");
  expect_added(tokenizer, {}, {the, the}, "the the");
  EXPECT_EQ(tokenizer.decode_after(Ids{bos, the}, Ids{the, 2}, true), " the");
  const Ids han = bytes("\xE4\xB8\xAD"), half(han.begin(), han.begin() + 2), rest(han.begin() + 2, han.end());
  expect_added(tokenizer, {the}, han, "\xE4\xB8\xAD");
  expect_added(tokenizer, {the}, half, kR + kR);  // cut by the limit of tokens
  expect_added(tokenizer, half, rest, "\xE4\xB8\xAD");
  expect_added(tokenizer, half, {the}, " the");
  expect_added(tokenizer, han, {the}, " the");
  expect_added(tokenizer, han, han, "\xE4\xB8\xAD");
  expect_added(tokenizer, han, {}, "");
}

}  // namespace
}  // namespace assay
