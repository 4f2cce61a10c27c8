// GGUF files that are written: their tensors against those of llama.cpp's converter, their logits and token
// ids against those of the model, and what is refused.
#include "assay/quantize/write_gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/tokenizer_files.h"
#include "assay/checkpoint/gguf_source.h"
#include "assay/model/model.h"
#include "assay/quantize/gguf_mix.h"
#include "assay/quantize/quantize.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"
#include "support/gguf_writer.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

QuantizeReport write_as(const std::string& model, const fs::path& out, const std::string& mix) {
  return write_gguf(model, out, {.mix = GgufMix::named(mix).value(), .threads = 2});
}

std::string refusal_of_writing(const std::string& model, const fs::path& out,
                               const std::string& mix = "F32") {
  try {
    write_as(model, out, mix);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string bytes_of_tensor(const GgufFile& file, const GgufTensor& tensor) {
  std::string bytes(tensor.bytes, '\0');
  file.read(tensor, 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// A fixture that llama.cpp's converter wrote, and the type of its matrices.
struct ConvertedCase {
  const char *name, *mix;
  const char* other_key = "";  // that the converter fills in otherwise than the model has it
};

class ConvertedGguf : public testing::TestWithParam<ConvertedCase> {
 protected:
  ConvertedGguf() {
    write_as(test::fixture_model(GetParam().name).string(), folder_.path() / "m.gguf", GetParam().mix);
  }
  test::TemporaryFolder folder_;
};

TEST_P(ConvertedGguf, HasTheTensorsOfTheConverter) {
  const GgufFile ours(folder_.path() / "m.gguf"),
      theirs(test::fixture("gguf") / (std::string(GetParam().name) + ".gguf"));
  EXPECT_EQ(ours.tensors().size(), theirs.tensors().size());
  for (const GgufTensor& wanted : theirs.tensors()) {
    const GgufTensor* found = ours.find(wanted.name);
    ASSERT_NE(found, nullptr) << wanted.name;
    EXPECT_EQ(found->type->name, wanted.type->name) << wanted.name;
    EXPECT_EQ(found->sizes, wanted.sizes) << wanted.name;
    EXPECT_TRUE(bytes_of_tensor(ours, *found) == bytes_of_tensor(theirs, wanted)) << wanted.name;
  }
}

TEST_P(ConvertedGguf, HasTheKeysOfTheConverter) {
  const GgufFile ours(folder_.path() / "m.gguf"),
      theirs(test::fixture("gguf") / (std::string(GetParam().name) + ".gguf"));
  const std::string prefix = *theirs.text("general.architecture") + ".";
  EXPECT_EQ(ours.text("general.architecture"), theirs.text("general.architecture"));
  EXPECT_EQ(ours.integer("general.file_type"), theirs.integer("general.file_type"));
  int compared = 0;
  for (const char* key : {"context_length",
                          "embedding_length",
                          "block_count",
                          "feed_forward_length",
                          "attention.head_count",
                          "attention.head_count_kv",
                          "attention.key_length",
                          "attention.layer_norm_rms_epsilon",
                          "attention.layer_norm_epsilon",
                          "rope.dimension_count",
                          "rope.freq_base",
                          "rope.scaling.factor",
                          "rope.scaling.original_context_length",
                          "rope.scaling.yarn_beta_fast",
                          "logit_scale",
                          "attention.scale",
                          "embedding_scale",
                          "residual_scale",
                          "attention.sliding_window",
                          "vocab_size"}) {
    const GgufValue *wanted = theirs.value(prefix + key), *found = ours.value(prefix + key);
    if (wanted == nullptr || GetParam().other_key == std::string_view(key)) continue;
    ASSERT_NE(found, nullptr) << key;
    EXPECT_EQ(found->type(), wanted->type()) << key;
    EXPECT_EQ(found->number(0), wanted->number(0)) << key;
    ++compared;
  }
  EXPECT_GE(compared, 6);
}
INSTANTIATE_TEST_SUITE_P(
    OfFixtures, ConvertedGguf,
    testing::Values(
        ConvertedCase{"bloom_six", "F16", "context_length"}, ConvertedCase{"cohere_scaled", "F16"},
        ConvertedCase{"falcon_one_key", "F16", "context_length"}, ConvertedCase{"granite_scaled", "F16"},
        ConvertedCase{"llama_biased", "F32"}, ConvertedCase{"llama_scaled", "F32"},
        ConvertedCase{"minimal", "F32"}, ConvertedCase{"mistral_yarn", "F16"},
        ConvertedCase{"olmo2_grouped", "F16"}, ConvertedCase{"phi3_longrope", "F16"},
        ConvertedCase{"phi_partial", "F16", "feed_forward_length"}, ConvertedCase{"qwen2_biased", "F16"},
        ConvertedCase{"qwen3_heads", "F16"}, ConvertedCase{"stablelm_serial", "F16"}));

std::vector<float> logits_in_float32(const fs::path& path) {
  const Model model = Model::load(open_source(path), test::cpu_backend(test::usable_isas().back()),
                                  precision_from_name("float32"));
  return test::all_logits(model.program(), {1, 5, 8, 7, 0, 3, 2, 2, 9});
}

class ReadBackGguf : public testing::TestWithParam<const char*> {};
TEST_P(ReadBackGguf, HasTheLogitsOfTheModel) {
  const test::TemporaryFolder folder;
  const fs::path model = test::fixture_model(GetParam());
  write_as(model.string(), folder.path() / "m.gguf", "F32");
  const std::vector<float> wanted = logits_in_float32(model),
                           found = logits_in_float32(folder.path() / "m.gguf");
  EXPECT_LE(test::largest_difference(found, wanted) / test::standard_deviation_of(wanted), 2e-6);
}
INSTANTIATE_TEST_SUITE_P(OfFixtures, ReadBackGguf,
                         testing::Values("base", "bloom_four", "falcon_one_key", "gemma_legacy",
                                         "gpt_neox_parallel", "granite_biased", "llama_grouped", "n_inner",
                                         "no_prefix", "odd_heads", "phi3_beyond", "phi3_window", "sharded",
                                         "stablelm_serial", "untied", "upcast"));

// What a converter of llama.cpp would not find in such a configuration.
TEST(WriteGguf, SaysWhichLayersHaveWindowsAndHowFarYarnStretches) {
  const test::TemporaryFolder folder;
  const auto written = [&](const char* fixture, const auto& change) {
    const fs::path model = folder.path() / fixture, out = folder.path() / (std::string(fixture) + ".gguf");
    fs::remove_all(model);
    fs::remove(out);
    test::copy_model_fixture(fixture, model);
    Json config = Json::parse(test::read_file(model / "config.json"));
    change(config);
    test::write_file(model / "config.json", config.dump());
    write_as(model.string(), out, "F32");
    return open_source(out)->config().raw();
  };
  const Json types = {"full_attention", "sliding_attention", "full_attention"};
  const Json gemma = written("gemma3_scaled", [&](Json& config) {
    config["layer_types"] = types;
    config["query_pre_attn_scalar"] = config["head_dim"];
  });
  EXPECT_EQ(gemma["layer_types"], types);
  const Json yarn = written("mistral_yarn", [](Json& config) { config["rope_scaling"].erase("factor"); });
  EXPECT_EQ(yarn["rope_scaling"]["factor"], 96.0 / 24);
  const Json scaled = written("mistral_yarn", [](Json& config) {
    config["rope_scaling"]["mscale"] = 0.7;
    config["rope_scaling"]["mscale_all_dim"] = 0.4;
  });
  EXPECT_NEAR(scaled["rope_scaling"]["attention_factor"].get<double>(),
              (0.07 * std::log(4.0) + 1) / (0.04 * std::log(4.0) + 1), 1e-6);
  const Json longrope = written("phi3_longrope", [](Json& config) {
    config["rope_parameters"]["original_max_position_embeddings"] = 32;
  });
  EXPECT_EQ(longrope["original_max_position_embeddings"], 64);
}

TEST(WriteGguf, TheDemoModelIsTheSame) {
  const test::TemporaryFolder folder;
  const std::string demo = test::demo_model().string();
  write_as(demo, folder.path() / "f32.gguf", "F32");
  const QuantizeReport report = write_as(demo, folder.path() / "q8.gguf", "Q8_0");
  const std::vector<float> wanted = logits_in_float32(demo);
  EXPECT_EQ(logits_in_float32(folder.path() / "f32.gguf"), wanted);
  const double off = test::rms_difference(logits_in_float32(folder.path() / "q8.gguf"), wanted) /
                     test::standard_deviation_of(wanted);
  EXPECT_GT(off, 1e-4);
  EXPECT_LT(off, 2e-2);
  EXPECT_EQ(report.tensors.size(), 17U);
  EXPECT_EQ(report.tensors.front().type, "Q8_0");
  EXPECT_NEAR(report.tensors.front().error.snr_db.value(), 45, 5);
  const GgufFile file(folder.path() / "q8.gguf");
  EXPECT_EQ(file.find("position_embd.weight")->type->name, "F32");
  EXPECT_EQ(file.text("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(file.boolean("tokenizer.ggml.add_bos_token"), false);
  EXPECT_EQ(file.integer("tokenizer.ggml.eos_token_id"), 0);
  const Tokenizer before = Tokenizer::load(demo),
                  after = Tokenizer::from_files(open_source(folder.path() / "q8.gguf")->tokenizer_files());
  const std::string text = test::read_file(test::demo_model() / "README.md");
  EXPECT_EQ(after.encode(text), before.encode(text));
}

TEST(WriteGguf, RefusesWhatAFileCannotSay) {
  const test::TemporaryFolder folder;
  const fs::path out = folder.path() / "m.gguf";
  const auto expect = [&](const char* model, const char* what) {
    const std::string said = refusal_of_writing(test::model_fixture(model), out);
    EXPECT_NE(said.find(what), std::string::npos) << said;
  };
  expect("opt_plain", "model_type: GGUF files have no architecture for 'opt' here; expected one of: bloom");
  expect("mistral_window", "a GGUF file cannot say the model's attention window");
  expect("relu", "a GGUF file cannot say the model's activation");
  expect("smollm3_interval", "a GGUF file cannot say the model's rotary positions");
  expect("no_scale", "a GGUF file cannot say the model's scales");
  expect("gpt_neox_serial", "llama.cpp loads 'gptneox' only with an LM head of its own");
  expect("starcoder2_untied", "llama.cpp loads 'starcoder2' only with biases of attention and of the MLP");
  expect("gemma_biased", "llama.cpp loads 'gemma' only without biases of attention's output and of the MLP");
  expect("falcon_grouped", "llama.cpp loads 'falcon' only without biases");
  expect("gemma2_typed", "llama.cpp caps both of 'gemma2' always");
  expect("phi_normed", "GGUF's architecture 'phi2' has no tensor for it");
  EXPECT_NE(refusal_of_writing(test::fixture("quantized/nf4").string(), out).find("is quantized already"),
            std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(WriteGguf, RefusesNumbersThatBlocksCannotHold) {
  const test::TemporaryFolder folder;
  for (const auto& [value, mix, what] :
       {std::tuple{std::numeric_limits<float>::quiet_NaN(), "F32", "expected finite numbers"},
        {70000.0F, "F16", "expected numbers up to 65504, which F16 holds, found 70000"}}) {
    test::TinyModel tiny;
    auto& tensor = tiny.tensor("transformer.wte.weight");
    tensor.bytes.replace(8, 4, test::raw(value));
    const std::string said =
        refusal_of_writing(tiny.write(folder.path() / mix), folder.path() / "m.gguf", mix);
    EXPECT_NE(said.find(what), std::string::npos) << said;
    EXPECT_FALSE(fs::exists(folder.path() / "m.gguf"));
  }
}

TEST(WriteGguf, ReplacesOnlyGgufFilesAndOnlyWhenAsked) {
  const test::TemporaryFolder folder;
  const std::string model = test::model_fixture("base");
  const fs::path out = folder.path() / "m.gguf";
  test::write_file(out, "not one");
  GgufOptions options{.mix = GgufMix::named("q8_0").value()};
  EXPECT_NE(refusal_of_writing(model, out).find("exists already: expected a new name, or --force"),
            std::string::npos);
  options.replaces = true;
  EXPECT_THROW(write_gguf(model, out, options), Error);
  EXPECT_EQ(test::read_file(out), "not one");
  fs::remove(out);
  write_gguf(model, out, options);
  options.mix = GgufMix::named("F32").value();
  write_gguf(model, out, options);
  EXPECT_EQ(GgufFile(out).integer("general.file_type"), 0);
  EXPECT_THROW(write_gguf(out.string(), out, options), UsageError);
  // Each of several files that are read is the model.
  const fs::path sharded = folder.path() / "sharded";
  test::copy_model_fixture("sharded", sharded);
  for (const char* shard : {"model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"})
    EXPECT_THROW(write_gguf(sharded.string(), sharded / shard, options), UsageError) << shard;
  options.should_stop = [] { return true; };
  EXPECT_THROW(write_gguf(model, folder.path() / "other.gguf", options), Error);
  EXPECT_FALSE(fs::exists(folder.path() / "other.gguf"));
}

std::string_view type_in(const char* mix, const ModelSpec& spec, const char* own, std::int64_t columns = 512,
                         const char* architecture = "llama") {
  return GgufMix::named(mix)->type_of(*gguf_architecture(architecture), spec, own, "m", {8, columns}).name;
}

// By hand from llama.cpp's rule: with 24 layers, 0 to 2, 5, 8, 11, 14, 17 and 20 to 23 have more bits.
TEST(GgufMix, FollowsTheRulesOfLlamaQuantize) {
  ModelSpec spec;
  spec.layers = 24;
  spec.heads = 8;
  spec.kv_heads = 2;
  spec.is_head_tied = false;
  std::string layers;
  for (int layer = 0; layer < 24; ++layer)
    layers += type_in("Q4_K_M", spec, ("blk." + std::to_string(layer) + ".attn_v.weight").c_str()) == "Q6_K"
                  ? '6'
                  : '4';
  EXPECT_EQ(layers, "666446446446446446446666" + std::string());
  EXPECT_EQ(type_in("Q4_K_M", spec, "blk.3.ffn_down.weight"), "Q4_K");
  EXPECT_EQ(type_in("Q5_K_M", spec, "blk.1.ffn_down.weight"), "Q6_K");
  EXPECT_EQ(type_in("Q5_K_M", spec, "blk.1.attn_k.weight"), "Q5_K");
  EXPECT_EQ(type_in("Q4_K_S", spec, "blk.3.attn_v.weight"), "Q5_K");
  EXPECT_EQ(type_in("Q4_K_S", spec, "blk.3.ffn_down.weight"), "Q4_K");
  EXPECT_EQ(type_in("Q4_K_M", spec, "output.weight"), "Q6_K");
  EXPECT_EQ(type_in("Q8_0", spec, "output.weight"), "Q8_0");
  EXPECT_EQ(type_in("Q4_0", spec, "output.weight"), "Q6_K");
  EXPECT_EQ(type_in("Q4_K_M", spec, "token_embd.weight"), "Q4_K");
  // Rows of no whole number of blocks.
  EXPECT_EQ(type_in("Q4_K_M", spec, "blk.3.attn_q.weight", 96), "Q5_0");
  EXPECT_EQ(type_in("Q5_K_M", spec, "blk.3.attn_q.weight", 96), "Q5_1");
  EXPECT_EQ(type_in("Q6_K", spec, "blk.3.attn_q.weight", 96), "Q8_0");
  EXPECT_EQ(type_in("Q4_K_M", spec, "output.weight", 96), "Q8_0");
  EXPECT_EQ(type_in("Q4_K_M", spec, "blk.3.attn_q.weight", 20), "F16");
  EXPECT_EQ(type_in("Q4_K_M", spec, "blk.3.ffn_down.weight", 512, "falcon"), "Q4_K");
  EXPECT_EQ(type_in("Q4_K_M", spec, "blk.2.ffn_down.weight", 512, "falcon"), "Q5_K");
  spec.is_head_tied = true;
  EXPECT_EQ(type_in("Q4_K_M", spec, "token_embd.weight"), "Q6_K");
  spec.layers = 80;
  EXPECT_EQ(type_in("Q4_K_M", spec, "blk.10.attn_v.weight"), "Q5_K");
  spec.kv_heads = spec.heads;  // each value matrix is as large as the others
  EXPECT_EQ(type_in("Q4_K_M", spec, "blk.10.attn_v.weight"), "Q4_K");
  EXPECT_FALSE(GgufMix::named("Q9_0"));
}

TEST(GgufMix, TakesARecipesFormats) {
  Recipe recipe{.name = "mine", .default_format = formats::kQ5K, .lm_head = formats::kQ8_0};
  recipe.rules = {{"*.mlp.*", formats::kQ4_0}, {"*.k_proj", formats::kFloat16}};
  const GgufMix mix = GgufMix::of(recipe);
  ModelSpec spec;
  spec.layers = 2;
  const auto type = [&](const char* own, const char* module) {
    return mix.type_of(*gguf_architecture("llama"), spec, own, module, {8, 512}).name;
  };
  EXPECT_EQ(type("blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj"), "Q4_0");
  EXPECT_EQ(type("blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj"), "F16");
  EXPECT_EQ(type("blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj"), "Q5_K");
  EXPECT_EQ(type("token_embd.weight", "model.embed_tokens"), "Q8_0");
  EXPECT_EQ(type("output_norm.weight", "model.norm"), "F32");
  recipe.rules = {{"*", formats::kNf4}};
  EXPECT_THROW(GgufMix::of(recipe), FieldError);
  recipe.rules.clear();
  EXPECT_EQ(mix.file_type(), 16U);  // llama_ftype of Q5_K_S
  for (const auto& [format, file_type] :
       {std::pair{formats::kQ2K, 10U}, {formats::kQ3K, 11U}, {formats::kQ4K, 14U}}) {
    recipe.default_format = format;
    EXPECT_EQ(GgufMix::of(recipe).file_type(), file_type);
  }
}

TEST(PlainFolder, OfAGgufFileHasItsLogits) {
  const test::TemporaryFolder folder;
  QuantizeOptions options;
  options.config.precision = Preset::float32;
  const fs::path gguf = test::fixture("gguf") / "quantized_q8_0.gguf";
  quantize_model(gguf.string(), folder.path() / "out", options);
  EXPECT_EQ(logits_in_float32(folder.path() / "out"), logits_in_float32(gguf));
  const Json config = Json::parse(test::read_file(folder.path() / "out/config.json"));
  EXPECT_EQ(config.at("architectures"), Json::array({"LlamaForCausalLM"}));
  EXPECT_EQ(config.at("dtype"), "float32");
  const Tokenizer before = Tokenizer::from_files(open_source(gguf)->tokenizer_files()),
                  after = Tokenizer::load(folder.path() / "out");
  EXPECT_EQ(after.encode("the and in the 123"), before.encode("the and in the 123"));
}

TEST(PlainFolder, NamesTheClassOfItsModel) {
  const test::TemporaryFolder folder;
  QuantizeOptions options;
  options.config.precision = Preset::float32;
  for (const auto& [name, expected] : {std::pair{"phi_partial", "PhiForCausalLM"},
                                       {"phi3_longrope", "Phi3ForCausalLM"},
                                       {"qwen3_heads", "Qwen3ForCausalLM"},
                                       {"gemma2_capped", "Gemma2ForCausalLM"},
                                       {"stablelm_serial", "StableLmForCausalLM"}}) {
    const fs::path out = folder.path() / name;
    quantize_model((test::fixture("gguf") / (std::string(name) + ".gguf")).string(), out, options);
    const Json config = Json::parse(test::read_file(out / "config.json"));
    EXPECT_EQ(config.at("architectures"), Json::array({expected}));
  }
}

// The converter turned GPT-2's matrices; the folder has them as Transformers does.
TEST(PlainFolder, TurnsGpt2Back) {
  const test::TemporaryFolder folder;
  QuantizeOptions options;
  options.config.precision = Preset::float32;
  quantize_model((test::fixture("gguf") / "minimal.gguf").string(), folder.path() / "out", options);
  const SafetensorsFile wanted(test::fixture_model("minimal") / "model.safetensors"),
      found(folder.path() / "out/model.safetensors");
  for (const char* name : {"transformer.h.0.attn.c_attn.weight", "transformer.h.0.mlp.c_proj.weight",
                           "transformer.wte.weight", "transformer.h.0.attn.c_attn.bias"}) {
    EXPECT_EQ(found.find(name)->shape, wanted.find(name)->shape) << name;
    EXPECT_EQ(test::read_floats(found, name), test::read_floats(wanted, name)) << name;
  }
}

TEST(PlainFolder, RefusesSettingsAndQuantizedFolders) {
  const test::TemporaryFolder folder;
  QuantizeOptions options;
  options.config.precision = Preset::bfloat16;
  EXPECT_THROW(quantize_model(test::fixture("quantized/nf4").string(), folder.path() / "out", options),
               Error);
  options.config.dtype = DType::f32;
  EXPECT_THROW(quantize_model(test::model_fixture("base"), folder.path() / "out", options), FieldError);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace assay
