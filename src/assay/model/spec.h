// A model family's architecture as data: sizes and choices. After a family file has filled it in, nothing
// asks which family it was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assay/base/token_id.h"
#include "assay/plan/plan.h"

namespace assay {

enum class Position { learned, rotary };

// One matrix (`fc`, activation, `proj`), or a gate and an up projection whose product goes down.
enum class Mlp { plain, gated };

// Names of modules and tensors in the files, `{}` standing for the layer. Empty: the model has none.
struct TensorNames {
  std::string tokens, positions;  // tensors
  std::string attention_norm, mlp_norm, final_norm;
  std::vector<std::string> qkv;  // one fused module, or query, key and value projections
  std::string attention_out;
  std::vector<std::string> mlp_in;  // one module, or gate and up projections
  std::string mlp_out;
  std::string head;  // tensor, of an LM head; where it is tied a file may hold a copy of the embedding there
  bool linear_is_transposed = false;  // files hold [in_features, out_features]
  // Ends of the names of tensors that files may hold and the model does not need: causal masks and other
  // buffers.
  std::vector<std::string> buffers;
};

// Rotary position embedding of queries and keys.
struct RotarySpec {
  RotaryPairing pairing = RotaryPairing::halves;
  std::vector<float> frequencies;  // model/rotary.h
  float amplitude = 1;
};

struct ModelSpec {
  std::string family;  // "gpt2": for people, never for decisions
  std::int64_t vocab = 0, context = 0, hidden = 0, mlp_hidden = 0;
  int layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  Norm norm = Norm::layer;
  bool has_norm_bias = true;
  float epsilon = 1e-5F;
  Position position = Position::learned;
  std::int64_t position_offset = 0;
  RotarySpec rotary;
  Mlp mlp = Mlp::plain;
  Activation activation = Activation::gelu_tanh;
  bool has_qkv_bias = true, has_attention_out_bias = true, has_mlp_bias = true;
  bool is_head_tied = true;
  bool scales_attention = true;            // by 1 / sqrt(head_dim)
  bool scales_attention_by_layer = false;  // and by 1 / (layer + 1)
  std::int64_t attention_window = 0;       // 0 = all earlier tokens
  std::vector<TokenId> end_tokens;         // generation stops at any of them
  bool has_bfloat16_weights = false;       // the file's matrices, all of them
  TensorNames names;
  std::vector<std::string> warnings;  // what the configuration says and cannot be

  float attention_scale(int layer) const;
  std::int64_t query_columns() const { return std::int64_t{heads} * head_dim; }
  std::int64_t key_columns() const { return std::int64_t{kv_heads} * head_dim; }
};

}  // namespace assay
