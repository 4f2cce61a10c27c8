// Special tokens that are spelled in a text and are not to be found there.
#include <algorithm>
#include <filesystem>

#include "assay/base/file.h"
#include "small_tokenizer.h"
#include "support/fixtures.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr TokenId kEnd = 262, kOther = 263, kLong = 264;

// Byte-level BPE: ids below 256 are bytes.
TEST(SpecialAsText, IsCutLikeAnyOtherTextByBytes) {
  const Tokenizer tokenizer =
      with_added({added_token("<|end|>", kEnd, {"special", "lstrip"}), added_token("<|x|>", kOther),
                  added_token("<|x|>!", kLong, {"special"})});
  EXPECT_EQ(tokenizer.encode("hello <|end|>"), (Ids{259, kEnd}));
  EXPECT_EQ(tokenizer.encode_as_text("hello <|end|>"), (Ids{259, ' ', '<', '|', 'e', 'n', 'd', '|', '>'}));
  // One that is not special is found, where a longer special one begins too.
  EXPECT_EQ(tokenizer.encode("<|x|>!"), Ids{kLong});
  EXPECT_EQ(tokenizer.encode_as_text("<|x|>!"), (Ids{kOther, '!'}));
  EXPECT_EQ(tokenizer.encode_as_text(""), Ids{});
  EXPECT_THROW(tokenizer.encode_as_text("\xff"), Error);
}

// The folder's tokenizer as Transformers has it where special tokens are split (special_tokens.json).
Tokenizer splitting(const std::string& folder) {
  const TemporaryFolder copy;
  for (const fs::directory_entry& file : fs::directory_iterator(test::fixture(folder)))
    if (file.is_regular_file()) fs::copy(file.path(), copy.path());
  Json config = Json::parse(read_text_file(copy.path() / "tokenizer_config.json"));
  config["split_special_tokens"] = true;
  copy.write("tokenizer_config.json", config.dump());
  return Tokenizer::load(copy.path());
}

// SentencePiece's BPE (Llama 2, Gemma) and a byte-level one.
TEST(SpecialAsText, IsWhatTransformersGivesWhereItSplitsSpecialTokens) {
  for (const char* folder : {"tokenizer_folders/llama", "tokenizer_folders/gemma", "quality/gpt2"}) {
    SCOPED_TRACE(folder);
    const Tokenizer tokenizer = Tokenizer::load(test::fixture(folder)), split = splitting(folder);
    for (const char* text : {"", "a river", "<s>", "<s>a river</s> <unk>", "the <unk> , <unk> the </s>\n",
                             "<bos>the<eos>", "a <|endoftext|>"}) {
      const Ids ids = tokenizer.encode_as_text(text);
      EXPECT_EQ(ids, split.encode(text, false)) << text;
      for (const TokenId id : ids)
        EXPECT_TRUE(!tokenizer.is_special(id) || tokenizer.token_text(id) == "<unk>") << text << ": " << id;
    }
  }
  const Tokenizer llama = Tokenizer::load(test::fixture("tokenizer_folders/llama"));
  EXPECT_NE(llama.encode_as_text("a</s>"), llama.encode("a</s>", false));
}

// Unigram has its special tokens among the pieces that it may cut a text into.
TEST(SpecialAsText, IsNoPieceOfUnigram) {
  for (const char* folder :
       {"tokenizer_folders/unigram", "tokenizer_folders/unigram_bytes", "tokenizer_folders/t5"}) {
    SCOPED_TRACE(folder);
    const Tokenizer tokenizer = Tokenizer::load(test::fixture(folder));
    int found = 0;
    for (TokenId id = 0; id < static_cast<TokenId>(tokenizer.vocab_size()); ++id) {
      if (!tokenizer.is_special(id)) continue;
      const std::string text = "a" + tokenizer.token_text(id) + "a";
      const Ids with = tokenizer.encode(text, false), without = tokenizer.encode_as_text(text);
      found += std::count(with.begin(), with.end(), id) > 0 ? 1 : 0;
      if (tokenizer.token_text(id) == "<unk>") continue;  // it stands for what is unknown
      EXPECT_EQ(std::count(without.begin(), without.end(), id), 0) << text;
      EXPECT_NE(with, without) << text;
    }
    EXPECT_GT(found, 1);
  }
}

}  // namespace
}  // namespace assay
