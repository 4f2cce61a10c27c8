// Folders of several shards, loaded and quantized by the program: what it holds at its peak.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/session/load.h"
#include "support/fixtures.h"
#include "support/program.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;
using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

// Shards of zeros in bfloat16 that take no room on the disk.
void write_shards(const fs::path& folder, const Shapes& tensors, std::size_t shards) {
  nlohmann::ordered_json map;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
    nlohmann::ordered_json header;
    std::uint64_t offset = 0;
    for (std::size_t i = tensors.size() * shard / shards; i < tensors.size() * (shard + 1) / shards; ++i) {
      std::uint64_t bytes = 2;
      for (const std::int64_t size : tensors[i].second) bytes *= static_cast<std::uint64_t>(size);
      header[tensors[i].first] = {
          {"dtype", "BF16"}, {"shape", tensors[i].second}, {"data_offsets", {offset, offset + bytes}}};
      map[tensors[i].first] = name;
      offset += bytes;
    }
    const std::string begin = safetensors_with_header(header.dump(), "");
    write_file(folder / name, begin);
    fs::resize_file(folder / name, begin.size() + offset);
  }
  write_file(folder / "model.safetensors.index.json",
             nlohmann::ordered_json{{"metadata", {}}, {"weight_map", map}}.dump());
}

// 111 million weights of the llama family.
void write_llama(const fs::path& folder) {
  constexpr std::int64_t kHidden = 1024, kMlp = 4096, kVocab = 8192, kLayers = 6, kKeys = 512;
  write_file(folder / "config.json", nlohmann::json{{"model_type", "llama"},
                                                    {"vocab_size", kVocab},
                                                    {"max_position_embeddings", 256},
                                                    {"hidden_size", kHidden},
                                                    {"intermediate_size", kMlp},
                                                    {"num_hidden_layers", kLayers},
                                                    {"num_attention_heads", 16},
                                                    {"num_key_value_heads", 8},
                                                    {"hidden_act", "silu"},
                                                    {"rms_norm_eps", 1e-5},
                                                    {"rope_theta", 10000.0},
                                                    {"tie_word_embeddings", false},
                                                    {"torch_dtype", "bfloat16"}}
                                         .dump());
  Shapes tensors{{"model.embed_tokens.weight", {kVocab, kHidden}}};
  for (int i = 0; i < kLayers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    tensors.insert(tensors.end(), {{layer + "input_layernorm.weight", {kHidden}},
                                   {layer + "self_attn.q_proj.weight", {kHidden, kHidden}},
                                   {layer + "self_attn.k_proj.weight", {kKeys, kHidden}},
                                   {layer + "self_attn.v_proj.weight", {kKeys, kHidden}},
                                   {layer + "self_attn.o_proj.weight", {kHidden, kHidden}},
                                   {layer + "post_attention_layernorm.weight", {kHidden}},
                                   {layer + "mlp.gate_proj.weight", {kMlp, kHidden}},
                                   {layer + "mlp.up_proj.weight", {kMlp, kHidden}},
                                   {layer + "mlp.down_proj.weight", {kHidden, kMlp}}});
  }
  tensors.insert(tensors.end(), {{"model.norm.weight", {kHidden}}, {"lm_head.weight", {kVocab, kHidden}}});
  write_shards(folder, tensors, 3);
}

// 102 million weights, of which each matrix of an MLP has 16.8 million and is stored transposed.
void write_gpt2(const fs::path& folder) {
  constexpr std::int64_t kHidden = 2048, kVocab = 512, kContext = 256, kLayers = 2;
  write_file(folder / "config.json", nlohmann::json{{"model_type", "gpt2"},
                                                    {"vocab_size", kVocab},
                                                    {"n_positions", kContext},
                                                    {"n_embd", kHidden},
                                                    {"n_layer", kLayers},
                                                    {"n_head", 32},
                                                    {"activation_function", "gelu_new"},
                                                    {"torch_dtype", "bfloat16"}}
                                         .dump());
  Shapes tensors{{"transformer.wte.weight", {kVocab, kHidden}},
                 {"transformer.wpe.weight", {kContext, kHidden}}};
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    const std::int64_t outputs = shape.back();
    tensors.push_back({"transformer." + name + ".weight", std::move(shape)});
    tensors.push_back({"transformer." + name + ".bias", {outputs}});
  };
  for (int i = 0; i < kLayers; ++i) {
    const std::string layer = fmt::format("h.{}.", i);
    add(layer + "ln_1", {kHidden});
    add(layer + "attn.c_attn", {kHidden, 3 * kHidden});
    add(layer + "attn.c_proj", {kHidden, kHidden});
    add(layer + "ln_2", {kHidden});
    add(layer + "mlp.c_fc", {kHidden, 4 * kHidden});
    add(layer + "mlp.c_proj", {4 * kHidden, kHidden});
  }
  add("ln_f", {kHidden});
  write_shards(folder, tensors, 2);
}

class LargeModel : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override {
    if (kIsSanitized) GTEST_SKIP() << "a sanitizer keeps memory of its own";
    const bool is_gpt2 = std::string_view(std::get<0>(GetParam())) == "gpt2";
    (is_gpt2 ? write_gpt2 : write_llama)(folder_.path());
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(kModel + "/" + name, folder_ / name);
    std::string text;
    for (int i = 0; i < 40; ++i) text += "A few words to calibrate on. ";
    write_file(text_, text);
  }
  static std::string precision() { return std::get<1>(GetParam()); }
  bool is_calibrated() const { return precision() == "int8-static"; }
  std::vector<std::string> with_calibration(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--precision", precision(), "--threads", "2"});
    if (is_calibrated()) arguments.insert(arguments.end(), {"--calibration", text_});
    return arguments;
  }
  PredictedMemory predicted() const {
    const ModelFolder folder(folder_.path());
    return cpu_backend(best_usable_isa(), 2)
        ->predict(plan_forward(spec_from_source(folder), precision_from_name(precision())), 64);
  }
  std::int64_t most(std::int64_t packed) const { return packed + packed / 20 + kMore; }

  // Code, stacks, a slab of each thread and huge pages in part.
  static constexpr std::int64_t kMore = std::int64_t{40} << 20;
  TemporaryFolder folder_;
  const std::string text_ = folder_ / "calibration.txt";
};

TEST_P(LargeModel, LoadsInItsPackedWeightsAndLittleMore) {
  const ProgramResult result = run_program(
      // Tuning holds as much before anything is loaded, and its answer may not be kept on a busy machine.
      with_calibration(
          {"generate", folder_.path().string(), "--ids", "1", "-n", "1", "--ignore-end", "--tune", "off"}),
      {.watches_memory = true});
  expect_success(result);
  const PredictedMemory memory = predicted();
  const std::int64_t packed = (memory.program.weights + memory.program.packing).value;
  EXPECT_LE(result.peak_bytes, most(packed) + (memory.program.workspace + memory.kv_cache).value)
      << "packed: " << packed;
  EXPECT_GE(result.peak_bytes, packed);
}

TEST_P(LargeModel, IsQuantizedInTheMemoryOfSomeSlabs) {
  TemporaryFolder out;
  const ProgramResult result = run_program(
      with_calibration({"quantize", folder_.path().string(), out / "out"}), {.watches_memory = true});
  expect_success(result);
  // Slabs of each thread, a strip of a transposed matrix among them; a calibration holds the float32 weights
  // of a layer, 64 MB of 444.
  EXPECT_LE(result.peak_bytes, is_calibrated() ? 3 * kMore : kMore + kMore / 2);
}

INSTANTIATE_TEST_SUITE_P(Precisions, LargeModel,
                         testing::Values(std::tuple{"llama", "nf4"}, std::tuple{"llama", "int8-dynamic"},
                                         std::tuple{"llama", "int8-static"}, std::tuple{"llama", "llm-int8"},
                                         std::tuple{"gpt2", "nf4"}, std::tuple{"gpt2", "int8-dynamic"}));

}  // namespace
}  // namespace assay::test
