// What no family has is refused by each of them, in one sentence that names file, key and value.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "assay/base/error.h"
#include "assay/checkpoint/bitsandbytes.h"
#include "assay/model/families/families.h"
#include "support/family_models.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

struct AskedFor {
  const char* patch;  // as config.json is
  std::vector<const char*> words;
};
const std::vector<AskedFor> kAskedFor = {
    {R"({"num_experts": 60})", {"num_experts 60 is not supported", "dense decoder", "mixture of experts"}},
    {R"({"num_local_experts": 8})", {"num_local_experts 8", "mixture of experts"}},
    {R"({"num_local_experts": [1, 4]})", {"num_local_experts [1,4]", "mixture of experts"}},
    {R"({"n_routed_experts": 256})", {"n_routed_experts 256", "mixture of experts"}},
    {R"({"n_shared_experts": 2})", {"n_shared_experts 2", "mixture of experts"}},
    {R"({"moe_layers": [0]})", {"moe_layers [0]", "mixture of experts"}},
    {R"({"moe_layers": "3,4"})", {"moe_layers \"3,4\"", "mixture of experts"}},
    {R"({"moe_intermediate_size": 1408})", {"moe_intermediate_size 1408", "mixture of experts"}},
    {R"({"num_experts_per_tok": 2})", {"num_experts_per_tok 2", "mixture of experts"}},
    {R"({"add_cross_attention": true})", {"add_cross_attention true", "dense decoder", "cross attention"}},
    {R"({"cross_attention_layers": [0]})", {"cross_attention_layers [0]", "cross attention"}},
    {R"({"cross_attention_hidden_size": 64})", {"cross_attention_hidden_size 64", "cross attention"}},
    {R"({"is_encoder_decoder": true})", {"is_encoder_decoder true", "an encoder"}},
    {R"({"mamba_d_state": 16})", {"mamba_d_state 16", "state-space layer"}},
    {R"({"ssm_cfg": {"layer": "Mamba2"}})", {"ssm_cfg", "state-space layer"}},
    {R"({"state_size": 16})", {"state_size 16", "state-space layer"}},
    {R"({"attn_layer_period": 8})", {"attn_layer_period 8", "state-space layer"}},
    {R"({"lru_width": 32})", {"lru_width 32", "recurrent layer"}},
    {R"({"linear_num_key_heads": 16})", {"linear_num_key_heads 16", "linear attention"}},
    {R"({"kv_lora_rank": 512})", {"kv_lora_rank 512", "latent attention"}},
    {R"({"vision_config": {"layers": 2}})", {"vision_config", "text_config", "model of text", "images"}},
    {R"({"vision_feature_layer": -2})", {"vision_feature_layer -2", "text_config", "images"}},
    {R"({"mm_projector_type": "linear"})", {"mm_projector_type \"linear\"", "images"}},
    {R"({"mm_projector": "mlp2x_gelu"})", {"mm_projector \"mlp2x_gelu\"", "images"}},
    {R"({"use_vision": true})", {"use_vision true", "images"}},
    {R"({"audio_config": {"layers": 2}})", {"audio_config", "text_config", "sound"}},
    {R"({"layer_types": ["linear_attention"]})", {"layer_types", "expected"}},
    {R"({"layers_block_type": ["mamba"]})", {"layers_block_type: \"mamba\"", "full_attention"}},
    {R"({"rope_scaling": {"rope_type": "spiral", "factor": 2}})", {"spiral", "not supported", "default"}},
    {R"({"rope_scaling": {"type": "spiral", "factor": 2}})", {"spiral", "not supported", "default"}},
    {R"({"rope_scaling": null, "rope_parameters": {"rope_type": "spiral", "rope_theta": 1e4}})",
     {"spiral", "not supported", "default"}},
    {R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})",
     {"quantization_config", "quant_method 'gptq'", "bitsandbytes or assay"}}};

// Values that mean none, and tokens that stand for what only another part of the model knows.
const char* const kHarmless[] = {
    R"({"num_experts": 0})",
    R"({"num_local_experts": 1})",
    R"({"num_local_experts": [1, 1]})",
    R"({"num_experts": 0, "moe_intermediate_size": 1408, "num_experts_per_tok": 8})",
    R"({"moe_layers": []})",
    R"({"moe_layers": null})",
    R"({"moe_layers": [false, false]})",
    R"({"router_aux_loss_coef": 0.001, "moe_aux_loss_coef": 0.001, "output_router_logits": false})",
    R"({"add_cross_attention": false, "is_encoder_decoder": false, "cross_attention_hidden_size": null})",
    R"({"cross_attention_layers": []})",
    R"({"mamba_d_state": null, "ssm_cfg": {}, "state_size": 0})",
    R"({"mm_projector_type": null, "mm_use_im_start_end": false, "vision_tower": ""})",
    R"({"image_token_id": 50, "vision_start_token_id": 51, "image_token_index": 50})"};

void copy_weights(const char* name, const fs::path& to) {
  for (const fs::directory_entry& file : fs::directory_iterator(test::fixture_model(name)))
    if (file.path().filename().string().starts_with("model"))
      fs::copy_file(file.path(), to / file.path().filename());
}

class Absent : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    copy_weights(GetParam(), folder_.path());
    config_ = OrderedJson::parse(test::read_file(test::fixture_model(GetParam()) / "config.json"));
  }
  // "" where it is read.
  std::string refusal_of(const std::string& patch) {
    OrderedJson config = config_;
    config.update(OrderedJson::parse(patch));  // values as a whole
    test::write_file(folder_.path() / "config.json", config.dump());
    try {
      const ModelFolder folder(folder_.path());
      spec_from_source(folder);
      bitsandbytes::config_from(folder.config());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  void expect_refused(const std::string& patch, const std::vector<const char*>& words) {
    const std::string refusal = refusal_of(patch);
    for (const char* word : words)
      EXPECT_NE(refusal.find(word), std::string::npos)
          << patch << "\nnot said: " << word << "\nsaid: " << refusal;
    EXPECT_NE(refusal.find("config.json"), std::string::npos) << refusal;
    EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
  }

  test::TemporaryFolder folder_;
  OrderedJson config_;
};

TEST_P(Absent, IsRefusedByName) {
  ASSERT_EQ(refusal_of("{}"), "");
  for (const auto& [patch, words] : kAskedFor) expect_refused(patch, words);
}

TEST_P(Absent, ValuesThatMeanNoneAreHarmless) {
  for (const char* patch : kHarmless) EXPECT_EQ(refusal_of(patch), "") << patch;
}

TEST_P(Absent, UnknownActivationsAreRefusedWithTheKnownOnes) {
  // BLOOM's activation is not in its configuration; others have one of these keys, or its default.
  if (config_["model_type"] == "bloom") return;
  expect_refused(R"({"hidden_act": "mish", "hidden_activation": "mish", "activation_function": "mish",
                     "activation": "mish"})",
                 {"act", "activation 'mish' is not supported; expected one of: ", "gelu_new", "silu"});
}

std::vector<const char*> models_of_all_families() {
  std::vector<const char*> models(std::begin(test::kFamilyModels), std::end(test::kFamilyModels));
  models.insert(models.end(), {"base", "llama_grouped", "llama_biased", "llama_scaled"});
  return models;
}

INSTANTIATE_TEST_SUITE_P(All, Absent, testing::ValuesIn(models_of_all_families()),
                         [](const auto& info) { return std::string(info.param); });

// Known scalings too, of families whose positions Transformers does not scale.
TEST(AbsentScaling, IsRefusedWherePositionsAreNotScaled) {
  for (const char* name :
       {"gptj_partial", "bloom_four", "opt_plain", "falcon_alibi", "gpt_neo_untied", "base"}) {
    const test::TemporaryFolder folder;
    copy_weights(name, folder.path());
    OrderedJson config = OrderedJson::parse(test::read_file(test::fixture_model(name) / "config.json"));
    config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
    test::write_file(folder.path() / "config.json", config.dump());
    try {
      spec_from_source(ModelFolder(folder.path()));
      FAIL() << name << " was read";
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find("rope_scaling: type \"linear\" is not supported"),
                std::string_view::npos)
          << error.what();
    }
  }
}

// A family without a model here would not be tested.
TEST(AbsentFamilies, AreAllTested) {
  std::vector<std::string> types;
  for (const char* name : models_of_all_families())
    types.push_back(
        OrderedJson::parse(test::read_file(test::fixture_model(name) / "config.json"))["model_type"]);
  for (const std::string& family : supported_families())
    EXPECT_NE(std::ranges::find(types, family), types.end()) << family;
}

}  // namespace
}  // namespace assay
