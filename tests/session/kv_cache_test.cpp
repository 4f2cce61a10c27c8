// Keys and values in fewer bits: what a loaded model says of them, takes for them and loses by them.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/checkpoint/source.h"
#include "assay/generate/steps.h"
#include "assay/model/families/families.h"
#include "assay/model/model.h"
#include "assay/plan/cost.h"
#include "assay/session/perplexity.h"
#include "assay/session/resolve.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

LoadedModel load_demo(Preset precision, KvFormat kv_cache, Isa isa) {
  return load_model_and_tokenizer({test::demo_model().string()},
                                  {.precision = precision, .kv_cache = kv_cache, .isa = isa});
}

// Blocks of 64 positions, of which a sequence of 65 takes two; 4 layers of 4 heads of 64.
TEST(KvCache, BytesAreThoseOfTheFormat) {
  for (const auto& [format, each] :
       {std::pair{KvFormat::float32, 256}, {KvFormat::bfloat16, 128}, {KvFormat::int8, 68}}) {
    const std::string_view name = name_of(format);
    const LoadedModel loaded = load_demo(Preset::float32, format, best_usable_isa());
    Program& program = loaded.model->program();
    const std::int64_t per_position = 2 * 4 * 4 * each;
    EXPECT_EQ(program.cache_bytes(65).value, 128 * per_position) << name;
    EXPECT_EQ(loaded.model->backend().predict(program.plan(), 65).kv_cache.value, 128 * per_position) << name;
    const std::vector<TokenId> ids(65, 1);
    const auto cache = program.make_cache();
    const StepItem item{cache->add_sequence(), ids};
    run_in_steps(program, *cache, std::span(&item, 1), [](std::span<const StepPart>) {});
    EXPECT_EQ(cache->bytes().value, 128 * per_position) << name;
    EXPECT_EQ(cost_of(program.plan(), 1, 900, 1).kv_bytes.value, 901 * per_position) << name;
  }
}

// A sequence that is cut gives back the blocks that it no longer needs, where it ends with one too.
TEST(KvCache, IsSmallerWhereASequenceIsCut) {
  const LoadedModel loaded = load_demo(Preset::float32, KvFormat::float32, best_usable_isa());
  Program& program = loaded.model->program();
  const std::vector<TokenId> ids(130, 1);
  const auto cache = program.make_cache();
  const StepItem item{cache->add_sequence(), ids};
  run_in_steps(program, *cache, std::span(&item, 1), [](std::span<const StepPart>) {});
  for (const std::int64_t length : {129, 128, 64, 1, 0}) {
    cache->truncate(item.sequence, length);
    EXPECT_EQ(cache->bytes().value, program.cache_bytes(length).value) << length;
  }
}

TEST(KvCache, IsNamedInTheLabelWhereItIsChosen) {
  const auto label = [](Preset precision, KvFormat kv_cache) {
    return load_demo(precision, kv_cache, best_usable_isa()).dtype_label;
  };
  EXPECT_EQ(label(Preset::float32, KvFormat::int8), "float32, KV cache int8");
  EXPECT_EQ(label(Preset::nf4, KvFormat::bfloat16), "nf4, KV cache bfloat16");
}

// Numbers computed from another cache are others.
TEST(KvCache, IsNamedAmongWhatChangesNumbers) {
  EXPECT_EQ((RunConfig{.kv_cache = KvFormat::int8}).label_of_numbers(), ", KV cache int8");
}

// A byte for each of a key's numbers costs a hundredth of what 4-bit weights do, and it does cost something:
// the codes are what attention reads, of a prompt too.
TEST(KvCache, Int8LosesLittle) {
  if (kIsSanitized)
    GTEST_SKIP() << "long texts take minutes under a sanitizer; the release build scores them";
  for (const Isa isa : test::usable_isas()) {
    if (isa == Isa::scalar) continue;  // minutes
    const auto loss = [&](Preset precision, KvFormat kv_cache) {
      return score_file(load_demo(precision, kv_cache, isa), test::demo_model() / "texts/evaluate.txt",
                        {.stride = 1024})
          .score.loss;
    };
    for (const Preset precision : {Preset::float32, Preset::bfloat16}) {
      const double plain = loss(precision, KvFormat::float32), int8 = loss(precision, KvFormat::int8);
      EXPECT_NE(int8, plain) << name_of(isa) << " " << name_of(precision);
      EXPECT_NEAR(int8, plain, 2e-3) << name_of(isa) << " " << name_of(precision);
    }
  }
}

// The step of a token reads what its prompt stored: the same bits either way.
TEST(KvCache, Int8ScoresTheSameThroughDecode) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path() / "text.txt",
                   test::read_file(test::demo_model() / "texts/evaluate.txt").substr(0, 1500));
  const LoadedModel loaded = load_demo(Preset::float32, KvFormat::int8, best_usable_isa());
  const auto through = [&](ScoreThrough how) {
    return score_file(loaded, folder.path() / "text.txt", {.context = 200, .stride = 200, .through = how})
        .score.log_probabilities;
  };
  EXPECT_EQ(through(ScoreThrough::decode), through(ScoreThrough::prefill));
}

// A precision that nobody named is known once the model is: what was asked for is applied, or refused, then.
TEST(Resolve, AppliesWhatIsAskedWhereNoPrecisionIsNamed) {
  const auto source = open_source(test::fixture_model("minimal"));
  const ModelSpec spec = spec_from_source(*source);
  RunConfig config;
  config.kv_cache = KvFormat::int8;
  const ResolvedRun run = resolve(resolve(config), *source, spec, "minimal");
  EXPECT_EQ(run.dtype.label, "float32" + config.label_of_numbers());
  EXPECT_NE(run.dtype.label, "float32");
  config.dtype = DType::bf16;
  EXPECT_THROW(resolve(resolve(config), *source, spec, "minimal"), FieldError);
}

}  // namespace
}  // namespace assay
