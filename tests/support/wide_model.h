// A Llama whose matrices have inputs enough for super-blocks of GGUF.
#pragma once

#include <string>
#include <vector>

#include "tiny_model.h"

namespace assay::test {

// Numbers that float16 holds too: a GGUF file has embeddings in that.
inline WrittenTensor half_tensor(const std::string& name, const std::vector<std::int64_t>& shape) {
  WrittenTensor tensor = float_tensor(name, shape);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 7919 + name.size() * 31) % 251) / 2048 - 0.0625F;
  tensor.bytes = float_bytes(values);
  return tensor;
}

// Rotary halves, keys shared by heads, an LM head of its own; 64 tokens.
inline constexpr std::int64_t kWideHidden = 256, kWideMlp = 512;
inline TinyModel wide_llama(std::int64_t mlp = kWideMlp) {
  TinyModel model = tiny_llama(64);
  model.config["hidden_size"] = kWideHidden;
  model.config["intermediate_size"] = mlp;
  model.config["head_dim"] = kWideHidden / 2;
  for (WrittenTensor& tensor : model.tensors) {
    std::vector<std::int64_t> shape = tensor.shape;
    const bool is_up = tensor.name.find("gate_proj") != std::string::npos ||
                       tensor.name.find("up_proj") != std::string::npos,
               is_down = tensor.name.find("down_proj") != std::string::npos,
               is_key = tensor.name.find("k_proj") != std::string::npos ||
                        tensor.name.find("v_proj") != std::string::npos;
    shape.back() = is_down ? mlp : kWideHidden;
    if (shape.size() == 2 && shape[0] != 64) shape[0] = is_up ? mlp : is_key ? kWideHidden / 2 : kWideHidden;
    tensor = half_tensor(tensor.name, shape);
  }
  return model;
}

}  // namespace assay::test
