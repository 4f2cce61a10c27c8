// The ids that the `tokenizers` library gives for thousands of hard strings
// (tools/make_tokenizer_fixtures.py).
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

#include "assay/base/file.h"
#include "assay/base/sha256.h"
#include "assay/text/utf8.h"
#include "small_tokenizer.h"
#include "support/paths.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = source_folder();

fs::path development_data() {
  const char* folder = std::getenv("ASSAY_DEV_DATA");
  return folder != nullptr ? fs::path(folder) : kSource / "../shared/data";
}

const Json& cases() {
  static const Json file = read_json_object(kSource / "tests/fixtures/tokenizer_cases.json");
  return file;
}

std::string digest(const Ids& ids) {
  static_assert(std::endian::native == std::endian::little);
  Sha256 sha;
  sha.update(std::as_bytes(std::span(ids)));
  return sha.hex();
}

// `expected` is the ids, or their number and digest.
bool is_as_expected(const Ids& ids, const Json& expected) {
  if (expected.is_array()) return ids == expected.get<Ids>();
  return ids.size() == expected.at("n").get<std::size_t>() && digest(ids) == expected.at("sha256");
}

void check_cases(const Tokenizer& tokenizer, const std::string& name) {
  int failures = 0;
  for (const Json& item : cases().at("cases")) {
    const std::string text = text_of(item.at("text"));
    const Ids ids = tokenizer.encode(text);
    if (is_as_expected(ids, item.at(name)) && tokenizer.decode(ids) == text) continue;
    ADD_FAILURE() << item.at("category") << ": " << item.dump().substr(0, 300);
    if (++failures == 10) return;
  }
  EXPECT_GT(cases().at("cases").size(), 1000U);
}

// Every code point after a letter, after a digit and after a blank.
void check_sweep(const Tokenizer& tokenizer, const std::string& name) {
  EXPECT_EQ(cases().at("sweep").back().at("last"), 0x10FFFF);
  for (const Json& item : cases().at("sweep")) {
    std::string text;
    for (char32_t c = item.at("first"); c <= item.at("last").get<char32_t>(); ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      for (const char* before : {"a", "1", " "}) {
        text += before;
        append_utf8(text, c);
      }
    }
    EXPECT_TRUE(is_as_expected(tokenizer.encode(text), item.at(name))) << item.dump();
  }
}

void check_novel(const Tokenizer& tokenizer, const std::string& name) {
  const std::string text = read_text_file(development_data() / "heldout/novel.txt");
  const Ids ids = tokenizer.encode(text);
  EXPECT_TRUE(is_as_expected(ids, cases().at("novel").at(name))) << ids.size();
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(TokenizerCases, Demo) {
  check_cases(Tokenizer::load(kSource / "models/demo"), "demo");
}

TEST(TokenizerCases, DemoOverAllCodePoints) {
  check_sweep(Tokenizer::load(kSource / "models/demo"), "demo");
}

class SharedTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(development_data() / "gpt2-tokenizer")) GTEST_SKIP() << "no development data";
  }
  static Tokenizer gpt2() { return Tokenizer::load(development_data() / "gpt2-tokenizer"); }
};

TEST_F(SharedTokenizer, Gpt2Cases) {
  check_cases(gpt2(), "gpt2");
}

TEST_F(SharedTokenizer, Gpt2OverAllCodePoints) {
  check_sweep(gpt2(), "gpt2");
}

TEST_F(SharedTokenizer, Novel) {
  check_novel(Tokenizer::load(kSource / "models/demo"), "demo");
  check_novel(gpt2(), "gpt2");
}

TEST_F(SharedTokenizer, Gpt2Facts) {
  const Tokenizer tokenizer = gpt2();
  EXPECT_EQ(tokenizer.vocab_size(), 50257);
  EXPECT_EQ(tokenizer.end_of_text(), 50256);
  EXPECT_TRUE(tokenizer.is_special(50256));
  EXPECT_EQ(tokenizer.source(), "vocab.json + merges.txt");
}

}  // namespace
}  // namespace assay
