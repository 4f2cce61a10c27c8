// Logits of tiny random models against those of Hugging Face Transformers, on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/base/error.h"
#include "assay/model/families/families.h"
#include "assay/model/model.h"
#include "support/family_models.h"
#include "support/fixtures.h"

namespace assay {
namespace {

using test::all_logits;
using test::fixture_model;

// Relative to the logits' standard deviation. The promise is 2e-4; the fixtures reach 6e-6, and a tenth of
// the promise lets the smallest broken ingredient (tanh for erf) stand out by far more than five times.
constexpr double kTolerance = 2e-5;

const char* const kModels[] = {
    "base",          "odd_heads",     "untied",       "sharded",      "no_prefix", "f16",
    "bf16",          "n_inner",       "gelu_erf",     "relu",         "silu",      "gelu_pytorch_tanh",
    "upcast",        "inverse_layer", "no_scale",     "epsilon",      "minimal",   "with_tokenizer",
    "llama_grouped", "llama_scaled",  "llama_biased", "llama_minimal"};

struct Expected {
  std::vector<TokenId> ids;
  std::vector<float> logits;
};

Expected expected(const std::string& name) {
  const SafetensorsFile file(fixture_model(name) / "expected.safetensors");
  return {test::read_ids(file, "input_ids"), test::read_floats(file, "logits")};
}

class ModelFixture : public testing::TestWithParam<std::tuple<const char*, Isa>> {};

TEST_P(ModelFixture, LogitsEqualTransformers) {
  const auto& [name, isa] = GetParam();
  if (!is_usable(isa)) GTEST_SKIP() << "this machine has no " << name_of(isa);
  const auto folder = std::make_shared<const ModelFolder>(fixture_model(name));
  const Model model = Model::load(folder, test::cpu_backend(isa), precision_from_name("float32"));
  const Expected want = expected(name);
  const std::vector<float> got = all_logits(model.program(), want.ids);
  const double error = test::largest_difference(got, want.logits) / test::standard_deviation_of(want.logits);
  RecordProperty("error", fmt::format("{:.1e}", error));
  EXPECT_LE(error, kTolerance);
}

std::string name_of_fixture(const testing::TestParamInfo<std::tuple<const char*, Isa>>& param) {
  return std::string(std::get<0>(param.param)) + "_" + std::string(name_of(std::get<1>(param.param)));
}
INSTANTIATE_TEST_SUITE_P(OfFamilies, ModelFixture,
                         testing::Combine(testing::ValuesIn(test::kFamilyModels),
                                          testing::ValuesIn(kAllIsas)),
                         name_of_fixture);
INSTANTIATE_TEST_SUITE_P(All, ModelFixture,
                         testing::Combine(testing::ValuesIn(kModels), testing::ValuesIn(kAllIsas)),
                         name_of_fixture);

// Each ingredient, broken on purpose, must move the logits by at least five times the tolerance: else the
// fixtures could not tell a right program from a wrong one.
struct Break {
  const char* name;
  const char* model;
  void (*apply)(ModelSpec&);
};

void PrintTo(const Break& broken, std::ostream* out) {
  *out << broken.name;
}

const Break kBreaks[] = {
    {"tanh_for_erf", "gelu_erf", [](ModelSpec& s) { s.activation = Activation::gelu_tanh; }},
    {"erf_for_tanh", "base", [](ModelSpec& s) { s.activation = Activation::gelu_erf; }},
    {"quick_for_tanh", "base", [](ModelSpec& s) { s.activation = Activation::gelu_quick; }},
    {"silu_for_relu", "relu", [](ModelSpec& s) { s.activation = Activation::silu; }},
    {"epsilon", "base", [](ModelSpec& s) { s.epsilon = 1e-6F; }},
    {"attention_scale", "base", [](ModelSpec& s) { s.scales_attention = false; }},
    {"attention_scale_added", "no_scale", [](ModelSpec& s) { s.scales_attention = true; }},
    {"inverse_layer", "inverse_layer", [](ModelSpec& s) { s.scales_attention_by_layer = false; }},
    {"mask", "base", [](ModelSpec& s) { s.attention_window = 8; }},
    {"mask_across_blocks", "odd_heads", [](ModelSpec& s) { s.attention_window = 100; }},
    {"norm", "base", [](ModelSpec& s) { s.norm = Norm::rms; }},
    {"layer_norm_for_rms", "llama_grouped", [](ModelSpec& s) { s.norm = Norm::layer; }},
    {"rms_epsilon", "llama_grouped", [](ModelSpec& s) { s.epsilon = 1e-6F; }},
    {"gelu_for_silu", "llama_grouped", [](ModelSpec& s) { s.activation = Activation::gelu_tanh; }},
    {"rotary_pairing", "llama_grouped", [](ModelSpec& s) { s.rotary.pairing = RotaryPairing::neighbours; }},
    {"rotary_share", "llama_grouped", [](ModelSpec& s) { s.rotary.frequencies.pop_back(); }},
    {"rotary_amplitude", "llama_grouped", [](ModelSpec& s) { s.rotary.amplitude = 1.1F; }},
    {"rotary_base", "llama_biased", [](ModelSpec& s) { s.rotary.frequencies[1] *= 1.01F; }},
    {"rotary_scaling", "llama_scaled",
     [](ModelSpec& s) {
       for (std::size_t i = 0; i < s.rotary.frequencies.size(); ++i)
         s.rotary.frequencies[i] =
             std::pow(500000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(s.head_dim));
     }},
    {"attention_scale_of_llama", "llama_grouped", [](ModelSpec& s) { s.scales_attention = false; }},
    {"grouped_window", "llama_grouped", [](ModelSpec& s) { s.attention_window = 100; }},
    {"bias_of_queries", "llama_biased", [](ModelSpec& s) { s.has_qkv_bias = false; }},
    {"bias_of_mlp", "llama_biased", [](ModelSpec& s) { s.has_mlp_bias = false; }},
    {"window", "mistral_window", [](ModelSpec& s) { s.attention_window = 0; }},
    {"window_by_one", "mistral_window", [](ModelSpec& s) { ++s.attention_window; }},
    {"window_of_late_layers", "qwen2_window", [](ModelSpec& s) { s.has_window.clear(); }},
    {"window_of_local_layers", "gpt_neo_alternating", [](ModelSpec& s) { s.has_window.flip(); }},
    {"window_switched_off", "qwen2_biased", [](ModelSpec& s) { s.attention_window = 5; }},
    {"bias_of_qkv_alone", "qwen2_biased", [](ModelSpec& s) { s.has_qkv_bias = false; }},
    {"yarn_amplitude", "mistral_yarn", [](ModelSpec& s) { s.rotary.amplitude = 1; }},
    {"yarn_ramp", "mistral_yarn", [](ModelSpec& s) { s.rotary.frequencies[1] *= 1.01F; }},
    {"longrope_amplitude", "phi3_longrope", [](ModelSpec& s) { s.rotary.amplitude = 1; }},
    {"longrope_factor", "phi3_longrope", [](ModelSpec& s) { s.rotary.frequencies[2] *= 2.1F; }},
    {"longrope_long_factor", "phi3_beyond", [](ModelSpec& s) { s.rotary.long_frequencies[1] *= 1.01F; }},
    {"longrope_beyond", "phi3_beyond", [](ModelSpec& s) { s.rotary.long_frequencies.clear(); }},
    {"longrope_original_context", "phi3_beyond", [](ModelSpec& s) { s.rotary.original_context = 96; }},
    {"rotary_part", "phi_partial", [](ModelSpec& s) { s.rotary.frequencies.pop_back(); }},
    {"rotary_of_odd_part", "gpt_neox_serial", [](ModelSpec& s) { s.rotary.frequencies.pop_back(); }},
    {"rotary_neighbours", "gptj_partial", [](ModelSpec& s) { s.rotary.pairing = RotaryPairing::halves; }},
    {"rotary_neighbours_of_cohere", "cohere_scaled",
     [](ModelSpec& s) { s.rotary.pairing = RotaryPairing::halves; }},
    {"rotary_of_some_layers", "smollm3_interval", [](ModelSpec& s) { s.has_rotary.clear(); }},
    {"rotary_of_windows", "gemma3_scaled", [](ModelSpec& s) { s.window_rotary.reset(); }},
    {"rotary_scaling_of_full_layers", "gemma3_scaled", [](ModelSpec& s) { s.rotary.frequencies[0] *= 4; }},
    {"norm_of_heads", "qwen3_heads", [](ModelSpec& s) { s.qk_norm = QkNorm::none; }},
    {"norm_of_each_head", "stablelm_normed", [](ModelSpec& s) { s.qk_norm = QkNorm::none; }},
    {"norm_of_whole_rows", "olmo2_grouped", [](ModelSpec& s) { s.qk_norm = QkNorm::none; }},
    {"bias_of_head_norms", "phi_normed", [](ModelSpec& s) { s.has_qk_norm_bias = false; }},
    {"order_of_fused_heads", "gpt_neox_parallel", [](ModelSpec& s) { s.qkv_order = QkvOrder::by_kind; }},
    {"order_of_grouped_heads", "falcon_grouped", [](ModelSpec& s) { s.qkv_order = QkvOrder::by_kind; }},
    {"parallel", "gpt_neox_parallel", [](ModelSpec& s) { s.is_parallel = false; }},
    {"serial", "gpt_neox_serial", [](ModelSpec& s) { s.is_parallel = true; }},
    {"parallel_of_one_norm", "phi_partial",
     [](ModelSpec& s) {
       s.is_parallel = false;
       s.names.mlp_norm = s.names.attention_norm;
     }},
    {"second_parallel_norm", "falcon_grouped", [](ModelSpec& s) { s.names.mlp_norm = ""; }},
    {"post_norm", "opt_post_norm", [](ModelSpec& s) { s.is_post_norm = false; }},
    {"final_norm_before_projection", "opt_projected", [](ModelSpec& s) { s.names.final_norm = ""; }},
    {"position_offset", "opt_plain",
     [](ModelSpec& s) {
       ++s.context;
       --s.position_offset;
     }},
    {"unscaled_attention", "gpt_neo_untied", [](ModelSpec& s) { s.scales_attention = true; }},
    {"attention_multiplier", "gemma2_typed", [](ModelSpec& s) { s.attention_multiplier.reset(); }},
    {"attention_cap", "gemma2_capped", [](ModelSpec& s) { s.attention_cap = 0; }},
    {"logit_cap", "gemma2_capped", [](ModelSpec& s) { s.logit_cap = 0; }},
    {"legacy_gelu", "gemma_legacy", [](ModelSpec& s) { s.activation = Activation::gelu_erf; }},
    {"gain_offset", "gemma_legacy", [](ModelSpec& s) { s.gain_offset = 0; }},
    {"embed_scale", "gemma_legacy", [](ModelSpec& s) { s.embed_scale = 1; }},
    {"norm_behind_attention", "gemma2_capped", [](ModelSpec& s) { s.names.attention_out_norm = ""; }},
    {"norm_behind_mlp", "gemma3_typed", [](ModelSpec& s) { s.names.mlp_out_norm = ""; }},
    {"no_norm_before_blocks", "olmo2_grouped",
     [](ModelSpec& s) { s.names.attention_norm = s.names.attention_out_norm; }},
    {"residual_scale", "granite_scaled", [](ModelSpec& s) { s.residual_scale = 1; }},
    {"embed_multiplier", "granite_scaled", [](ModelSpec& s) { s.embed_scale = 1; }},
    {"logit_scale", "granite_scaled", [](ModelSpec& s) { s.logit_scale = 1; }},
    {"logit_scale_of_cohere", "cohere_scaled", [](ModelSpec& s) { s.logit_scale = 0.0625F; }},
    {"centred_norm_without_bias", "cohere_scaled", [](ModelSpec& s) { s.norm = Norm::rms; }},
    {"alibi", "bloom_four", [](ModelSpec& s) { s.alibi_slopes[1] *= 1.05F; }},
    {"alibi_of_six_heads", "bloom_six",
     [](ModelSpec& s) { std::swap(s.alibi_slopes[4], s.alibi_slopes[5]); }},
    {"alibi_scaled", "falcon_alibi",
     [](ModelSpec& s) {
       for (float& slope : s.alibi_slopes) slope *= 2;
     }},
    {"embedding_norm", "bloom_four", [](ModelSpec& s) { s.names.embedding_norm = ""; }},
    {"bias_of_head", "phi_partial", [](ModelSpec& s) { s.has_head_bias = false; }},
    {"bias_of_gptj_head", "gptj_whole", [](ModelSpec& s) { s.has_head_bias = false; }},
    {"bias_of_plain_mlp", "starcoder2_window", [](ModelSpec& s) { s.has_mlp_bias = false; }},
};

class BrokenIngredient : public testing::TestWithParam<Break> {};

TEST_P(BrokenIngredient, IsSeen) {
  const Break& broken = GetParam();
  const ModelFolder folder(fixture_model(broken.model));
  ModelSpec spec = spec_from_source(folder);
  broken.apply(spec);
  const auto backend = test::cpu_backend(best_usable_isa());
  const auto program = prepare_program(spec, folder, *backend, precision_from_name("float32"));
  const Expected want = expected(broken.model);
  EXPECT_GE(test::largest_difference(all_logits(*program, want.ids), want.logits),
            5 * kTolerance * test::standard_deviation_of(want.logits));
}

INSTANTIATE_TEST_SUITE_P(All, BrokenIngredient, testing::ValuesIn(kBreaks),
                         [](const auto& param) { return std::string(param.param.name); });

// A wrong position for every token, made by starting the sequence one token late.
TEST(BrokenPosition, IsSeen) {
  const ModelFolder folder(fixture_model("base"));
  const auto backend = test::cpu_backend(best_usable_isa());
  const auto program =
      prepare_program(spec_from_source(folder), folder, *backend, precision_from_name("float32"));
  const Expected want = expected("base");
  const auto cache = program->make_cache();
  Batch batch;
  batch.ids.assign(want.ids.begin(), want.ids.begin() + 16);
  for (int i = 0; i < 16; ++i) batch.positions.push_back(i + 1);
  batch.sequences = {{.sequence = cache->add_sequence(), .first_row = 0, .rows = 16}};
  program->run(batch, *cache);
  const std::int64_t last = 15;
  const auto vocab = static_cast<std::size_t>(program->plan().vocab);
  std::vector<float> logits(vocab);
  program->head(std::span(&last, 1), LogitsSink{logits});
  const std::vector<float> row(want.logits.begin() + static_cast<std::ptrdiff_t>(15 * vocab),
                               want.logits.begin() + static_cast<std::ptrdiff_t>(16 * vocab));
  EXPECT_GE(test::largest_difference(logits, row), 5 * kTolerance * test::standard_deviation_of(want.logits));
}

TEST(Bfloat16Weights, StayCloseToFloat32) {
  const auto folder = std::make_shared<const ModelFolder>(fixture_model("odd_heads"));
  const Expected want = expected("odd_heads");
  for (const Isa isa : test::usable_isas()) {
    const Model model = Model::load(folder, test::cpu_backend(isa), precision_from_name("bfloat16"));
    const double difference = test::largest_difference(all_logits(model.program(), want.ids), want.logits);
    const double deviation = test::standard_deviation_of(want.logits);
    EXPECT_LE(difference, 0.3 * deviation) << name_of(isa);
    EXPECT_GE(difference, 1e-4 * deviation) << name_of(isa) << ": the weights were not rounded at all";
  }
}

// Weights that are bfloat16 in the file lose nothing where the arithmetic is float32.
TEST(Bfloat16Weights, OfABfloat16FileAreExact) {
  const auto folder = std::make_shared<const ModelFolder>(fixture_model("bf16"));
  const Expected want = expected("bf16");
  Precision precision = precision_from_name("bfloat16");
  precision.kv_cache = KvFormat::float32;
  for (const Isa isa : test::usable_isas()) {
    if (isa >= Isa::avx512bf16) continue;  // rounds the activations as well
    const Model model = Model::load(folder, test::cpu_backend(isa), precision);
    EXPECT_LE(test::largest_difference(all_logits(model.program(), want.ids), want.logits),
              kTolerance * test::standard_deviation_of(want.logits))
        << name_of(isa);
  }
}

// float32 products made of bfloat16 parts: three are worse than float32, six nearly as good.
TEST(SplitProducts, ErrorsAreAsTheirPartsPromise) {
  const auto folder = std::make_shared<const ModelFolder>(fixture_model("base"));
  const Expected want = expected("base");
  for (const Isa isa : {Isa::avx512bf16, Isa::amx}) {
    if (!is_usable(isa)) continue;
    const auto error = [&](Float32Matmul how) {
      Precision precision = precision_from_name("float32");
      set_float32_matmul(precision, how);
      const Model model = Model::load(folder, test::cpu_backend(isa), precision);
      return test::largest_difference(all_logits(model.program(), want.ids), want.logits) /
             test::standard_deviation_of(want.logits);
    };
    EXPECT_LE(error(Float32Matmul::bf16x6), 4 * kTolerance) << name_of(isa);
    EXPECT_LE(error(Float32Matmul::bf16x3), 1e-3) << name_of(isa);
    EXPECT_GT(error(Float32Matmul::bf16x3), 2 * error(Float32Matmul::bf16x6)) << name_of(isa);
  }
}

TEST(SplitProducts, AreRefusedWhereTheyCannotBe) {
  Precision brain = precision_from_name("bfloat16");
  EXPECT_THROW(set_float32_matmul(brain, Float32Matmul::bf16x3), UsageError);
  Precision split = precision_from_name("float32");
  set_float32_matmul(split, Float32Matmul::bf16x3);
  EXPECT_THROW(Model::load(std::make_shared<const ModelFolder>(fixture_model("base")),
                           test::cpu_backend(Isa::scalar), split),
               UsageError);
}

TEST(Footprint, CountsParametersAsTransformersDoes) {
  const auto folder = std::make_shared<const ModelFolder>(fixture_model("minimal"));
  const Model model = Model::load(folder, test::cpu_backend(Isa::scalar), precision_from_name("float32"));
  // vocab 11 and 8 positions of width 8, one layer: 12 * 8 * 8 + 13 * 8, a final norm of 2 * 8; the head is
  // tied.
  EXPECT_EQ(model.footprint().value, 4 * ((11 + 8) * 8 + 12 * 64 + 13 * 8 + 16));
}

}  // namespace
}  // namespace assay
