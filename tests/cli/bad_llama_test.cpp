// Llama folders whose configuration lies: one clear sentence each, never a crash.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/model/families/families.h"
#include "assay/model/model.h"
#include "support/fixtures.h"
#include "support/program.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay::test {
namespace {

struct LlamaLie {
  const char* patch;  // as config.json is, as RFC 7396 merges it
  std::vector<std::string> words;
};

const LlamaLie kLlamaLies[] = {
    {R"({"num_key_value_heads": 3})", {"num_attention_heads 2 is not a multiple of num_key_value_heads 3"}},
    {R"({"num_attention_heads": 3, "num_key_value_heads": 2})",
     {"num_attention_heads 3", "num_key_value_heads 2"}},
    {R"({"num_key_value_heads": 0})", {"num_key_value_heads: expected a whole number from 1", "found 0"}},
    {R"({"num_key_value_heads": -1})", {"num_key_value_heads: expected a whole number from 1", "found -1"}},
    {R"({"num_key_value_heads": "1"})", {"num_key_value_heads: expected a whole number"}},
    {R"({"num_key_value_heads": null})", {"k_proj.weight", "expected shape [8, 8]", "found [4, 8]"}},
    {R"({"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": null})",
     {"hidden_size 8 is not a multiple of num_attention_heads 3, and there is no head_dim"}},
    {R"({"head_dim": 3})", {"head_dim: expected an even number", "found 3"}},
    {R"({"head_dim": 0})", {"head_dim: expected a whole number from 1", "found 0"}},
    {R"({"head_dim": 65536})", {"q_proj.weight", "expected shape [131072, 8]"}},
    {R"({"head_dim": 1000000000000})", {"head_dim: expected a whole number from 1 to 65536"}},
    {R"({"head_dim": 4.5})", {"head_dim: expected a whole number", "4.5"}},
    {R"({"rope_scaling": {"rope_type": "spiral", "factor": 2}})",
     {"rope_scaling: rope_type 'spiral' is not supported",
      "default, linear, dynamic, yarn, longrope, llama3"}},
    {R"({"rope_scaling": {"type": "mrope", "factor": 2}})", {"rope_type 'mrope' is not supported"}},
    {R"({"rope_scaling": {"rope_type": 3}})", {"rope_scaling: rope_type: expected a string, found 3"}},
    {R"({"rope_scaling": {"type": "linear"}})", {"rope_scaling: the key 'factor' is missing"}},
    {R"({"rope_scaling": {"type": "linear", "factor": 0}})",
     {"rope_scaling: factor: expected a number from 1e-6 to 1e9, found 0"}},
    {R"({"rope_scaling": {"type": "linear", "factor": -2}})", {"factor: expected a number from", "found -2"}},
    {R"({"rope_scaling": {"type": "linear", "factor": 1e300}})",
     {"factor: expected a number from", "found 1e+300"}},
    {R"({"rope_scaling": {"type": "linear", "factor": 1e-300}})",
     {"factor: expected a number from", "found 1e-300"}},
    {R"({"rope_scaling": {"type": "linear", "factor": "2"}})", {"factor: expected a finite number"}},
    {R"({"rope_scaling": {"type": "linear", "factor": true}})", {"factor: expected a finite number"}},
    {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1,
                          "original_max_position_embeddings": 8}})",
     {"high_freq_factor: expected more than low_freq_factor (4), found 1"}},
    {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 0, "high_freq_factor": 4,
                          "original_max_position_embeddings": 8}})",
     {"low_freq_factor: expected a number from", "found 0"}},
    {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                          "original_max_position_embeddings": 0}})",
     {"original_max_position_embeddings: expected a whole number from 1"}},
    {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1}})",
     {"the key 'high_freq_factor' is missing"}},
    {R"({"rope_scaling": []})", {"rope_scaling: expected an object, found []"}},
    {R"({"rope_scaling": "linear"})", {"rope_scaling: expected an object"}},
    {R"({"rope_parameters": [1, 2]})", {"rope_parameters: expected an object, found [1,2]"}},
    {R"({"rope_parameters": {"rope_theta": 0}})",
     {"rope_parameters: rope_theta: expected a number from", "found 0"}},
    {R"({"rope_theta": -10000})", {"rope_theta: expected a number from", "found -10000"}},
    {R"({"rope_theta": 1e300})", {"rope_theta: expected a number from", "found 1e+300"}},
    {R"({"rope_theta": 1e-30})", {"rope_theta: expected a number from", "found 1e-30"}},
    {R"({"rope_theta": "10000"})", {"rope_theta: expected a finite number"}},
    {R"({"vocab_size": 12})", {"embed_tokens.weight", "expected shape [12, 8]", "found [11, 8]"}},
    {R"({"vocab_size": 10})", {"embed_tokens.weight", "expected shape [10, 8]", "found [11, 8]"}},
    {R"({"vocab_size": 0})", {"vocab_size: expected a whole number from 1"}},
    {R"({"hidden_size": 16})", {"embed_tokens.weight", "expected shape [11, 16]"}},
    {R"({"intermediate_size": 0})", {"intermediate_size: expected a whole number from 1", "found 0"}},
    {R"({"intermediate_size": 13})", {"mlp.gate_proj.weight", "expected shape [13, 8]", "found [12, 8]"}},
    {R"({"intermediate_size": null})", {"the key 'intermediate_size' is missing"}},
    {R"({"hidden_act": "geglu"})", {"activation 'geglu' is not supported", "silu"}},
    {R"({"hidden_act": 7})", {"hidden_act: expected a string, found 7"}},
    {R"({"tie_word_embeddings": "false"})", {"tie_word_embeddings: expected true or false"}},
    {R"({"tie_word_embeddings": 0})", {"tie_word_embeddings: expected true or false"}},
    {R"({"attention_bias": 1})", {"attention_bias: expected true or false"}},
    {R"({"attention_bias": true})", {"tensor 'model.layers.0.self_attn.q_proj.bias' is missing"}},
    {R"({"mlp_bias": true})", {"tensor 'model.layers.0.mlp.gate_proj.bias' is missing"}},
    {R"({"num_hidden_layers": 1e9})",
     {"num_hidden_layers: expected a whole number from 1 to 1024", "found 1000000000"}},
    {R"({"num_hidden_layers": 1024})", {"tensor 'model.layers.1.", "is missing"}},
    {R"({"max_position_embeddings": 1e15})",
     {"max_position_embeddings: expected a whole number from 1 to 4194304"}},
    {R"({"max_position_embeddings": 0})", {"max_position_embeddings: expected a whole number from 1"}},
    {R"({"rms_norm_eps": 1e39})",
     {"rms_norm_eps: expected a number of at least 0 that float32 can hold, found 1e+39"}},
    {R"({"rms_norm_eps": -1e-5})", {"rms_norm_eps: expected a number of at least 0", "found -1e-05"}},
    {R"({"rms_norm_eps": "1e-5"})", {"rms_norm_eps: expected a finite number"}},
    {R"({"eos_token_id": "</s>"})", {"eos_token_id: expected a token id or a list of them, found \"</s>\""}},
    {R"({"eos_token_id": [1, [2]]})", {"eos_token_id: expected a token id or a list of them, found [2]"}},
    {R"({"eos_token_id": 1.5})", {"eos_token_id: expected a token id or a list of them, found 1.5"}},
};

std::string llama_refusal(const std::string& path) {
  try {
    const ModelFolder folder(path);
    check_tensors(spec_from_source(folder), Precision{}, folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class CliBadLlama : public testing::Test {
 protected:
  void patch(const char* text) {
    model_ = tiny_llama();
    model_.config.merge_patch(nlohmann::ordered_json::parse(text));
    model_.write(folder_.path());
  }

  TemporaryFolder folder_;
  TinyModel model_ = tiny_llama();
};

TEST_F(CliBadLlama, TheSoundOneLoads) {
  const std::string folder = model_.write(folder_.path());
  EXPECT_EQ(llama_refusal(folder), "no error");
  expect_success(run_program({"generate", folder, "--ids", "1,2", "-n", "2"}));
}

TEST_F(CliBadLlama, ConfigurationsThatLie) {
  for (const LlamaLie& lie : kLlamaLies) {
    SCOPED_TRACE(lie.patch);
    patch(lie.patch);
    const std::string refusal = llama_refusal(folder_.path().string());
    for (const std::string& word : lie.words)
      EXPECT_NE(refusal.find(word), std::string::npos) << "not said: " << word << "\nsaid: " << refusal;
    EXPECT_EQ(refusal.find('\n'), std::string::npos);
    EXPECT_LT(refusal.size(), 500u);
  }
}

TEST_F(CliBadLlama, TheProgramSaysTheSame) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{18}, std::size_t{36}}) {
    const LlamaLie& lie = kLlamaLies[i];
    SCOPED_TRACE(lie.patch);
    patch(lie.patch);
    expect_failure(run_program({"inspect", folder_.path().string()}), 1, {lie.words.front()});
    expect_failure(run_program({"generate", folder_.path().string(), "--ids", "1,2", "-n", "2"}), 1,
                   {lie.words.front()});
  }
}

TEST_F(CliBadLlama, NotANumber) {
  model_.write(folder_.path());
  std::string text = model_.config.dump();
  text.replace(text.find("10000.0"), 7, "NaN");
  write_file(folder_.path() / "config.json", text);
  EXPECT_NE(llama_refusal(folder_.path().string()).find("expected a finite number, found NaN"),
            std::string::npos);
}

TEST_F(CliBadLlama, EveryTensorIsNeeded) {
  for (const WrittenTensor& tensor : tiny_llama().tensors) {
    model_ = tiny_llama();
    std::erase_if(model_.tensors, [&](const WrittenTensor& each) { return each.name == tensor.name; });
    EXPECT_NE(llama_refusal(model_.write(folder_.path())).find("tensor '" + tensor.name + "' is missing"),
              std::string::npos)
        << tensor.name;
  }
}

// A context costs nothing before it is used.
TEST_F(CliBadLlama, ALongContextIsNoReasonToRefuse) {
  patch(R"({"max_position_embeddings": 4194304})");
  expect_success(run_program({"generate", folder_.path().string(), "--ids", "1,2", "-n", "2"}));
}

TEST_F(CliBadLlama, EndTokensOutsideTheVocabulary) {
  patch(R"({"eos_token_id": [3, -1, 11, 3, 18446744073709551615, 10]})");
  const ModelSpec spec = spec_from_source(ModelFolder(folder_.path()));
  EXPECT_EQ(spec.end_tokens, (std::vector<TokenId>{3, 10}));
  ASSERT_EQ(spec.warnings.size(), 1u);
  EXPECT_NE(spec.warnings.front().find(
                "config.json: eos_token_id -1 (as 2 others) is outside the vocabulary of 11: generation does "
                "not stop at it"),
            std::string::npos)
      << spec.warnings.front();
  patch(R"({"eos_token_id": 11})");
  const ProgramResult result = run_program({"generate", folder_.path().string(), "--ids", "1", "-n", "2"});
  expect_success(result);
  EXPECT_NE(result.err.find("eos_token_id 11 is outside the vocabulary of 11"), std::string::npos);
}

// What a reader wants to know of a model of another family than GPT-2.
TEST_F(CliBadLlama, InspectDescribesSoundOnes) {
  const ProgramResult result = run_program({"inspect", model_fixture("llama_scaled")});
  expect_success(result);
  for (const char* line :
       {"family            llama", "heads             4 of 16", "key/value heads   1",
        "window            none", "positions         rotary\n",
        "norms             RMSNorm before each block\n", "MLP               gated, silu, 64",
        "vocabulary        89, LM head tied to the embedding",
        "model.layers.1.post_attention_layernorm.weight  F32   [40]",
        "model.layers.0.self_attn.q_proj.weight          F32   [64,40]"})
    EXPECT_NE(result.out.find(line), std::string::npos) << line << "\n" << result.out;
  EXPECT_EQ(result.out.find("not used"), std::string::npos);
  const auto json =
      nlohmann::json::parse(run_program({"inspect", model_fixture("llama_scaled"), "--json"}).out);
  for (const auto& tensor : json["tensors"]) EXPECT_TRUE(tensor["used"].get<bool>()) << tensor["name"];
  EXPECT_EQ(json["warnings"], nlohmann::json::array());
  std::int64_t elements = 0;
  for (const auto& tensor : json["tensors"]) {
    std::int64_t own = 1;
    for (const auto& size : tensor["shape"]) own *= size.get<std::int64_t>();
    elements += own;
  }
  EXPECT_EQ(json["parameters"], elements);
  for (const auto& row : json["memory"]) {
    if (row["precision"] == "float32") {
      EXPECT_EQ(row["weights_bytes"], 4 * elements);
    }
    if (row["precision"] == "float32") {
      EXPECT_EQ(row["kv_bytes_per_token"], 2 * 2 * 1 * 16 * 4);  // keys and values of 2 layers, 1 head of 16
    }
  }
}

}  // namespace
}  // namespace assay::test
