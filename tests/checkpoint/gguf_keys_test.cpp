// What the metadata of GGUF files means where it leaves something out: llama.cpp's values for the
// architecture.
#include "assay/checkpoint/gguf_keys.h"

#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/checkpoint/gguf_checkpoint.h"
#include "assay/checkpoint/gguf_names.h"
#include "support/gguf_writer.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

class GgufKeys : public testing::Test {
 protected:
  // With what every file has: the keys that llama.cpp needs, and an embedding.
  static test::GgufBytes file_of(const std::string& architecture, std::uint32_t layers = 7) {
    test::GgufBytes file;
    const std::string prefix = architecture + ".";
    file.text("general.architecture", architecture)
        .number(prefix + "context_length", 512)
        .number(prefix + "embedding_length", 96)
        .number(prefix + "block_count", layers)
        .number(prefix + "feed_forward_length", 128)
        .number(prefix + "attention.head_count", 4)
        .number(prefix + "attention.key_length", 32)
        .value(prefix + "attention.layer_norm_rms_epsilon", test::kGgufF32, test::raw(1e-5F));
    file.tensor("token_embd.weight", {96, 10}, 0, 96 * 10 * 4);
    return file;
  }
  GgufShards shards_of(const test::GgufBytes& file) const {
    test::write_file(folder_.path() / "m.gguf", file.bytes());
    return GgufShards(folder_.path() / "m.gguf");
  }
  Json config(const test::GgufBytes& file) const {
    const GgufShards shards = shards_of(file);
    return config_of(shards, architecture_of(shards));
  }
  std::string windows(const test::GgufBytes& file) const {
    std::string flags;
    const Json all = config(file);
    for (const Json& type : all.at("layer_types")) flags += type == "sliding_attention" ? 'w' : '-';
    return flags;
  }

  std::string refusal(const test::GgufBytes& file) const {
    try {
      config(file);
    } catch (const Error& error) {
      return std::string(error.what()).substr((folder_.path() / "m.gguf").string().size());
    }
    return "";
  }

  const test::TemporaryFolder folder_;
};

TEST_F(GgufKeys, HeadsAndRotaryPositionsHaveDefaults) {
  const Json llama = config(file_of("llama"));
  EXPECT_EQ(llama.at("num_key_value_heads"), 4);
  EXPECT_EQ(llama.at("head_dim"), 32);
  EXPECT_EQ(llama.at("rope_theta"), 1e4);
  EXPECT_EQ(llama.at("partial_rotary_factor"), 1.0);
  EXPECT_FALSE(llama.contains("rope_scaling"));
  EXPECT_EQ(config(file_of("llama").number("llama.attention.head_count_kv", 2)).at("num_key_value_heads"), 2);
  EXPECT_EQ(config(file_of("llama").number("llama.rope.dimension_count", 8)).at("partial_rotary_factor"),
            0.25);
  const Json gemma = config(file_of("gemma3"));
  EXPECT_EQ(gemma.at("rope_theta"), 1e6);
  EXPECT_EQ(gemma.at("rope_local_base_freq"), 1e4);
}

TEST_F(GgufKeys, WindowsOfGemmaRepeat) {
  EXPECT_EQ(windows(file_of("gemma2").number("gemma2.attention.sliding_window", 16)), "w-w-w-w");
  EXPECT_EQ(windows(file_of("gemma3").number("gemma3.attention.sliding_window", 16)), "wwwww-w");
  EXPECT_EQ(windows(file_of("gemma3")
                        .number("gemma3.attention.sliding_window", 16)
                        .number("gemma3.attention.sliding_window_pattern", 3)),
            "ww-ww-w");
  EXPECT_EQ(windows(file_of("gemma3", 3)
                        .number("gemma3.attention.sliding_window", 16)
                        .numbers<std::uint8_t>("gemma3.attention.sliding_window_pattern", test::kGgufBool,
                                               {0, 1, 1})),
            "-ww");
  EXPECT_TRUE(config(file_of("gemma3")).at("sliding_window").is_null());
}

// The first files of Gemma 2 have no key for it.
TEST_F(GgufKeys, Gemma2HasAWindowWhereTheFileNamesNone) {
  EXPECT_EQ(config(file_of("gemma2")).at("sliding_window"), 4096);
  EXPECT_EQ(windows(file_of("gemma2")), "w-w-w-w");
  EXPECT_TRUE(
      config(file_of("gemma2").number("gemma2.attention.sliding_window", 0)).at("sliding_window").is_null());
}

TEST_F(GgufKeys, WindowsAreFlagsForEachLayer) {
  const auto refused = [&](auto type, std::uint32_t number, std::vector<decltype(type)> flags) {
    return refusal(file_of("gemma3", 3)
                       .number("gemma3.attention.sliding_window", 16)
                       .numbers("gemma3.attention.sliding_window_pattern", number, flags));
  };
  const std::string key = ": key 'gemma3.attention.sliding_window_pattern': ";
  EXPECT_EQ(refused(std::uint8_t{}, test::kGgufBool, {1, 1, 0, 1}),
            key + "expected 3 flags, one for each layer, found 4");
  EXPECT_EQ(refused(std::uint8_t{}, test::kGgufBool, {1, 1}),
            key + "expected 3 flags, one for each layer, found 2");
  EXPECT_EQ(refused(float{}, test::kGgufF32, {1, 1, 0}),
            key + "expected an array of booleans, found an array of 3 f32");
  EXPECT_EQ(refused(std::int32_t{}, test::kGgufI32, {1, 1, 0}), "");
  EXPECT_EQ(
      refusal(file_of("gemma3").value("gemma3.attention.sliding_window", test::kGgufI32,
                                      test::raw<std::int32_t>(-1))),
      ": key 'gemma3.attention.sliding_window': expected the tokens of a window, or 0 for none, found -1");
}

TEST_F(GgufKeys, ListsHaveANumberForEachLayer) {
  const auto refused = [&](const std::vector<std::uint32_t>& heads) {
    return refusal(file_of("llama", 3).numbers("llama.attention.head_count_kv", test::kGgufU32, heads));
  };
  const std::string key = ": key 'llama.attention.head_count_kv': ";
  EXPECT_EQ(refused({2, 2, 2}), "");
  EXPECT_EQ(refused({2, 2}), key + "expected 3 numbers, one for each layer, found 2");
  EXPECT_EQ(refused({2, 2, 2, 2}), key + "expected 3 numbers, one for each layer, found 4");
  EXPECT_EQ(refused({}), key + "expected 3 numbers, one for each layer, found 0");
}

TEST_F(GgufKeys, AHeadOfNoElementsIsRefusedByItsKey) {
  test::GgufBytes file;
  file.text("general.architecture", "llama")
      .number("llama.block_count", 1)
      .number("llama.embedding_length", 3)
      .number("llama.attention.head_count", 4);
  const std::string expected = "expected at least one element for each of the 4 heads, found ";
  EXPECT_EQ(refusal(file), ": key 'llama.embedding_length': " + expected + "3");
  EXPECT_EQ(refusal(file.number("llama.attention.key_length", 0)),
            ": key 'llama.attention.key_length': " + expected + "0");
}

// The largest models scale scores by hidden / heads, all others by the size of a head.
TEST_F(GgufKeys, TheLargestGemmasScaleScoresOtherwise) {
  for (const auto& [name, layers] : {std::pair{"gemma2", 46U}, {"gemma3", 62U}}) {
    EXPECT_EQ(config(file_of(name, layers)).at("query_pre_attn_scalar"), 24) << name;
    EXPECT_EQ(config(file_of(name, layers - 1)).at("query_pre_attn_scalar"), 32) << name;
  }
}

TEST_F(GgufKeys, ResidualsAreParallelUnlessTheFileSaysOtherwise) {
  EXPECT_EQ(config(file_of("gptneox")).at("use_parallel_residual"), true);
  EXPECT_EQ(config(file_of("gptneox").value("gptneox.use_parallel_residual", test::kGgufBool, {'\0'}))
                .at("use_parallel_residual"),
            false);
  EXPECT_EQ(config(file_of("stablelm")).at("use_parallel_residual"), true);
  EXPECT_EQ(config(file_of("stablelm").tensor("blk.0.ffn_norm.weight", {96}, 0, 96 * 4))
                .at("use_parallel_residual"),
            false);
}

TEST_F(GgufKeys, EveryKeyThatEndsATextIsTaken) {
  constexpr std::int32_t kNormal = 1, kControl = 3;
  const auto ends = [&](const test::GgufBytes& file) {
    return generation_config_of(shards_of(file).first());
  };
  EXPECT_EQ(ends(file_of("llama")), Json::object());
  EXPECT_EQ(ends(file_of("llama")
                     .number("tokenizer.ggml.eos_token_id", 3)
                     .number("tokenizer.ggml.eot_token_id", 5)
                     .number("tokenizer.ggml.eom_token_id", 3)),
            (Json{{"eos_token_id", {3, 5}}}));
  EXPECT_EQ(ends(file_of("llama").number("tokenizer.ggml.eom_token_id", 4)), (Json{{"eos_token_id", {4}}}));
  EXPECT_EQ(ends(file_of("llama").number("tokenizer.ggml.eos_token_id", 0xFFFF'FFFF)), Json::object());
  // Those that are known by their text, where they are control tokens.
  EXPECT_EQ(ends(file_of("llama")
                     .texts("tokenizer.ggml.tokens", {"a", "<|im_end|>", "<|end|>"})
                     .numbers<std::int32_t>("tokenizer.ggml.token_type", test::kGgufI32,
                                            {kNormal, kControl, kNormal})),
            (Json{{"eos_token_id", {1}}}));
}

TEST_F(GgufKeys, FileTypesHaveLlamaCppsNames) {
  const auto name = [&](std::uint32_t number) {
    return gguf_file_type(shards_of(file_of("llama").number("general.file_type", number)).first());
  };
  EXPECT_EQ(name(0), "F32");
  EXPECT_EQ(name(7), "Q8_0");
  EXPECT_EQ(name(15), "Q4_K_M");
  EXPECT_EQ(name(26), "IQ3_S");
  EXPECT_EQ(name(27), "IQ3_M");
  EXPECT_EQ(name(30), "IQ4_XS");
  EXPECT_EQ(name(1024 + 15), "Q4_K_M");  // guessed
  EXPECT_EQ(name(999), "");
  EXPECT_EQ(gguf_file_type(shards_of(file_of("llama")).first()), "");
}

TEST_F(GgufKeys, YarnHasKeysOfItsOwn) {
  test::GgufBytes file = file_of("llama");
  file.text("llama.rope.scaling.type", "yarn").number("llama.rope.scaling.original_context_length", 128);
  const auto add = [&](const char* key, float value) {
    file.value(std::string("llama.rope.scaling.") + key, test::kGgufF32, test::raw(value));
  };
  add("factor", 4);
  add("yarn_attn_factor", 1.5F);
  add("yarn_beta_fast", 24);
  add("yarn_beta_slow", 2);
  const Json scaling = config(file).at("rope_scaling");
  EXPECT_EQ(scaling.at("rope_type"), "yarn");
  EXPECT_EQ(scaling.at("factor"), 4.0);
  EXPECT_EQ(scaling.at("attention_factor"), 1.5);
  EXPECT_EQ(scaling.at("beta_fast"), 24.0);
  EXPECT_EQ(scaling.at("beta_slow"), 2.0);
  EXPECT_EQ(scaling.at("original_max_position_embeddings"), 128);
}

// Files of old have the key without "scaling"; the newer one counts.
TEST_F(GgufKeys, LinearScalingHasTwoKeys) {
  test::GgufBytes file = file_of("llama");
  file.value("llama.rope.scale_linear", test::kGgufF32, test::raw(2.0F));
  EXPECT_EQ(config(file).at("rope_scaling"), (Json{{"rope_type", "linear"}, {"factor", 2.0}}));
  file.text("llama.rope.scaling.type", "linear")
      .value("llama.rope.scaling.factor", test::kGgufF32, test::raw(4.0F));
  EXPECT_EQ(config(file).at("rope_scaling"), (Json{{"rope_type", "linear"}, {"factor", 4.0}}));
}

TEST_F(GgufKeys, TensorsOfImagesAreLeftOut) {
  const GgufShards shards =
      shards_of(file_of("llama").tensor("v.patch_embd.weight", {4}, 0, 16).tensor("mm.0.weight", {4}, 0, 16));
  const GgufCheckpoint checkpoint(shards, architecture_of(shards));
  const std::vector<CheckpointTensor> tensors = checkpoint.tensors();
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0]->name, "model.embed_tokens.weight");
}

TEST(GgufNames, HaveTheNumbersOfLayers) {
  const GgufArchitecture& llama = *gguf_architecture("llama");
  for (int layer = 0; layer < 120; ++layer) {
    const std::string module = fmt::format("model.layers.{}.mlp.down_proj.weight", layer),
                      own = fmt::format("blk.{}.ffn_down.weight", layer);
    EXPECT_EQ(gguf_name_of(llama, module).name, own);
    EXPECT_EQ(translated(llama, own).name, module);
  }
}

// Whatever integer type a file chose.
TEST_F(GgufKeys, NegativeIntegersStayNegative) {
  test::GgufBytes file = file_of("llama");
  file.value("a", 1, test::raw<std::int8_t>(-3)).value("b", 3, test::raw<std::int16_t>(-3));
  file.value("c", test::kGgufI32, test::raw<std::int32_t>(-3))
      .value("d", test::kGgufI64, test::raw<std::int64_t>(-3));
  const GgufShards shards = shards_of(file);
  for (const char* key : {"a", "b", "c", "d"}) EXPECT_EQ(shards.first().integer(key), -3) << key;
}

}  // namespace
}  // namespace assay
