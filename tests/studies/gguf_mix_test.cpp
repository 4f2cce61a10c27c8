// A mix of GGUF's block types: chosen, written as a GGUF file, and measured there.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/quantize/write_gguf.h"
#include "assay/session/divergence.h"
#include "assay/studies/mix.h"
#include "support/temporary_folder.h"
#include "support/wide_model.h"

namespace assay {
namespace {

constexpr const char* kNarrow = "model.layers.0.mlp.down_proj";

LoadedModel loaded_in(const std::filesystem::path& path, std::optional<Preset> precision = {}) {
  return load_model_and_tokenizer({path.string()}, {.precision = precision, .threads = 2},
                                  {.needs_tokenizer = false});
}

std::vector<TokenId> some_ids(std::size_t count, int step) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<TokenId>((i * i + static_cast<std::size_t>(step) * i) % 64));
  return ids;
}

TEST(GgufMixOfParts, IsMeasuredAsTheFileThatIsWritten) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "m", file = folder.path() / "m.gguf";
  test::wide_llama(96).write(path);
  ItemExchange model(loaded_in(path, Preset::float32));
  const std::vector<TokenId> chosen_by = some_ids(64, 3), held_out = some_ids(80, 5);
  MixOptions options{
      .candidates = {formats::kQ3K, formats::kQ4K, formats::kQ5_0, formats::kQ6K, formats::kQ8_0},
      .limit = {"memory", 0}};
  const std::size_t q4_k = 1, q5_0 = 2, q8_0 = 4;
  auto bytes = static_cast<double>(model.other_bytes().value);
  std::size_t narrow = 0;
  for (std::size_t i = 0; i < model.items().size(); ++i) {
    const bool is_narrow = model.items()[i].name == kNarrow;
    if (is_narrow) narrow = i;
    EXPECT_EQ(model.takes(i, formats::kQ4K), !is_narrow);
    bytes += static_cast<double>(model.bytes(i, options.candidates[is_narrow ? q5_0 : q4_k]).value);
  }
  options.limit.bound = 1.2 * bytes;
  const Mix mix = find_mix(model, chosen_by, held_out, options);
  EXPECT_LE(static_cast<double>(mix.chosen.bytes.value), options.limit.bound);
  EXPECT_TRUE(mix.chosen.choice[narrow] == q5_0 || mix.chosen.choice[narrow] == q8_0);
  EXPECT_FALSE(mix.chosen.recipe.rules.empty());

  // Only formats that all parts can have are uniform ones.
  ASSERT_EQ(mix.uniform.size(), 2U);
  EXPECT_EQ(mix.uniform[0].name, "q5_0+head:q5_0");
  EXPECT_EQ(mix.uniform[1].name, "q8_0+head:q8_0");
  const std::vector<LeftOutFormat> left_out = mix.left_out(options.candidates);
  ASSERT_EQ(left_out.size(), 3U);
  EXPECT_EQ(left_out[1].format, formats::kQ4K);
  EXPECT_EQ(left_out[1].items, std::vector<std::string>{kNarrow});

  write_gguf(path.string(), file, {.mix = GgufMix::of(mix.chosen.recipe), .threads = 2});
  const LoadedModel written = loaded_in(file);
  Program* const candidate = &written.model->program();
  const Divergence found =
      measure_divergence(model.base().model->program(), std::span(&candidate, 1), held_out, {});
  std::vector<double> kl;
  for (const TokenDivergence& token : found.candidates.front().tokens) kl.push_back(token.kl);
  EXPECT_GT(mix.chosen.kl.value, 0);
  EXPECT_EQ(statistics::mean(kl), mix.chosen.kl.value);
}

TEST(GgufMixOfParts, LeavesOutWhatHasNoWholeBlocks) {
  const test::TemporaryFolder folder;
  test::wide_llama(96).write(folder.path());
  ItemExchange model(loaded_in(folder.path(), Preset::float32));
  const std::vector<TokenId> ids = some_ids(40, 3);
  const Sensitivity found = measure_sensitivity(model, formats::kQ4K, ids);
  EXPECT_EQ(found.left_out, std::vector<std::string>{kNarrow});
  EXPECT_EQ(found.items.size(), model.items().size() - 1);
  EXPECT_TRUE(measure_sensitivity(model, formats::kQ8_0, ids).left_out.empty());
  try {
    find_mix(model, ids, ids, {.candidates = {formats::kQ4K, formats::kQ6K}, .limit = {"memory", 1e9}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "model.layers.0.mlp.down_proj: its 96 inputs are no whole number of blocks of any of q4_k, q6_k; add "
        "q8_0 to the candidates");
  }
}

TEST(FormatNames, AreThoseThatWeightsAreQuantizedTo) {
  EXPECT_EQ(format_from_name("Q4_K", "candidates"), formats::kQ4K);
  EXPECT_EQ(format_from_name("q5_1", "candidates"), formats::kQ5_1);
  EXPECT_THROW(format_from_name("iq4_xs", "candidates"), FieldError);
}

}  // namespace
}  // namespace assay
