// Models in GGUF files: logits of the weights that llama.cpp's converter was given, blocks, folders with
// several files, and damaged files.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <random>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/json.h"
#include "assay/base/tokenizer_files.h"
#include "assay/checkpoint/gguf_checkpoint.h"
#include "assay/checkpoint/gguf_source.h"
#include "assay/checkpoint/gguf_weights.h"
#include "assay/model/families/families.h"
#include "assay/model/model.h"
#include "assay/quant/code_values.h"
#include "assay/session/load.h"
#include "assay/tensor/half.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"
#include "support/gguf_writer.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

using test::fixture;

std::vector<float> logits_of_gguf(const std::filesystem::path& path, const std::vector<TokenId>& ids) {
  const Model model = Model::load(open_source(path), test::cpu_backend(test::usable_isas().back()),
                                  precision_from_name("float32"));
  return test::all_logits(model.program(), ids);
}

double error_of_gguf(const std::string& name, const std::filesystem::path& expected) {
  const SafetensorsFile file(expected);
  const std::vector<float> want = test::read_floats(file, "logits"),
                           got = logits_of_gguf(fixture("gguf") / (name + ".gguf"),
                                                test::read_ids(file, "input_ids"));
  return test::largest_difference(got, want) / test::standard_deviation_of(want);
}

class GgufModel : public testing::TestWithParam<const char*> {};

// Norms of Gemma lose the last bits of what was added to them; all others are as exact as the folders are.
TEST_P(GgufModel, HasTheLogitsOfItsFolder) {
  const std::filesystem::path own = fixture("gguf") / (std::string(GetParam()) + ".safetensors"),
                              folder = test::fixture_model(GetParam()) / "expected.safetensors";
  EXPECT_LE(error_of_gguf(GetParam(), std::filesystem::exists(own) ? own : folder), 2e-5);
}
INSTANTIATE_TEST_SUITE_P(OfFixtures, GgufModel,
                         testing::Values("bloom_six", "cohere_scaled", "falcon_one_key", "gemma2_capped",
                                         "gemma3_scaled", "gemma_legacy", "gpt_neox_serial", "granite_scaled",
                                         "llama_biased", "llama_scaled", "minimal", "mistral_yarn",
                                         "olmo2_grouped", "phi3_longrope", "phi_partial", "qwen2_biased",
                                         "qwen3_heads", "smollm3_interval", "stablelm_serial",
                                         "starcoder2_untied"));

class GgufBlocks : public testing::TestWithParam<const char*> {};

TEST_P(GgufBlocks, HaveTheLogitsOfTransformers) {
  EXPECT_LE(error_of_gguf(GetParam(), fixture("gguf") / (std::string(GetParam()) + ".safetensors")), 2e-5);
}

// What a backend multiplies of them, within what its arithmetic of blocks is off.
TEST_P(GgufBlocks, RunAsTheyAreStored) {
  const std::string path = (fixture("gguf") / (std::string(GetParam()) + ".gguf")).string();
  const LoadedModel loaded = load_model_and_tokenizer({path}, "auto", Device{});
  EXPECT_NE(loaded.dtype_label.find("(as stored)"), std::string::npos) << loaded.dtype_label;
  const SafetensorsFile file(fixture("gguf") / (std::string(GetParam()) + ".safetensors"));
  const std::vector<float> want = test::read_floats(file, "logits"),
                           got = test::all_logits(loaded.model->program(), test::read_ids(file, "input_ids"));
  EXPECT_LE(test::largest_difference(got, want) / test::standard_deviation_of(want), 2e-2);
}

TEST_P(GgufBlocks, AreTheSameAsCodesAndAsNumbers) {
  const GgufSource source(fixture("gguf") / (std::string(GetParam()) + ".gguf"));
  const auto weights = source.quantized_weights();
  for (const char* name : {"model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.down_proj.weight"}) {
    const CheckpointTensor at = source.find(name);
    ASSERT_TRUE(at);
    EXPECT_FALSE(at->block_type.empty());
    StoredCodes codes{name, at->shape[0], at->shape[1], weights->format_of(name).value()};
    weights->check(codes);
    const std::int64_t first = 3, rows = codes.rows - 5, group = codes.format.inputs_per_scale;
    std::vector<std::uint8_t> read(static_cast<std::size_t>(rows * codes.columns));
    std::vector<float> numbers(read.size());
    weights->read_codes(codes, first, rows, read.data());
    at.read_floats(first * codes.columns, rows * codes.columns, numbers.data());
    const std::vector<float> scales = weights->read_scales(codes), values = code_values(codes.format);
    for (std::size_t i = 0; i < read.size(); ++i)
      ASSERT_EQ(numbers[i], values[read[i]] * scales[(static_cast<std::size_t>(first * codes.columns) + i) /
                                                     static_cast<std::size_t>(group)]);
    codes.rows += 1;
    EXPECT_THROW(weights->check(codes), Error);
  }
}
INSTANTIATE_TEST_SUITE_P(OfFixtures, GgufBlocks, testing::Values("quantized_q8_0", "quantized_q4_0"));

TEST(GgufModels, SuperBlocksAreTheSameAsNumbers) {
  constexpr std::uint32_t kQ4K = 12, kQ6K = 14;
  constexpr const char *kQuery = "model.layers.0.self_attn.q_proj.weight",
                       *kUp = "model.layers.0.mlp.up_proj.weight";
  const test::TemporaryFolder folder;
  test::GgufBytes file;
  file.text("general.architecture", "llama").number("llama.attention.head_count", 2);
  file.number("llama.embedding_length", 256).number("llama.attention.key_length", 4);
  file.tensor("blk.0.attn_q.weight", {256, 8}, kQ4K, 8 * 144)
      .tensor("blk.0.ffn_up.weight", {512, 3}, kQ6K, 6 * 210);
  test::write_file(folder.path() / "m.gguf", file.bytes());
  const GgufShards shards(folder.path() / "m.gguf");
  const GgufCheckpoint checkpoint(shards, architecture_of(shards));
  const GgufWeights weights(checkpoint);
  for (const char* name : {kQuery, kUp}) {
    const CheckpointTensor at = checkpoint.find(name);
    const StoredCodes codes{name, at->shape[0], at->shape[1], weights.format_of(name).value()};
    const auto count = static_cast<std::size_t>(codes.elements());
    std::vector<std::uint8_t> read(count);
    std::vector<float> numbers(count);
    weights.read_codes(codes, 0, codes.rows, read.data());
    at.read_floats(0, codes.elements(), numbers.data());
    const SuperBlocks blocks = weights.read_super_blocks(codes);
    const std::vector<float> values = code_values(codes.format);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t group = i / static_cast<std::size_t>(codes.format.inputs_per_scale), block = i / 256;
      const float scale =
          f16_to_float(blocks.scale_factors[block]) * scale_code_value(codes.format, blocks.scales[group]);
      const float minimum = blocks.minima.empty() ? 0
                                                  : f16_to_float(blocks.minimum_factors[block]) *
                                                        static_cast<float>(blocks.minima[group]);
      ASSERT_EQ(numbers[i], values[read[i]] * scale - minimum) << name << ' ' << i;
    }
  }
}

// Where a file has queries, keys and values in one tensor, and Transformers has three.
TEST(GgufModels, JoinedQueriesKeysAndValuesAreCut) {
  constexpr std::int64_t kHidden = 4, kHeadDim = 4, kHeads = 2, kRowBytes = 4 * kHidden;
  const test::TemporaryFolder folder;
  test::GgufBytes file;
  file.text("general.architecture", "qwen2").number("qwen2.embedding_length", kHidden);
  file.number("qwen2.attention.head_count", kHeads).number("qwen2.attention.head_count_kv", 1);
  file.number("qwen2.attention.key_length", kHeadDim);
  file.tensor("blk.0.attn_qkv.weight", {kHidden, (kHeads + 2) * kHeadDim}, 0,
              (kHeads + 2) * kHeadDim * kRowBytes);
  test::write_file(folder.path() / "m.gguf", file.bytes());
  const GgufShards shards(folder.path() / "m.gguf");
  const GgufCheckpoint checkpoint(shards, architecture_of(shards));
  std::int64_t first = 0;  // byte
  for (const auto& [name, heads] :
       {std::pair{"q_proj", kHeads}, {"k_proj", std::int64_t{1}}, {"v_proj", 1}}) {
    const CheckpointTensor at = checkpoint.find(fmt::format("model.layers.0.self_attn.{}.weight", name));
    ASSERT_TRUE(at) << name;
    EXPECT_EQ(at->shape, (std::vector<std::int64_t>{heads * kHeadDim, kHidden})) << name;
    std::vector<std::byte> bytes(static_cast<std::size_t>(heads * kHeadDim * kRowBytes));
    at.read_bytes(0, bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      ASSERT_EQ(static_cast<std::int64_t>(bytes[i]), (first + static_cast<std::int64_t>(i)) % 100) << name;
    first += std::ssize(bytes);
  }
}

TEST(GgufModels, RunInAnyPrecisionThatIsAskedFor) {
  const std::string path = (fixture("gguf") / "quantized_q8_0.gguf").string();
  const LoadedModel loaded = load_model_and_tokenizer({path}, "bfloat16", Device{});
  EXPECT_EQ(loaded.dtype_label, "bfloat16 of dequantized weights");
  EXPECT_EQ(loaded.tokenizer->encode("the"),
            (std::vector<TokenId>{297, loaded.tokenizer->id_of("the").value()}));
  EXPECT_EQ(loaded.model->spec().end_tokens, (std::vector<TokenId>{298}));
}

TEST(GgufModels, RowsOfFusedHeadsGoBack) {
  // Falcon with two key heads of two queries each: the file has q0 q1 q2 q3 k0 k1 v0 v1.
  GgufRows rows{GgufRows::Order::by_key_head, 0, {4, 2, 2}};
  std::vector<std::int64_t> heads;
  for (std::int64_t row = 0; row < 16; row += 2) heads.push_back(rows.stored(row) / 2);
  EXPECT_EQ(heads, (std::vector<std::int64_t>{0, 1, 4, 6, 2, 3, 5, 7}));
  rows.order = GgufRows::Order::rotary_pairs;
  rows.heads.head_dim = 4;
  std::vector<std::int64_t> pairs;
  for (std::int64_t row = 0; row < 8; ++row) pairs.push_back(rows.stored(row));
  EXPECT_EQ(pairs, (std::vector<std::int64_t>{0, 2, 1, 3, 4, 6, 5, 7}));
}

std::string refusal_of_opening(const std::filesystem::path& path) {
  try {
    open_source(locate_model(path.string()));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(GgufModels, AreChosenInAFolder) {
  const test::TemporaryFolder folder;
  const auto copy = [&](const char* name) {
    std::filesystem::copy_file(fixture("gguf") / "minimal.gguf", folder.path() / name);
  };
  copy("mmproj-m.gguf");
  copy("m-mmproj-f16.gguf");
  EXPECT_NE(refusal_of_opening(folder.path()).find("the projector of a model that sees or hears"),
            std::string::npos);
  EXPECT_NE(refusal_of_opening(folder.path().string() + ":f16").find("found only the projector of one"),
            std::string::npos);
  copy("m.Q4_K_M.gguf");
  EXPECT_EQ(open_source(folder.path())->path().filename(), "m.Q4_K_M.gguf");
  copy("m.Q4_K.gguf");
  EXPECT_NE(refusal_of_opening(folder.path()).find("found 2 GGUF files: choose one with"), std::string::npos);
  const std::string name = folder.path().string();
  EXPECT_EQ(locate_model(name + ":q4_k").filename(), "m.Q4_K.gguf");
  EXPECT_EQ(locate_model(name + ":Q4_K_M").filename(), "m.Q4_K_M.gguf");
  for (const char* part : {"Q8_0", "Q8_0.gguf"})
    EXPECT_EQ(refusal_of_opening(name + ":" + part),
              fmt::format("{}: expected '{}' in the name of one GGUF file, found it in none of: "
                          "m.Q4_K.gguf, m.Q4_K_M.gguf",
                          name, part));
  // The whole name, with its ending, a part with it, and a name that is a part of another.
  EXPECT_EQ(locate_model(name + ":m.Q4_K_M.gguf").filename(), "m.Q4_K_M.gguf");
  EXPECT_EQ(locate_model(name + ":m.Q4_K_M").filename(), "m.Q4_K_M.gguf");
  EXPECT_EQ(locate_model(name + ":Q4_K.gguf").filename(), "m.Q4_K.gguf");
  copy("m.gguf");
  copy("s-00001-of-00002.gguf");
  EXPECT_EQ(locate_model(name + ":m.gguf").filename(), "m.gguf");
  EXPECT_EQ(locate_model(name + ":m").filename(), "m.gguf");
  for (const char* part : {"s", "s-00001-of-00002.gguf", "s-00002-of-00002.gguf"})
    EXPECT_EQ(locate_model(name + ":" + part).filename(), "s-00001-of-00002.gguf");
  copy("other.Q4_K.gguf");
  EXPECT_EQ(refusal_of_opening(name + ":q4_k.gguf"),
            name +
                ": expected 'q4_k.gguf' in the name of one GGUF file, found it in 2: m.Q4_K.gguf, "
                "other.Q4_K.gguf");
  copy("IN_CAPITALS.GGUF");
  EXPECT_EQ(locate_model(name + ":in_capitals").filename(), "IN_CAPITALS.GGUF");
  const std::string file = name + "/m.gguf";
  EXPECT_EQ(refusal_of_opening(file + ":Q4_K"),
            file + ":Q4_K: expected a folder in front of ':Q4_K', found a file: give the file alone");
  std::filesystem::copy_file(fixture("gguf") / "minimal.gguf", folder.path() / "without_ending");
  EXPECT_EQ(open_source(folder.path() / "without_ending")->config().text("model_type"), "gpt2");
  test::write_file(folder.path() / "other", "text");
  EXPECT_NE(refusal_of_opening(folder.path() / "other").find("expected a model folder or a GGUF file"),
            std::string::npos);
}

TEST(GgufModels, WhatIsNoModelIsRefusedByName) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const test::GgufBytes& file) {
    test::write_file(folder.path() / "m.gguf", file.bytes());
    return refusal_of_opening(folder.path() / "m.gguf");
  };
  test::GgufBytes file;
  EXPECT_NE(refusal(file).find("the key 'general.architecture' is missing"), std::string::npos);
  file.text("general.architecture", "qwen4");
  EXPECT_NE(refusal(file).find("'qwen4' is not supported, the nearest is 'qwen"), std::string::npos);
  for (const char* type : {"adapter", "imatrix"}) {
    test::GgufBytes other;
    other.text("general.type", type).text("general.architecture", "llama");
    EXPECT_NE(refusal(other).find(fmt::format("expected a model, found '{}'", type)), std::string::npos);
  }
  test::GgufBytes images, typed;
  images.text("general.architecture", "clip");
  typed.text("general.type", "mmproj").text("general.architecture", "clip");
  for (const test::GgufBytes* projector : {&images, &typed})
    EXPECT_NE(
        refusal(*projector).find("m.gguf: expected a language model, found the projector (mmproj) of one"),
        std::string::npos);
  test::GgufBytes lists;
  lists.text("general.architecture", "llama").number("llama.embedding_length", 8);
  lists.numbers<std::uint32_t>("llama.attention.head_count", test::kGgufU32, {2, 4});
  EXPECT_NE(
      refusal(lists).find("expected the same number for every layer, found 2 for layer 0 and 4 for layer 1"),
      std::string::npos);
}

std::int64_t largest_resident_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Whatever one changes in a file, it is refused in a sentence or is a model; nothing takes much memory.
TEST(GgufModels, DamagedFilesAreErrors) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "m.gguf";
  std::mt19937_64 random(20261127);
  std::size_t refused = 0;
  const std::int64_t before = largest_resident_kilobytes();
  for (int round = 0; round < 500; ++round) {
    const char* name = round % 2 == 0 ? "quantized_q4_0.gguf" : "llama_scaled.gguf";
    std::string bytes = read_text_file(fixture("gguf") / name);
    const std::size_t header = round % 2 == 0 ? 9000 : 2500;
    for (auto changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % std::min(header, bytes.size() - 8);
      const std::uint64_t extremes[] = {
          0, 1, 0xFF, std::uint64_t{1} << 31, std::uint64_t{1} << 60, ~std::uint64_t{0}};
      if (random() % 2 == 0)
        bytes[at] = static_cast<char>(random());
      else
        bytes.replace(at, 8, test::raw(extremes[random() % 6]));
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    test::write_file(path, bytes);
    try {
      const auto source = open_source(path);
      const ModelSpec spec = spec_from_source(*source);
      check_tensors(spec, Precision{}, *source);
      if (source->has_tokenizer()) Tokenizer::from_files(source->tokenizer_files());
    } catch (const Error& error) {
      EXPECT_FALSE(std::string(error.what()).empty());
      ++refused;
    }
  }
  EXPECT_GT(refused, 200U);
  EXPECT_LT(refused, 500U);
  EXPECT_LT(largest_resident_kilobytes() - before, 200'000);
}

}  // namespace
}  // namespace assay
