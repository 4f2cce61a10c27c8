// Sequences that extend beyond the original context of LongRoPE: all their tokens turn by the long factors,
// whatever was cached before, however they are cut and batched. phi3_beyond has an original context of 24.
#include <gtest/gtest.h>

#include "assay/generate/generator.h"
#include "assay/generate/scorer.h"
#include "assay/generate/steps.h"
#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

class Longrope : public testing::TestWithParam<Isa> {
 protected:
  static constexpr const char* kModel = "phi3_beyond";
  void SetUp() override {
    if (!is_usable(GetParam())) GTEST_SKIP() << "this machine has no " << name_of(GetParam());
    const SafetensorsFile file(test::fixture_model(kModel) / "expected.safetensors");
    ids_ = test::read_ids(file, "input_ids");
    prompt_ = test::read_ids(file, "prompt_ids");
    greedy_ = test::read_ids(file, "greedy_ids");
  }
  Model load(const char* precision = "float32") const {
    return Model::load(std::make_shared<const ModelFolder>(test::fixture_model(kModel)),
                       test::cpu_backend(GetParam()), precision_from_name(precision));
  }
  std::vector<TokenId> first(std::int64_t count) const { return {ids_.begin(), ids_.begin() + count}; }

  std::vector<TokenId> ids_, prompt_, greedy_;
};

TEST_P(Longrope, AGenerationThatCrossesTheOriginalContextIsThatOfTransformers) {
  for (const char* precision : {"float32", "bfloat16", "int8-dynamic"}) {
    const Model model = load(precision);
    const std::vector<std::vector<TokenId>> prompts = {prompt_, first(23), first(24), first(25), first(40)};
    const auto ids_of = [&](const std::vector<std::vector<TokenId>>& texts, bool uses_cache,
                            Padding padding) {
      GenerationOptions options;
      options.max_new_tokens = static_cast<std::int64_t>(greedy_.size());
      options.uses_cache = uses_cache;
      options.padding = padding;
      std::vector<std::vector<TokenId>> ids;
      for (const SequenceTrace& each : generate(model.backend(), model.program(), texts, options).sequences)
        ids.push_back(each.ids);
      return ids;
    };
    std::vector<std::vector<TokenId>> want;
    for (const auto& prompt : prompts) want.push_back(ids_of({prompt}, false, Padding::none)[0]);
    if (std::string_view(precision) == "float32") {
      EXPECT_EQ(want[0], greedy_);
    }
    for (const bool uses_cache : {true, false})
      for (const Padding padding : {Padding::none, Padding::left, Padding::right})
        EXPECT_EQ(ids_of(prompts, uses_cache, padding), want)
            << precision << ", padding " << name_of(padding) << (uses_cache ? ", cache" : "");
  }
}

// The first step of the last sequence holds 10 of its 60 tokens.
TEST_P(Longrope, APromptThatIsCutIsTurnedByItsWholeLength) {
  const Model model = load();
  Program& program = model.program();
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  const std::vector<TokenId> short_ids = first(22);
  const auto cache = program.make_cache();
  std::vector<StepItem> items;
  for (int i = 0; i < 8; ++i) items.push_back({cache->add_sequence(), ids_});
  items.push_back({cache->add_sequence(), short_ids});
  items.push_back({cache->add_sequence(), ids_});
  std::vector<float> got(ids_.size() * vocab);
  std::vector<std::int64_t> cuts;
  run_in_steps(program, *cache, items, [&](std::span<const StepPart> parts) {
    for (const StepPart& part : parts) {
      if (part.item + 1 != items.size()) continue;
      cuts.push_back(part.rows);
      for (std::int64_t i = 0; i < part.rows; ++i) {
        const std::int64_t row = part.first_row + i;
        program.head(std::span(&row, 1), LogitsSink{std::span(got).subspan(
                                             static_cast<std::size_t>(part.first + i) * vocab, vocab)});
      }
    }
  });
  EXPECT_EQ(cuts, (std::vector<std::int64_t>{10, 50}));
  EXPECT_EQ(got, test::all_logits(program, ids_));
}

TEST_P(Longrope, AWindowIsScoredThroughDecodeAsThroughPrefill) {
  const Model model = load();
  EXPECT_EQ(score(model.program(), ids_, {.through = ScoreThrough::decode}).log_probabilities,
            score(model.program(), ids_, {.through = ScoreThrough::prefill}).log_probabilities);
}

INSTANTIATE_TEST_SUITE_P(All, Longrope, testing::ValuesIn(kAllIsas),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace assay
