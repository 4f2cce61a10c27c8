// Weights quantized at loading to the block types of GGUF: the bits of a GGUF file with the same types.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/base/error.h"
#include "assay/checkpoint/source.h"
#include "assay/model/model.h"
#include "assay/quant/ggml_quantize.h"
#include "assay/quantize/gguf_mix.h"
#include "assay/quantize/write_gguf.h"
#include "assay/session/load.h"
#include "assay/session/load_parts.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"
#include "support/gguf_writer.h"
#include "support/temporary_folder.h"
#include "support/wide_model.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

LoadedModel loaded_as(const fs::path& path, const RunConfig& config) {
  RunConfig own = config;
  own.threads = 2;
  return load_model_and_tokenizer({path.string()}, own, {.needs_tokenizer = false});
}

std::vector<float> logits_as(const fs::path& path, const RunConfig& config) {
  return test::all_logits(loaded_as(path, config).model->program(), {3, 17, 40, 9, 21, 60, 2});
}

class GgufAtLoad : public testing::TestWithParam<const char*> {
 protected:
  static Recipe recipe() {
    if (GetParam() != std::string_view("mix")) {
      const WeightFormat format = *weight_format_from_name(GetParam());
      return {.name = "uniform", .default_format = format, .lm_head = format};
    }
    return {.name = "mix",
            .default_format = formats::kQ4K,
            .lm_head = formats::kQ6K,
            .rules = {{"attn", formats::kQ5_1}, {"*.mlp.*proj", formats::kQ3K}}};
  }
  void expect_bits_of_file(const fs::path& model) const {
    const test::TemporaryFolder folder;
    const fs::path file = folder.path() / "m.gguf";
    write_gguf(model.string(), file, {.mix = GgufMix::of(recipe()), .threads = 2});
    for (const auto activations : {std::optional<Activations>(), std::optional(Activations::int8)}) {
      const std::vector<float> made = logits_as(model, {.recipe = recipe(), .activations = activations});
      EXPECT_TRUE(made == logits_as(file, {.activations = activations}));
      EXPECT_FALSE(made == logits_as(model, {.precision = Preset::float32}));
    }
  }
};
TEST_P(GgufAtLoad, HasTheBitsOfAFile) {
  // Stored transposed, its embedding tied: of a scale for a block, of super-blocks, and of several types.
  if (const std::string_view name = GetParam(); name == "q5_0" || name == "q4_k" || name == "mix")
    expect_bits_of_file(test::demo_model());
  const test::TemporaryFolder folder;
  test::wide_llama().write(folder.path() / "m");
  expect_bits_of_file(folder.path() / "m");
}
INSTANTIATE_TEST_SUITE_P(Formats, GgufAtLoad,
                         testing::Values("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k",
                                         "q5_k", "q6_k", "iq4_nl", "mix"));

std::vector<float> emulated_logits(const fs::path& path, const Precision& precision) {
  const auto source = open_source(path);
  const Model model = Model::load(
      source, make_cuda_backend(Device{Device::Kind::cuda, 0}, cuda::make_emulated_runtime()), precision);
  return test::all_logits(model.program(), {3, 17, 40, 9});
}

// The device only places what it gets.
TEST(GgufAtLoadOnAGpu, HasTheBitsOfAFile) {
  const test::TemporaryFolder folder;
  test::wide_llama().write(folder.path() / "m");
  for (const WeightFormat& format : {formats::kQ5_1, formats::kQ4K}) {
    const Recipe recipe{.name = "one", .default_format = format, .lm_head = format};
    const fs::path file = folder.path() / (name_of(format) + ".gguf");
    write_gguf((folder.path() / "m").string(), file, {.mix = GgufMix::of(recipe), .threads = 2});
    EXPECT_TRUE(emulated_logits(folder.path() / "m", precision_of(recipe)) ==
                emulated_logits(file, loaded_as(file, {}).model->precision()));
  }
}

TEST(GgufPrecision, IsARecipeOfItsFormat) {
  const fs::path demo = test::demo_model();
  for (const char* name : {"Q8_0", "q4_k", "q3_k"}) {
    const Precision precision = precision_from_name(name);
    const LoadedModel loaded = loaded_as(demo, {.precision = preset_from_name(name)});
    EXPECT_EQ(loaded.dtype_label, precision.name);
    EXPECT_EQ(loaded.config.precision, preset_from_name(name));
    EXPECT_EQ(loaded.model->precision().lm_head, formats::kFloat32);
    EXPECT_TRUE(loaded.warnings.empty());
    EXPECT_TRUE(test::all_logits(loaded.model->program(), {3, 17, 40, 9, 21, 60, 2}) ==
                logits_as(demo, {.recipe = Recipe{.name = "one", .default_format = precision.weights}}));
  }
}

// Formats of the matrices, in the order of the plan.
std::vector<std::string> formats_in(const LoadedModel& loaded) {
  std::vector<std::string> names;
  const Plan& plan = loaded.model->program().plan();
  for (const Op& op : plan.ops)
    if (const auto* product = std::get_if<LinearOp>(&op.kind))
      names.push_back(recipe_name_of(plan.weight(product->weight).format));
  return names;
}

std::string refusal_of_loading(const fs::path& path, const RunConfig& config) {
  try {
    loaded_as(path, config);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The LM head alone in another type; the demo's is the embedding too, whose rows are looked up.
TEST(GgufPrecision, TakesAnLmHeadOfAnotherType) {
  const test::TemporaryFolder folder;
  test::wide_llama().write(folder.path() / "m");
  for (const fs::path& model : {test::demo_model(), folder.path() / "m"}) {
    const std::vector<float> own =
        logits_as(model, {.precision = Preset::q4_k, .quantize_head = formats::kQ6K});
    const Recipe recipe{.name = "r", .default_format = formats::kQ4K, .lm_head = formats::kQ6K};
    EXPECT_TRUE(own == logits_as(model, {.recipe = recipe}));
    EXPECT_FALSE(own == logits_as(model, {.precision = Preset::q4_k}));
  }
  EXPECT_NE(
      refusal_of_loading(test::demo_model(), {.precision = Preset::q4_k, .quantize_head = formats::kLlmInt8})
          .find("expected int8, nf4, fp4, q8_0, q6_k"),
      std::string::npos);
}

TEST(GgufPrecision, FallsBackWhereBlocksDoNotDivideTheInputs) {
  const test::TemporaryFolder folder;
  const fs::path narrow = folder.path() / "narrow", odd = folder.path() / "odd";
  test::wide_llama(96).write(narrow);
  test::wide_llama(40).write(odd);
  const LoadedModel loaded = loaded_as(narrow, {.precision = Preset::q4_k});
  EXPECT_EQ(formats_in(loaded), (std::vector<std::string>{"q4_k", "q4_k", "q4_k", "q5_0"}));
  ASSERT_EQ(loaded.warnings.size(), 1U);
  EXPECT_EQ(loaded.warnings[0].kind, WarningKind::format_fallback);
  EXPECT_EQ(loaded.warnings[0].text,
            "1 of 7 weights have inputs that blocks of 256 (q4_k) do not divide, and are in other formats as "
            "llama.cpp has it: 1 in q5_0");
  for (const auto& [preset, fallback] : {std::pair{Preset::q6_k, "q8_0"},
                                         {Preset::q5_k, "q5_1"},
                                         {Preset::q3_k, "q4_0"},
                                         {Preset::q2_k, "q4_0"}})
    EXPECT_EQ(formats_in(loaded_as(narrow, {.precision = preset})).back(), fallback);
  EXPECT_EQ(formats_in(loaded_as(odd, {.precision = Preset::q8_0})).back(), "float32");
  const CoverageFacts coverage =
      coverage_of(loaded_as(odd, {.precision = Preset::q8_0}).model->program().plan());
  bool has_reason = false;
  for (const CoverageFacts::Tensor& tensor : coverage.tensors)
    has_reason = has_reason || tensor.reason == "its inputs are no whole number of blocks";
  EXPECT_TRUE(has_reason);
}

TEST(GgufRecipe, RefusesInputsThatBlocksDoNotDivide) {
  const test::TemporaryFolder folder;
  test::wide_llama(96).write(folder.path());
  const Recipe recipe{.name = "one", .default_format = formats::kQ4K};
  EXPECT_EQ(
      refusal_of_loading(folder.path(), {.recipe = recipe}),
      "weight 'model.layers.0.mlp.down_proj.weight': expected a multiple of 256 inputs, which a block of "
      "q4_k has, found 96");
  const Recipe other{.name = "other", .default_format = formats::kIq4Xs};
  EXPECT_NE(refusal_of_loading(folder.path(), {.recipe = other}).find("weights are not quantized to iq4_xs"),
            std::string::npos);
}

// What cannot be loaded is not written in another format.
TEST(GgufRecipe, RefusesInWritingWhatItRefusesAtLoad) {
  const test::TemporaryFolder folder;
  test::wide_llama(96).write(folder.path());
  const fs::path out = folder.path() / "m.gguf";
  const auto refusal = [&](const Recipe& recipe) -> std::string {
    try {
      write_gguf(folder.path().string(), out, {.mix = GgufMix::of(recipe), .threads = 2});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(refusal({.name = "one", .default_format = formats::kQ4K}),
            "weight 'blk.0.ffn_down.weight': expected a multiple of 256 inputs, which a block of Q4_K has, "
            "found 96");
  const std::string said =
      refusal({.name = "one", .default_format = formats::kQ4_0, .rules = {{"blk.0.*", formats::kQ8_0}}});
  EXPECT_NE(said.find("'blk.0.*' matches none of the"), std::string::npos) << said;
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(refusal({.name = "one", .default_format = formats::kQ4_0}), "no error");
}

TEST(GgufRecipe, RefusesNumbersThatBlocksCannotHold) {
  constexpr const char* kDown = "model.layers.0.mlp.down_proj.weight";
  const Recipe recipe{.name = "one", .default_format = formats::kQ4_0};
  for (const auto& [value, what] :
       {std::pair{std::numeric_limits<float>::quiet_NaN(), "found NaN or infinity"},
        {70000.0F, "expected numbers up to 65504, which q4_0 holds, found 70000"}}) {
    const test::TemporaryFolder folder;
    test::TinyModel model = test::wide_llama();
    model.tensor(kDown).bytes.replace(8, 4, test::raw(value));
    model.write(folder.path());
    const std::string said = refusal_of_loading(folder.path(), {.recipe = recipe});
    EXPECT_NE(said.find(std::string("tensor '") + kDown + "'"), std::string::npos) << said;
    EXPECT_NE(said.find(what), std::string::npos) << said;
    if (!std::isnan(value)) continue;
    RunConfig allowed{.recipe = recipe};
    allowed.allow_non_finite = true;
    for (const float logit : logits_as(folder.path(), allowed)) EXPECT_TRUE(std::isfinite(logit));
  }
}

}  // namespace
}  // namespace assay
