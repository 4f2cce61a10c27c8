// Whatever steps stand around the model, the ids and texts are those of the `tokenizers` library
// (tools/make_tokenizer_fixtures.py).
#include <bit>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "assay/base/sha256.h"
#include "assay/text/utf8.h"
#include "library_digest.h"
#include "small_tokenizer.h"
#include "support/paths.h"

namespace assay {
namespace {

const std::filesystem::path kVariantFixtures = std::filesystem::path(source_folder()) / "tests/fixtures";

const Json& all_variants() {
  static const Json file = read_json_object(kVariantFixtures / "tokenizer_variants.json");
  return file.at("variants");
}

const Json& variant_texts() {
  static const Json file = read_json_object(kVariantFixtures / "tokenizer_cases.json");
  return file;
}

void expect_ids_of_the_library(const std::string& name, const Json& variant) {
  SCOPED_TRACE(name);
  const std::string base = variant.at("base");
  Json file = read_json_object(kVariantFixtures / "tokenizers" / base / "tokenizer.json");
  for (const auto& [key, value] : variant.at("patch").items()) file[key] = value;
  const Tokenizer tokenizer = load_json(file);

  std::map<std::string, Sha256> categories;
  for (const Json& item : variant_texts().at("cases"))
    add_digested(categories[item.at("category")], tokenizer, text_of(item.at("text")));
  EXPECT_EQ(categories.size(), variant.at("cases").size());
  for (auto& [category, sha] : categories)
    EXPECT_EQ(sha.hex().substr(0, 8), variant.at("cases").at(category)) << category;
  EXPECT_GT(variant.at("sweep").size(), 4U);
  for (const auto& [number, digest] : variant.at("sweep").items()) {
    const Json& block = variant_texts().at("sweep").at(std::stoul(number));
    Sha256 sha;
    add_digested(sha, tokenizer, text_of_block(block));
    EXPECT_EQ(sha.hex().substr(0, 8), digest) << "from " << block.at("first");
  }
}

TEST(TokenizerVariants, GiveTheIdsOfTheLibrary) {
  EXPECT_GT(all_variants().size(), 60U);
  for (const auto& [name, variant] : all_variants().items()) expect_ids_of_the_library(name, variant);
}

}  // namespace
}  // namespace assay
