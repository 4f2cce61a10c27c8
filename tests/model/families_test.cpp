// Configurations of the model families: what each kind of key becomes, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "assay/base/error.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/quantize/quantize.h"
#include "assay/session/load.h"
#include "support/fixtures.h"
#include "support/safetensors_copy.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

class Families : public testing::Test {
 protected:
  // For a Llama whose configuration is patched.
  ModelSpec spec_of(const char* patch) {
    test::TinyModel model = test::tiny_llama();
    model.config.merge_patch(OrderedJson::parse(patch));
    return spec_from_source(ModelFolder(model.write(folder_.path())));
  }
  std::string refusal_of(const char* patch) {
    try {
      spec_of(patch);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  void expect_refused(const char* patch, std::initializer_list<const char*> words) {
    const std::string refusal = refusal_of(patch);
    for (const char* word : words)
      EXPECT_NE(refusal.find(word), std::string::npos)
          << patch << "\nnot said: " << word << "\nsaid: " << refusal;
    EXPECT_NE(refusal.find("config.json"), std::string::npos) << refusal;
    EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Families, UnknownTypesAreToldTheNearest) {
  expect_refused(R"({"model_type": "qwen33"})",
                 {"model_type 'qwen33' is not supported", "nearest is 'qwen3'"});
  expect_refused(R"({"model_type": "gpt-neox"})", {"nearest is 'gpt_neox'", "bloom, cohere, falcon"});
  expect_refused(R"({"model_type": "lama"})", {"nearest is 'llama'"});
}

TEST_F(Families, WhatNoFamilyHasIsNamed) {
  expect_refused(R"({"model_type": "mixtral", "num_local_experts": 8})",
                 {"num_local_experts 8 is not supported", "dense decoder", "mixture of experts"});
  expect_refused(R"({"num_experts": 60})", {"num_experts 60", "mixture of experts"});
  expect_refused(R"({"n_routed_experts": 256})", {"n_routed_experts 256", "mixture of experts"});
  expect_refused(R"({"add_cross_attention": true})", {"add_cross_attention true", "cross attention"});
  expect_refused(R"({"cross_attention_layers": [3, 8]})",
                 {"cross_attention_layers [3,8]", "cross attention"});
  expect_refused(R"({"is_encoder_decoder": true})", {"is_encoder_decoder true", "encoder"});
  expect_refused(R"({"model_type": "mamba", "state_size": 16})", {"state_size 16", "state-space layer"});
  expect_refused(R"({"vision_config": {"hidden_size": 8}})",
                 {"vision_config", "text_config", "model of text"});
  EXPECT_EQ(refusal_of(R"({"num_local_experts": 1, "add_cross_attention": false, "cross_attention_layers": [],
                           "is_encoder_decoder": false})"),
            "no error");
}

TEST_F(Families, LayersOfAnotherKindAreRefusedWhereNoListIsRead) {
  for (const char* type : {"llama", "qwen3", "granite", "gpt_neox"}) {
    const auto with = [&](const std::string& rest) {
      return fmt::format(R"({{"model_type": "{}", {}}})", type, rest);
    };
    expect_refused(with(R"("layer_types": ["full_attention", "linear_attention"])").c_str(),
                   {"layer_types", "\"linear_attention\" is not supported", "sliding_attention"});
    expect_refused(with(R"("layers_block_type": ["attention", "mamba"])").c_str(),
                   {"layers_block_type", "\"mamba\""});
    expect_refused(with(R"("layer_types": 7)").c_str(), {"layer_types: expected a list of", "found 7"});
  }
}

TEST_F(Families, LayerTypesAreChecked) {
  const char* qwen = R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 4,
                         "layer_types": ["linear_attention"]})";
  expect_refused(qwen, {"layer_types", "\"linear_attention\" is not supported", "sliding_attention"});
  expect_refused(R"({"model_type": "qwen2", "use_sliding_window": true, "layer_types": ["full_attention",
                     "full_attention"]})",
                 {"layer_types: expected a list of types, one for each of the layers (1)", "found 2"});
  expect_refused(R"({"model_type": "qwen2", "use_sliding_window": true, "layer_types": "full_attention"})",
                 {"layer_types: expected a list of types, one for each of the layers (1)"});
  expect_refused(R"({"model_type": "smollm3", "no_rope_layers": [2]})",
                 {"no_rope_layers: expected 0 or 1", "2"});
  expect_refused(R"({"model_type": "smollm3", "no_rope_layers": []})", {"no_rope_layers", "one a layer"});
  expect_refused(
      R"({"model_type": "gpt_neo", "num_layers": 2, "num_heads": 2, "attention_types": [[["global"], 3]]})",
      {"attention_types", "2 layers"});
  expect_refused(R"({"model_type": "gpt_neo", "num_layers": 2, "num_heads": 2,
                     "attention_types": [[["sideways"], 2]]})",
                 {"attention_types", "'global' and 'local'", "sideways"});
  expect_refused(R"({"model_type": "gpt_neo", "num_layers": 2, "num_heads": 2,
                     "attention_types": [[["local"], 18446744073709551615]]})",
                 {"attention_types"});
}

TEST_F(Families, KeysOfAWrongKindAreNamed) {
  expect_refused(R"({"model_type": "mistral", "sliding_window": 0})", {"sliding_window", "found 0"});
  expect_refused(R"({"model_type": "mistral", "sliding_window": "4"})", {"sliding_window"});
  expect_refused(R"({"model_type": "granite", "residual_multiplier": 0})",
                 {"residual_multiplier", "found 0"});
  expect_refused(R"({"model_type": "granite", "logits_scaling": 1e300})", {"logits_scaling", "found 1e+300"});
  expect_refused(R"({"model_type": "gemma2", "final_logit_softcapping": -3})",
                 {"final_logit_softcapping", "-3"});
  expect_refused(R"({"model_type": "gemma2", "query_pre_attn_scalar": 0})", {"query_pre_attn_scalar"});
  expect_refused(R"({"model_type": "gemma3_text", "use_bidirectional_attention": true})",
                 {"use_bidirectional_attention true", "expected false"});
  expect_refused(R"({"model_type": "cohere", "use_qk_norm": true})", {"use_qk_norm true is not supported"});
  expect_refused(R"({"model_type": "opt", "ffn_dim": 8, "layer_norm_elementwise_affine": false})",
                 {"layer_norm_elementwise_affine"});
  expect_refused(R"({"model_type": "phi", "partial_rotary_factor": 0})",
                 {"partial_rotary_factor", "found 0"});
  expect_refused(R"({"model_type": "phi", "partial_rotary_factor": 1.5})",
                 {"partial_rotary_factor", "found 1.5"});
  expect_refused(R"({"model_type": "gptj", "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2,
                     "rotary_dim": 6})",
                 {"rotary_dim", "4 elements", "found 6"});
  expect_refused(R"({"model_type": "qwen3", "hidden_act": "mish"})",
                 {"config.json: hidden_act: activation 'mish' is not supported", "silu"});
}

TEST_F(Families, HeadsBeyondAllReasonAreRefusedBeforeTheyTakeMemory) {
  for (const char* type : {"bloom", "gpt_neox", "falcon"})
    expect_refused(fmt::format(R"({{"model_type": "{}", "hidden_size": 65536, "num_hidden_layers": 1024,
                                   "num_attention_heads": 16384, "n_layer": null}})",
                               type)
                       .c_str(),
                   {"16384 attention heads in 1024 layers", "expected at most 131072"});
}

TEST_F(Families, RotaryScalingsAreChecked) {
  const auto refused = [&](const char* scaling, std::initializer_list<const char*> words) {
    expect_refused(fmt::format(R"({{"rope_scaling": {}}})", scaling).c_str(), words);
  };
  refused(R"({"rope_type": "spiral"})", {"rope_type 'spiral' is not supported", "yarn, longrope, llama3"});
  refused(R"({"rope_type": "longrope", "short_factor": [1, 2]})", {"the key 'long_factor' is missing"});
  refused(R"({"rope_type": "longrope", "short_factor": [1], "long_factor": [1, 2]})",
          {"short_factor: expected 2 numbers", "found 1"});
  refused(R"({"rope_type": "longrope", "short_factor": [1, "2"], "long_factor": [1, 2]})",
          {"short_factor: expected a number from"});
  refused(R"({"rope_type": "yarn", "factor": 4, "beta_fast": -1})", {"beta_fast: expected a number from"});
  refused(R"({"rope_type": "yarn", "factor": 4, "rope_theta": 1})", {"rope_theta: yarn expects more than 1"});
  refused(R"({"rope_type": "dynamic"})", {"the key 'factor' is missing"});
  expect_refused(R"({"rope_theta": null, "rope_parameters": {"full_attention": {"rope_type": "default"},
                     "chunked_attention": {"rope_type": "default"}}})",
                 {"layer type 'chunked_attention' is not supported"});
  expect_refused(R"({"rope_theta": null, "rope_parameters": {"full_attention": 3}})", {"full_attention"});
}

TEST_F(Families, LongropeHasOtherFrequenciesBeyondItsOriginalContext) {
  const ModelSpec spec = spec_of(R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [1, 2],
      "long_factor": [4, 8]}, "original_max_position_embeddings": 6})");
  EXPECT_EQ(spec.context, 16);
  EXPECT_TRUE(spec.warnings.empty());
  EXPECT_EQ(spec.rotary.original_context, 6);
  ASSERT_EQ(spec.rotary.long_frequencies.size(), 2U);
  EXPECT_EQ(spec.rotary.long_frequencies[0], spec.rotary.frequencies[0] / 4);
  EXPECT_EQ(spec.rotary.long_frequencies[1], spec.rotary.frequencies[1] / 4);
  EXPECT_NEAR(spec.rotary.amplitude, std::sqrt(1 + std::log(16.0 / 6) / std::log(6.0)), 1e-6);
  const ModelSpec whole = spec_of(R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [1, 2],
      "long_factor": [4, 8]}, "original_max_position_embeddings": 16})");
  EXPECT_TRUE(whole.rotary.long_frequencies.empty());  // nothing lies beyond
}

// As DeepSeek's configurations have it: the first for both parts of a head, the second for one.
TEST_F(Families, YarnHasTheRatioOfTwoScales) {
  const ModelSpec spec = spec_of(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4, "mscale": 1.5,
      "mscale_all_dim": 0.5, "original_max_position_embeddings": 4}})");
  EXPECT_NEAR(spec.rotary.amplitude, (0.15 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1), 1e-6);
}

// What no key says is the family's own window; null says that there is none.
TEST_F(Families, ANullWindowIsNone) {
  test::TinyModel model = test::tiny_llama();
  model.config["model_type"] = "mistral";
  EXPECT_EQ(spec_from_source(ModelFolder(model.write(folder_.path()))).attention_window, 4096);
  model.config["sliding_window"] = nullptr;
  EXPECT_EQ(spec_from_source(ModelFolder(model.write(folder_.path()))).attention_window, 0);
}

// As Transformers reads it: n_ctx is of configurations that have nothing else.
TEST_F(Families, AnOldNameOfTheContextIsSecond) {
  test::TinyModel model;
  model.config["n_ctx"] = 3;
  EXPECT_EQ(spec_from_source(ModelFolder(model.write(folder_.path()))).context, 16);
}

// What generation stops at is said by its own configuration before the model's.
TEST_F(Families, EndTokensAreThoseOfTheGenerationConfiguration) {
  test::TinyModel model = test::tiny_llama();
  model.config["eos_token_id"] = 2;
  const fs::path path = model.write(folder_.path());
  EXPECT_EQ(spec_from_source(ModelFolder(path)).end_tokens, (std::vector<TokenId>{2}));
  test::write_file(path / "generation_config.json", R"({"eos_token_id": [3, 1]})");
  EXPECT_EQ(spec_from_source(ModelFolder(path)).end_tokens, (std::vector<TokenId>{3, 1}));
}

TEST_F(Families, TheSameRotaryInBothSpellings) {
  const ModelSpec old =
                      spec_of(R"({"rope_theta": 700.0, "rope_scaling": {"type": "linear", "factor": 2.0}})"),
                  now = spec_of(
                      R"({"rope_theta": null, "rope_parameters": {"rope_type": "linear", "factor": 2.0,
                                    "rope_theta": 700.0}})"),
                  other = spec_of(R"({"rope_theta": 701.0})");
  EXPECT_EQ(old.rotary.frequencies, now.rotary.frequencies);
  EXPECT_NE(old.rotary.frequencies, other.rotary.frequencies);
}

// A multimodal folder as Transformers 4 and 5 write it: the text part alone is run.
TEST_F(Families, TheTextPartOfAModelThatSees) {
  const fs::path from = test::fixture_model("gemma3_scaled");
  const SafetensorsFile expected(from / "expected.safetensors");
  const std::vector<TokenId> ids = test::read_ids(expected, "input_ids");
  const std::vector<float> want = test::read_floats(expected, "logits");
  for (const std::string prefix : {"language_model.", "model.language_model."}) {
    test::TensorList list(from / "model.safetensors");
    for (test::WrittenTensor& tensor : list.tensors)
      tensor.name = prefix == "language_model." ? prefix + tensor.name
                                                : "model.language_model." + tensor.name.substr(6);
    list.tensors.push_back(test::float_tensor("vision_tower.encoder.weight", {2, 3}));
    test::write_file(folder_.path() / "model.safetensors", list.file());
    OrderedJson text = OrderedJson::parse(test::read_file(from / "config.json"));
    text.erase("tie_word_embeddings");
    const OrderedJson whole{{"model_type", "gemma3"},
                            {"text_config", text},
                            {"vision_config", {{"layers", 2}}},
                            {"tie_word_embeddings", true}};
    test::write_file(folder_.path() / "config.json", whole.dump());
    const Model model = Model::load(std::make_shared<const ModelFolder>(folder_.path()),
                                    test::cpu_backend(best_usable_isa()), precision_from_name("float32"));
    EXPECT_EQ(model.spec().family, "gemma3_text");
    EXPECT_LE(test::largest_difference(test::all_logits(model.program(), ids), want),
              2e-5 * test::standard_deviation_of(want));
    ASSERT_EQ(model.warnings().size(), 1U);
    EXPECT_NE(model.warnings()[0].find("1 tensor of the file is for images or sound"), std::string::npos)
        << model.warnings()[0];
    QuantizeOptions options;
    options.config = run_config_from_text("nf4");
    EXPECT_THROW(quantize_model(folder_.path().string(), folder_.path() / "out", options), Error);
  }
}

// The factors of SmoothQuant go into the norm before a product, or into its inputs where others read them
// too.
TEST_F(Families, SmoothingOfSharedInputs) {
  for (const auto& [name, module, is_shared] :
       {std::tuple{"llama_grouped", "model.layers.0.self_attn.q_proj", false},
        {"phi_partial", "model.layers.0.self_attn.q_proj", true},
        {"olmo2_grouped", "model.layers.0.self_attn.q_proj", true},
        {"gpt_neox_parallel", "gpt_neox.layers.0.attention.query_key_value", false}}) {
    SCOPED_TRACE(name);
    const ModelSpec spec = spec_from_source(ModelFolder(test::fixture_model(name)));
    Calibration calibration;
    calibration[std::string(module) + ".weight"].smoothing.assign(static_cast<std::size_t>(spec.hidden),
                                                                  2.0F);
    const Plan plan = plan_forward(spec, precision_from_name("int8-dynamic"), calibration);
    for (const Op& op : plan.ops) {
      const auto* linear = std::get_if<LinearOp>(&op.kind);
      if (linear == nullptr || linear->modules.front() != module) continue;
      EXPECT_EQ(linear->input_factors.empty(), !is_shared);
      EXPECT_FALSE(plan.weight(linear->weight).column_factors.empty());
      for (const Op& each : plan.ops)
        if (const auto* norm = std::get_if<NormOp>(&each.kind); norm != nullptr && norm->out == linear->in) {
          EXPECT_EQ(plan.weight(norm->gain).column_factors.empty(), is_shared);
          break;
        }
    }
  }
}

// A fused projection keeps the order of its file in a quantized folder: what was quantized as it was loaded
// and what was stored quantized are the same codes, with the same scales of scales.
TEST_F(Families, QuantizedFoldersAreTheSameModel) {
  for (const char* name : {"gpt_neox_parallel", "falcon_grouped", "bloom_six", "opt_post_norm", "phi3_window",
                           "gemma3_scaled", "stablelm_normed"})
    for (const char* precision : {"nf4-dq", "int8-dynamic", "llm-int8"}) {
      SCOPED_TRACE(std::string(name) + " " + precision);
      const fs::path from = test::fixture_model(name);
      const std::vector<TokenId> ids =
          test::read_ids(SafetensorsFile(from / "expected.safetensors"), "prompt_ids");
      const auto logits = [&](const fs::path& folder, const char* how) {
        RunConfig config = run_config_from_text(how);
        config.isa = best_usable_isa();
        config.dtype = DType::f32;
        const LoadedModel loaded =
            load_model_and_tokenizer({folder.string()}, config, {.needs_tokenizer = false});
        return test::all_logits(loaded.model->program(), ids);
      };
      QuantizeOptions options;
      options.config = run_config_from_text(precision);
      options.config.dtype = DType::f32;
      options.replaces = true;
      quantize_model(from.string(), folder_.path() / "out", options);
      EXPECT_EQ(logits(folder_.path() / "out", "auto"), logits(from, precision));
    }
}

}  // namespace
}  // namespace assay
