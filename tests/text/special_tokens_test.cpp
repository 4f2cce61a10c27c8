// Special tokens of the files beside tokenizer.json.
#include <string>

#include "small_tokenizer.h"

namespace assay {
namespace {

// AddedToken of the library: normalized is "not special" where a file does not say it.
TEST(SpecialTokensBeside, AreSoughtInTheTextAsItIs) {
  const TemporaryFolder folder;
  Json file = small_tokenizer();
  file["normalizer"] = {{"type", "Lowercase"}};
  folder.write("tokenizer.json", file.dump());
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {
    "262": {"content": "qz", "special": false}, "263": {"content": "QQ", "special": true}}})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("QZ"), (Ids{262}));
  EXPECT_EQ(tokenizer.encode("QQ"), (Ids{263}));
  EXPECT_EQ(tokenizer.encode("qq"), (Ids{'q', 'q'}));
}

// As in Transformers 5, whose key for them is the newer one.
TEST(SpecialTokensBeside, ExtraOnesStandInPlaceOfAdditionalOnes) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", small_tokenizer().dump());
  folder.write("tokenizer_config.json",
               R"({"extra_special_tokens": ["qq"], "additional_special_tokens": ["zz"]})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_TRUE(tokenizer.id_of("qq"));
  EXPECT_FALSE(tokenizer.id_of("zz"));
}

}  // namespace
}  // namespace assay
