// config.json with keys that are missing, absurd or unknown: one sentence that names file and key.
#include "support/program.h"
#include "support/tiny_model.h"

namespace assay::test {
namespace {

class CliBadConfig : public testing::Test {
 protected:
  void expect_refused(std::initializer_list<std::string> words) {
    const std::string folder = model_.write(folder_.path());
    expect_failure(run_program({"inspect", folder}), 1, words);
    expect_failure(run_program({"generate", folder, "--ids", "1,2", "-n", "2"}), 1, words);
  }
  void expect_text_refused(std::string_view config, std::initializer_list<std::string> words) {
    const std::string folder = model_.write(folder_.path());
    write_file(folder_.path() / "config.json", config);
    expect_failure(run_program({"inspect", folder}), 1, words);
    expect_failure(run_program({"generate", folder, "--ids", "1,2", "-n", "2"}), 1, words);
  }

  TemporaryFolder folder_;
  TinyModel model_;
};

TEST_F(CliBadConfig, MissingKey) {
  for (const char* key : {"vocab_size", "n_embd", "n_layer", "n_head", "model_type"}) {
    const auto kept = model_.config[key];
    model_.config.erase(key);
    expect_refused({"config.json", key, "missing"});
    model_.config[key] = nullptr;
    expect_refused({"config.json", key, "missing"});
    model_.config[key] = kept;
  }
}

TEST_F(CliBadConfig, MissingContextNamesTheKeyThatIsWanted) {
  model_.config.erase("n_positions");
  expect_refused({"config.json", "n_positions", "missing"});
}

TEST_F(CliBadConfig, SizesOutOfRange) {
  for (const char* key : {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions"}) {
    const auto kept = model_.config[key];
    for (const char* odd : {"0", "-4", "4.5", "\"4\"", "true", "[4]", "{}", "1e300", "9223372036854775807",
                            "18446744073709551615", "-9223372036854775808", "99999999999999999999999999"}) {
      model_.config[key] = nlohmann::ordered_json::parse(odd);
      SCOPED_TRACE(std::string(key) + " = " + odd);
      expect_refused({"config.json", key, "expected a whole number", "found"});
    }
    model_.config[key] = kept;
  }
}

// In range, but not what the tensors have.
TEST_F(CliBadConfig, SizesThatContradictTheTensors) {
  for (const auto& [key, value, tensor] : {std::tuple{"vocab_size", 12, "wte.weight"},
                                           {"n_positions", 17, "wpe.weight"},
                                           {"n_embd", 8, "wte.weight"},
                                           {"n_layer", 2, "h.1."},
                                           {"n_inner", 15, "mlp.c_fc"}}) {
    const auto kept = model_.config;
    model_.config[key] = value;
    expect_refused({tensor});
    model_.config = kept;
  }
  for (const auto& [key, value] :
       {std::pair{"vocab_size", 16'777'216}, {"n_positions", 4'194'304}, {"n_layer", 1024}}) {
    const auto kept = model_.config;
    model_.config[key] = value;
    expect_refused({"tensor"});
    model_.config = kept;
  }
}

TEST_F(CliBadConfig, WidthIsNoMultipleOfHeads) {
  model_.config["n_head"] = 3;
  expect_refused({"config.json", "n_embd 4", "n_head 3"});
  model_.config["n_head"] = 8;
  expect_refused({"config.json", "n_embd 4", "n_head 8"});
}

TEST_F(CliBadConfig, UnknownNames) {
  model_.config["activation_function"] = "gelu_newest";
  expect_refused({"config.json", "gelu_newest", "gelu_new", "relu"});
  model_.config["activation_function"] = 3;
  expect_refused({"config.json", "activation_function", "3"});
  model_.config["activation_function"] = "gelu_new";
  model_.config["model_type"] = "lama";
  expect_refused({"config.json", "model_type", "lama", "gpt2"});
  model_.config["model_type"] = 2;
  expect_refused({"config.json", "model_type", "2"});
}

TEST_F(CliBadConfig, OtherKeysOfAWrongKind) {
  for (const auto& [key, odd] : {std::pair{"layer_norm_epsilon", "\"small\""},
                                 {"layer_norm_epsilon", "-1"},
                                 {"layer_norm_epsilon", "1e39"},  // infinite in float32
                                 {"tie_word_embeddings", "\"yes\""},
                                 {"scale_attn_weights", "1"},
                                 {"n_inner", "-1"},
                                 {"scale_attn_by_inverse_layer_idx", "[]"},
                                 {"reorder_and_upcast_attn", "0"},
                                 {"add_cross_attention", "true"}}) {
    TinyModel model;
    model.config[key] = nlohmann::ordered_json::parse(odd);
    const std::string folder = model.write(folder_.path());
    expect_failure(run_program({"inspect", folder}), 1, {"config.json", key});
  }
}

TEST_F(CliBadConfig, PaddingTokenBeyondTheVocabulary) {
  model_.config["pad_token_id"] = "none";
  expect_failure(run_program({"generate", model_.write(folder_.path()), "--ids", "1", "-n", "2"}), 1,
                 {"config.json", "pad_token_id"});
}

TEST_F(CliBadConfig, NotJson) {
  expect_text_refused("", {"config.json", "JSON"});
  expect_text_refused("{\"model_type\": \"gpt2\",", {"config.json", "JSON"});
  expect_text_refused("[1, 2]", {"config.json", "object"});
  // Python reads these two, and finds keys missing.
  expect_text_refused("{\"model_type\": \"gpt2\", \"model_type\": \"gpt2\"}",
                      {"config.json", "n_positions", "missing"});
  expect_text_refused("{\"a\": \"\xff\"}", {"config.json", "JSON"});
  expect_text_refused(std::string("{\"a\": \"\0\"}", 10), {"config.json", "JSON"});
  expect_text_refused("{\"a\": 1e999}", {"config.json", "model_type", "missing"});
  expect_text_refused("\xef\xbb\xbf\xef\xbb\xbf{}", {"config.json", "JSON"});
}

TEST_F(CliBadConfig, DeepNesting) {
  constexpr std::size_t kDepth = 100'000;
  const std::string open(kDepth, '['), shut(kDepth, ']');
  expect_text_refused("{\"a\": " + open + shut + "}", {"config.json", "nested"});
  expect_text_refused("{\"a\": " + open, {"config.json"});
  expect_text_refused(open + shut, {"config.json"});
}

TEST_F(CliBadConfig, GenerationConfig) {
  const std::string folder = model_.write(folder_.path());
  for (const std::string& text :
       {std::string("nothing"), std::string("[]"), "{\"a\": " + std::string(100'000, '[')}) {
    write_file(folder_.path() / "generation_config.json", text);
    expect_failure(run_program({"generate", folder, "--ids", "1", "-n", "2"}), 1, {"generation_config.json"});
  }
  // An end token that is no token is no reason to refuse a model: GPT-2's own default stands in many small
  // ones.
  for (const char* text : {"{\"eos_token_id\": 50256}", "{\"eos_token_id\": [1, -1, 99999999999]}"}) {
    write_file(folder_.path() / "generation_config.json", text);
    const ProgramResult result = run_program({"generate", folder, "--ids", "2", "-n", "2"});
    expect_success(result);
    EXPECT_NE(result.err.find("outside the vocabulary"), std::string::npos) << result.err;
  }
  write_file(folder_.path() / "generation_config.json", "{\"eos_token_id\": \"end\"}");
  expect_failure(run_program({"generate", folder, "--ids", "2", "-n", "2"}), 1,
                 {"generation_config.json", "eos_token_id", "expected a token id", "\"end\""});
}

}  // namespace
}  // namespace assay::test
