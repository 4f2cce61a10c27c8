// Prompts that are cut keep the special tokens around them, and the text of a generation continues its
// prompt's.
#include "assay/session/time_generate.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "assay/base/error.h"
#include "assay/text/tokenizer.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

using Ids = std::vector<TokenId>;

std::filesystem::path tokenizer_folder(const std::string& kind) {
  return std::filesystem::path(source_folder()) / "tests/fixtures/tokenizers" / kind;
}

Ids truncated(Ids ids, std::int64_t room, Truncation truncation, const Tokenizer* tokenizer) {
  truncate(ids, room, truncation, tokenizer);
  return ids;
}

TEST(Truncate, CutsPlainIds) {
  const Ids ids{5, 6, 7, 8};
  EXPECT_EQ(truncated(ids, 3, Truncation::none, nullptr), ids);
  EXPECT_EQ(truncated(ids, 3, Truncation::left, nullptr), (Ids{6, 7, 8}));
  EXPECT_EQ(truncated(ids, 3, Truncation::right, nullptr), (Ids{5, 6, 7}));
  EXPECT_EQ(truncated(ids, 4, Truncation::left, nullptr), ids);
  EXPECT_EQ(truncated(ids, 0, Truncation::left, nullptr), ids) << "there is no room for a single token";
}

// llama2 puts <s> (1) before a text; qwen2 of the fixtures </s> (2) behind it as well.
TEST(Truncate, KeepsTheSpecialTokensAroundAText) {
  const Tokenizer before = Tokenizer::load(tokenizer_folder("llama2")),
                  around = Tokenizer::load(tokenizer_folder("qwen2")),
                  none = Tokenizer::load(tokenizer_folder("metaspace_never"));
  const Ids ids{1, 5, 6, 7, 2};
  EXPECT_EQ(truncated(ids, 4, Truncation::left, &before), (Ids{1, 6, 7, 2}));
  EXPECT_EQ(truncated(ids, 3, Truncation::right, &before), (Ids{1, 5, 6}));
  EXPECT_EQ(truncated(ids, 2, Truncation::left, &before), (Ids{1, 2}));
  EXPECT_EQ(truncated(ids, 4, Truncation::left, &around), (Ids{1, 6, 7, 2}));
  EXPECT_EQ(truncated(ids, 3, Truncation::left, &around), (Ids{1, 7, 2}));
  EXPECT_EQ(truncated(ids, 3, Truncation::right, &around), (Ids{1, 5, 2}));
  // Where nothing of the text would be left beside them, they are tokens like any other.
  EXPECT_EQ(truncated(ids, 2, Truncation::left, &around), (Ids{7, 2}));
  EXPECT_EQ(truncated(ids, 1, Truncation::right, &before), (Ids{1}));
  EXPECT_EQ(truncated(ids, 4, Truncation::left, &none), (Ids{5, 6, 7, 2}));
  // Ids that do not begin with them, as users may give them.
  EXPECT_EQ(truncated({5, 6, 7}, 2, Truncation::left, &around), (Ids{6, 7}));
  EXPECT_EQ(truncated({5, 6, 2}, 2, Truncation::left, &around), (Ids{6, 2}));
  EXPECT_EQ(truncated({1}, 1, Truncation::left, &around), (Ids{1}));
}

// A Llama whose tokens are those of a SentencePiece-like tokenizer.
class LlamaText : public testing::Test {
 protected:
  LlamaText() {
    test::TinyModel model = test::tiny_llama(kVocab);
    model.write(folder_.path());
    std::filesystem::copy(tokenizer_folder("llama2") / "tokenizer.json", folder_.path() / "tokenizer.json");
    loaded_ = load_model_and_tokenizer({folder_.path().string()}, "float32", Device{});
  }
  static constexpr std::int64_t kVocab = 529;
  test::TemporaryFolder folder_;
  LoadedModel loaded_;
};

TEST_F(LlamaText, IsWhatTheNewTokensAddToThePrompt) {
  int with_blank = 0;
  for (int seed = 0; seed < 40; ++seed) {
    TimeOptions options;
    options.max_new_tokens = 1 + seed % 9;
    options.has_warm_up = false;
    options.sampling.temperature = 5;
    options.sampling.seed = static_cast<std::uint64_t>(seed);
    std::string streamed;
    options.on_text = [&](std::string_view text) { streamed += text; };
    const TimedGeneration timed = time_generate(loaded_, "the", options);
    Ids all = timed.prompt_ids;
    all.insert(all.end(), timed.ids.begin(), timed.ids.end());
    const std::string prompt = loaded_.tokenizer->decode(timed.prompt_ids),
                      whole = loaded_.tokenizer->decode(all);
    EXPECT_EQ(timed.prompt_ids.front(), loaded_.tokenizer->bos_tokens().front());
    EXPECT_EQ(prompt + timed.text, whole);
    EXPECT_EQ(loaded_.tokenizer->decode(timed.prompt_ids, true) + streamed,
              loaded_.tokenizer->decode(all, true));
    with_blank += timed.text.starts_with(" ") ? 1 : 0;
  }
  EXPECT_GT(with_blank, 3) << "nothing was tested";
}

// The warm-up generates fewer tokens, which nobody asked for.
TEST_F(LlamaText, TooManyNewTokensAreNamedAsAskedFor) {
  TimeOptions options;
  options.max_new_tokens = 100000;
  try {
    time_generate(loaded_, "the", options);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("100000 new ones"), std::string::npos) << error.what();
  }
}

TEST_F(LlamaText, OfAPromptCutOnTheLeftKeepsItsBeginning) {
  TimeOptions options;
  options.max_new_tokens = 4;
  options.truncation = Truncation::left;
  const std::string prompt = "the ferry at the two words of the ferry and the river by the old house";
  const TimedGeneration timed = time_generate(loaded_, prompt, options);
  const Ids whole = loaded_.tokenizer->encode(prompt);
  ASSERT_GT(whole.size(), 12U);
  Ids want{whole.front()};
  want.insert(want.end(), whole.end() - 11, whole.end());
  EXPECT_EQ(timed.prompt_ids, want);
}

}  // namespace
}  // namespace assay
