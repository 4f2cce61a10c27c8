// GPT-2 and Llama folders of a few thousand numbers that a test can spoil in any way. They have no tokenizer.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "safetensors_writer.h"
#include "temporary_folder.h"

namespace assay::test {

struct TinyModel {
  nlohmann::ordered_json config;
  std::vector<WrittenTensor> tensors;

  explicit TinyModel(std::int64_t context = 16) {
    constexpr std::int64_t kVocab = 11, kHidden = 4, kMlp = 16;
    config = {{"model_type", "gpt2"},
              {"vocab_size", kVocab},
              {"n_positions", context},
              {"n_embd", kHidden},
              {"n_layer", 1},
              {"n_head", 2},
              {"activation_function", "gelu_new"}};
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
      tensors.push_back(float_tensor("transformer." + name, std::move(shape)));
    };
    const auto add_norm = [&](const std::string& name) {
      add(name + ".weight", {kHidden});
      add(name + ".bias", {kHidden});
    };
    const auto add_linear = [&](const std::string& name, std::int64_t inputs, std::int64_t outputs) {
      add(name + ".weight", {inputs, outputs});
      add(name + ".bias", {outputs});
    };
    add("wte.weight", {kVocab, kHidden});
    add("wpe.weight", {context, kHidden});
    add_norm("h.0.ln_1");
    add_linear("h.0.attn.c_attn", kHidden, 3 * kHidden);
    add_linear("h.0.attn.c_proj", kHidden, kHidden);
    add_norm("h.0.ln_2");
    add_linear("h.0.mlp.c_fc", kHidden, kMlp);
    add_linear("h.0.mlp.c_proj", kMlp, kHidden);
    add_norm("ln_f");
  }

  WrittenTensor& tensor(const std::string& name) {
    for (WrittenTensor& t : tensors)
      if (t.name == name) return t;
    throw std::logic_error("no tensor " + name);
  }

  std::string weights() const { return safetensors_file(tensors); }
  nlohmann::ordered_json header() const { return safetensors_header(tensors); }
  std::string data() const { return safetensors_data(tensors); }

  std::string write(const std::filesystem::path& folder) const { return write(folder, weights()); }
  // With other bytes as model.safetensors. Returns the folder.
  std::string write(const std::filesystem::path& folder, std::string_view weights) const {
    std::filesystem::create_directories(folder);
    write_file(folder / "config.json", config.dump());
    write_file(folder / "model.safetensors", weights);
    return folder.string();
  }
};

// For the llama family: grouped heads, an LM head of its own.
inline TinyModel tiny_llama(std::int64_t vocab = 11) {
  constexpr std::int64_t kHidden = 8, kMlp = 12, kHeads = 2, kKvHeads = 1, kHeadDim = 4;
  TinyModel model;
  model.config = {{"model_type", "llama"},         {"vocab_size", vocab},
                  {"max_position_embeddings", 16}, {"hidden_size", kHidden},
                  {"intermediate_size", kMlp},     {"num_hidden_layers", 1},
                  {"num_attention_heads", kHeads}, {"num_key_value_heads", kKvHeads},
                  {"head_dim", kHeadDim},          {"hidden_act", "silu"},
                  {"rms_norm_eps", 1e-5},          {"rope_theta", 10000.0},
                  {"tie_word_embeddings", false}};
  model.tensors.clear();
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    model.tensors.push_back(float_tensor(name, std::move(shape)));
  };
  const std::string layer = "model.layers.0.";
  add("model.embed_tokens.weight", {vocab, kHidden});
  add(layer + "input_layernorm.weight", {kHidden});
  add(layer + "self_attn.q_proj.weight", {kHeads * kHeadDim, kHidden});
  add(layer + "self_attn.k_proj.weight", {kKvHeads * kHeadDim, kHidden});
  add(layer + "self_attn.v_proj.weight", {kKvHeads * kHeadDim, kHidden});
  add(layer + "self_attn.o_proj.weight", {kHidden, kHeads * kHeadDim});
  add(layer + "post_attention_layernorm.weight", {kHidden});
  add(layer + "mlp.gate_proj.weight", {kMlp, kHidden});
  add(layer + "mlp.up_proj.weight", {kMlp, kHidden});
  add(layer + "mlp.down_proj.weight", {kHidden, kMlp});
  add("model.norm.weight", {kHidden});
  add("lm_head.weight", {vocab, kHidden});
  return model;
}

}  // namespace assay::test
