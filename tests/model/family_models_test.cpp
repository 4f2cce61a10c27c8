// A small model or more of each family: caches, batches, precisions. Logits are compared in
// fixtures_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/generate/generator.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "support/family_models.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

const char* const kLlamas[] = {"llama_grouped", "llama_scaled", "llama_biased", "llama_minimal"};

Model load(const std::string& name, Isa isa, const Precision& precision, int threads = 2) {
  return Model::load(std::make_shared<const ModelFolder>(test::fixture_model(name)),
                     test::cpu_backend(isa, threads), precision);
}

class FamilyModel : public testing::TestWithParam<std::tuple<const char*, Isa>> {
 protected:
  void SetUp() override {
    if (!is_usable(std::get<1>(GetParam())))
      GTEST_SKIP() << "this machine has no " << name_of(std::get<1>(GetParam()));
  }
  std::string name() const { return std::get<0>(GetParam()); }
  Isa isa() const { return std::get<1>(GetParam()); }
};

TEST_P(FamilyModel, WritesTheGreedyTokensOfTransformers) {
  const SafetensorsFile file(test::fixture_model(name()) / "expected.safetensors");
  const std::vector<TokenId> prompt = test::read_ids(file, "prompt_ids"),
                             want = test::read_ids(file, "greedy_ids");
  const Model model = load(name(), isa(), precision_from_name("float32"));
  for (const bool uses_cache : {true, false}) {
    GenerationOptions options;
    options.max_new_tokens = static_cast<std::int64_t>(want.size());
    options.uses_cache = uses_cache;
    const GenerationTrace trace = generate(model.backend(), model.program(), {prompt}, options);
    EXPECT_EQ(trace.sequences[0].ids, want) << (uses_cache ? "with" : "without") << " a cache";
  }
}

// Neighbours in a batch, its cut into steps and the number of threads change no bit, in any precision.
TEST_P(FamilyModel, HasTheSameBitsInARaggedBatch) {
  const SafetensorsFile file(test::fixture_model(name()) / "expected.safetensors");
  const std::vector<TokenId> ids = test::read_ids(file, "input_ids");
  for (const char* precision : {"float32", "bfloat16", "int8-dynamic", "nf4", "fp4-dq"}) {
    const Model model = load(name(), isa(), precision_from_name(precision), 3),
                alone = load(name(), isa(), precision_from_name(precision), 1);
    const auto vocab = static_cast<std::size_t>(model.program().plan().vocab);
    const std::size_t lengths[] = {ids.size(), 5, ids.size() / 2, 17};
    std::vector<std::vector<TokenId>> sequences;
    for (const std::size_t length : lengths)
      sequences.emplace_back(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length));
    const auto cache = model.program().make_cache();
    std::vector<StepItem> items;
    for (const auto& sequence : sequences) items.push_back({cache->add_sequence(), sequence});
    std::vector<std::vector<float>> got(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) got[i].resize(lengths[i] * vocab);
    run_in_steps(model.program(), *cache, items, [&](std::span<const StepPart> parts) {
      for (const StepPart& part : parts)
        for (std::int64_t i = 0; i < part.rows; ++i) {
          const std::int64_t row = part.first_row + i;
          model.program().head(
              std::span(&row, 1),
              LogitsSink{std::span(got[static_cast<std::size_t>(part.item)])
                             .subspan(static_cast<std::size_t>(part.first + i) * vocab, vocab)});
        }
    });
    for (std::size_t i = 0; i < items.size(); ++i) {
      // One or two rows of 4-bit weights have an arithmetic of their own beside bfloat16 alone.
      EXPECT_EQ(got[i], test::all_logits(alone.program(), sequences[i])) << precision << ", sequence " << i;
    }
  }
}

// What 4 bits leave of the model: other logits, near the exact ones.
TEST_P(FamilyModel, LoadsInFourBits) {
  const SafetensorsFile file(test::fixture_model(name()) / "expected.safetensors");
  const std::vector<TokenId> ids = test::read_ids(file, "input_ids");
  const std::vector<float> want = test::read_floats(file, "logits");
  const Model model = load(name(), isa(), precision_from_name("nf4"));
  const std::vector<float> got = test::all_logits(model.program(), ids);
  for (const float logit : got) ASSERT_TRUE(std::isfinite(logit));
  const double error = test::rms_difference(got, want) / test::standard_deviation_of(want);
  EXPECT_GT(error, 1e-3);
  EXPECT_LT(error, 1.2);
}

// Rows that nobody reads are left out behind the last attention, queries too, with the same bits.
TEST_P(FamilyModel, LeavesOutRowsWithTheSameBits) {
  const SafetensorsFile file(test::fixture_model(name()) / "expected.safetensors");
  const std::vector<TokenId> ids = test::read_ids(file, "input_ids");
  for (const char* precision : {"float32", "bfloat16", "int8-dynamic", "nf4"}) {
    const Model model = load(name(), isa(), precision_from_name(precision));
    Program& program = model.program();
    Batch batch;
    batch.ids = ids;
    for (std::size_t i = 0; i < ids.size(); ++i) batch.positions.push_back(static_cast<std::int32_t>(i));
    const auto rows = static_cast<std::int64_t>(ids.size()), last = rows - 1;
    std::vector<float> whole(static_cast<std::size_t>(program.plan().vocab)), pruned = whole;
    for (const bool wants_all : {true, false}) {
      const auto cache = program.make_cache();
      batch.sequences = {{.sequence = cache->add_sequence(), .first_row = 0, .rows = rows}};
      batch.wants_all = wants_all;
      batch.wanted = {last};
      program.run(batch, *cache);
      program.head(std::span(&last, 1), LogitsSink{wants_all ? whole : pruned});
    }
    EXPECT_EQ(whole, pruned) << precision;
  }
}

// For families whose queries, keys and values are modules of their own.
class LlamaModules : public FamilyModel {};

// Quantized modules that share their activations are one product or, where not all of them are, several: the
// codes of each are the same, and so are the outputs.
TEST_P(LlamaModules, GivesTheSameWhereModulesAreQuantizedApart) {
  const SafetensorsFile file(test::fixture_model(name()) / "expected.safetensors");
  const std::vector<TokenId> ids = test::read_ids(file, "input_ids");
  Precision mixed = precision_from_name("nf4");
  set_modules(mixed, {.include = {}, .exclude = {"*.k_proj", "*.up_proj"}});
  const Model model = load(name(), isa(), mixed), plain = load(name(), isa(), precision_from_name("float32")),
              whole = load(name(), isa(), precision_from_name("nf4"));
  const std::vector<float> exact = test::all_logits(plain.program(), ids);
  const double mixed_error = test::largest_difference(test::all_logits(model.program(), ids), exact),
               whole_error = test::largest_difference(test::all_logits(whole.program(), ids), exact);
  EXPECT_GT(mixed_error, 0);
  EXPECT_LT(mixed_error, 3 * test::standard_deviation_of(exact));
  EXPECT_NE(mixed_error, whole_error);
  Precision none = precision_from_name("nf4");
  set_modules(none, {.include = {"*.down_proj"}, .exclude = {}});
  none.skipped_modules = {};
  EXPECT_LT(test::largest_difference(test::all_logits(load(name(), isa(), none).program(), ids), exact),
            whole_error);
}

std::string name_of_model(const testing::TestParamInfo<std::tuple<const char*, Isa>>& param) {
  return std::string(std::get<0>(param.param)) + "_" + std::string(name_of(std::get<1>(param.param)));
}
INSTANTIATE_TEST_SUITE_P(OfFamilies, FamilyModel,
                         testing::Combine(testing::ValuesIn(test::kFamilyModels),
                                          testing::ValuesIn(kAllIsas)),
                         name_of_model);
INSTANTIATE_TEST_SUITE_P(OfLlama, FamilyModel,
                         testing::Combine(testing::ValuesIn(kLlamas), testing::ValuesIn(kAllIsas)),
                         name_of_model);
INSTANTIATE_TEST_SUITE_P(OfLlama, LlamaModules,
                         testing::Combine(testing::ValuesIn(kLlamas), testing::ValuesIn(kAllIsas)),
                         name_of_model);

TEST(LlamaPlan, IsOneMatrixMultiplicationForQueriesKeysAndValues) {
  const ModelFolder folder(test::fixture_model("llama_grouped"));
  const Plan plan = plan_forward(spec_from_source(folder), precision_from_name("float32"));
  const auto linear_ops = std::count_if(plan.ops.begin(), plan.ops.end(), [](const Op& op) {
    return std::holds_alternative<LinearOp>(op.kind);
  });
  EXPECT_EQ(linear_ops, 2 * 4);
  EXPECT_EQ(modules_of(plan).size(), 2U * 7);
  Precision mixed = precision_from_name("nf4");
  set_modules(mixed, {.include = {}, .exclude = {"*.k_proj"}});
  const Plan apart = plan_forward(spec_from_source(folder), mixed);
  EXPECT_EQ(apart.ops.size(), plan.ops.size() + 2 * 2);
}

TEST(LlamaFolder, NamesTheBuffersThatItDoesNotNeed) {
  const Model model = load("llama_minimal", best_usable_isa(), precision_from_name("float32"));
  ASSERT_EQ(model.warnings().size(), 1U);
  EXPECT_NE(model.warnings()[0].find("rotary_emb.inv_freq"), std::string::npos);
}

}  // namespace
}  // namespace assay
