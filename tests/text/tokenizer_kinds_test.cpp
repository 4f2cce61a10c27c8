// A small tokenizer of each kind in use gives the ids and texts of the `tokenizers` library
// (tools/make_tokenizer_fixtures.py).
#include <algorithm>
#include <bit>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/sha256.h"
#include "assay/text/utf8.h"
#include "library_digest.h"
#include "small_tokenizer.h"
#include "support/paths.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

const fs::path kFixtures = fs::path(source_folder()) / "tests/fixtures";

const Json& expected() {
  static const Json file = read_json_object(kFixtures / "tokenizer_kinds.json");
  return file;
}

const Json& hard_texts() {
  static const Json file = read_json_object(kFixtures / "tokenizer_cases.json");
  return file;
}

std::string digest(const Tokenizer& tokenizer, const std::string& text) {
  Sha256 sha;
  add_digested(sha, tokenizer, text);
  return sha.hex().substr(0, 8);
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string joined;
  for (const TokenId id : ids) {
    const std::string piece = decoder.push(id);
    EXPECT_NO_THROW(check_utf8(piece, "piece"));
    joined += piece;
  }
  return joined + decoder.finish();
}

class TokenizerKinds : public testing::TestWithParam<std::string> {
 protected:
  const Tokenizer tokenizer_ = Tokenizer::load(kFixtures / "tokenizers" / GetParam());

  void expect_text(const Ids& ids, const std::string& decoded, const std::string& skipped) const {
    EXPECT_EQ(replace_malformed_utf8(tokenizer_.decode(ids)), decoded) << Json(ids).dump();
    EXPECT_EQ(replace_malformed_utf8(tokenizer_.decode(ids, true)), skipped) << Json(ids).dump();
    EXPECT_EQ(streamed(tokenizer_, ids, false), decoded) << Json(ids).dump();
    EXPECT_EQ(streamed(tokenizer_, ids, true), skipped) << Json(ids).dump();
  }
};

TEST_P(TokenizerKinds, HardTexts) {
  const Json& cases = hard_texts().at("cases");
  const Json& digests = expected().at("cases").at(GetParam());
  ASSERT_EQ(cases.size(), digests.size());
  int failures = 0;
  for (std::size_t i = 0; i < cases.size() && failures < 10; ++i) {
    const std::string text = text_of(cases[i].at("text"));
    if (digest(tokenizer_, text) == digests[i]) continue;
    ADD_FAILURE() << cases[i].at("category") << ": " << cases[i].at("text").dump().substr(0, 200);
    ++failures;
  }
}

TEST_P(TokenizerKinds, AllCodePoints) {
  const Json& blocks = hard_texts().at("sweep");
  const Json& digests = expected().at("sweep").at(GetParam());
  ASSERT_EQ(blocks.size(), digests.size());
  for (std::size_t i = 0; i < blocks.size(); ++i)
    EXPECT_EQ(digest(tokenizer_, text_of_block(blocks[i])), digests[i]) << "from " << blocks[i].at("first");
}

TEST_P(TokenizerKinds, TextsAndAddedTokens) {
  EXPECT_GT(expected().at("texts").size(), 50U);
  for (const Json& item : expected().at("texts")) {
    const std::string text = item.at("text");
    const Json& made = item.at("kinds").at(GetParam());
    const Ids ids = tokenizer_.encode(text);
    EXPECT_EQ(ids, made.at("with").get<Ids>()) << item.at("text");
    EXPECT_EQ(tokenizer_.encode(text, false), made.at("without").get<Ids>()) << item.at("text");
    expect_text(ids, made.at("decoded"), made.at("skipped"));
  }
}

TEST_P(TokenizerKinds, DecodesAnyIds) {
  EXPECT_EQ(expected().at("decode").at(GetParam()).size(), 60U);
  for (const Json& item : expected().at("decode").at(GetParam())) expect_text(item[0], item[1], item[2]);
}

// Wherever ids are cut into a prompt and what is generated, the texts of both are the text of all, if it
// holds the prompt's.
TEST_P(TokenizerKinds, ContinuesATextWhereverItIsCut) {
  int cut = 0;
  const auto expect_continued = [&](const Ids& ids, std::size_t at, bool skip_special) {
    const std::span<const TokenId> all(ids), before = all.first(at), rest = all.subspan(at);
    const std::string whole = replace_malformed_utf8(tokenizer_.decode(all, skip_special)),
                      prompt = replace_malformed_utf8(tokenizer_.decode(before, skip_special)),
                      added = tokenizer_.decode_after(before, rest, skip_special);
    ++cut;
    if (whole.starts_with(prompt)) {
      EXPECT_EQ(prompt + added, whole) << Json(ids).dump() << " at " << at;
    } else {
      // A character that the prompt has begun: all behind what both texts have in common is new.
      EXPECT_TRUE(whole.ends_with(added)) << Json(ids).dump() << " at " << at;
      EXPECT_TRUE(prompt.starts_with(whole.substr(0, whole.size() - added.size())))
          << Json(ids).dump() << " at " << at;
    }
    StreamDecoder decoder(tokenizer_, skip_special, before);
    std::string joined;
    for (const TokenId id : rest) joined += decoder.push(id);
    EXPECT_EQ(joined + decoder.finish(), added) << Json(ids).dump() << " at " << at;
  };
  const auto expect_all = [&](const Ids& ids) {
    for (std::size_t at = 0; at <= ids.size(); ++at)
      for (const bool skip_special : {false, true}) expect_continued(ids, at, skip_special);
  };
  for (const Json& item : expected().at("decode").at(GetParam())) expect_all(item[0]);
  for (const Json& item : expected().at("texts"))
    expect_all(item.at("kinds").at(GetParam()).at("with").get<Ids>());
  EXPECT_GT(cut, 1000);
}

TEST_P(TokenizerKinds, SaysWhatItAdds) {
  const Ids bos(tokenizer_.bos_tokens().begin(), tokenizer_.bos_tokens().end());
  const Ids eos(tokenizer_.eos_tokens().begin(), tokenizer_.eos_tokens().end());
  Ids around = bos;
  around.insert(around.end(), eos.begin(), eos.end());
  EXPECT_EQ(tokenizer_.encode(""), around);
  constexpr std::string_view kAddBoth[] = {"qwen2", "metaspace_always", "word_suffix", "byte_affixes",
                                           "words"};
  const bool adds_both =
      std::find(std::begin(kAddBoth), std::end(kAddBoth), GetParam()) != std::end(kAddBoth);
  EXPECT_EQ(bos, GetParam() == "metaspace_never" ? Ids{} : Ids{1});
  EXPECT_EQ(eos, adds_both ? Ids{2} : Ids{});
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerKinds,
                         testing::Values("llama3", "qwen2", "llama2", "one_word", "metaspace_first",
                                         "metaspace_always", "metaspace_never", "word_suffix", "word_prefix",
                                         "byte_affixes", "words"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace assay
