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

enum class Position { learned, rotary, alibi };

// One matrix (`fc`, activation, `proj`), or a gate and an up projection whose product goes down.
enum class Mlp { plain, gated };

// Norms of queries and keys: each head with the same gain (Qwen 3), each with a gain of its own (StableLM 2),
// or all heads of a token as one row (OLMo 2).
enum class QkNorm { none, by_head, each_head, whole };

// Rows of a fused projection: all queries, all keys, all values; or by key head: its queries, its key, its
// value.
enum class QkvOrder { by_kind, by_key_head };

// Names of modules and tensors in the files, `{}` standing for the layer. Empty: the model has none.
struct TensorNames {
  std::string tokens = {}, positions = {};  // tensors
  std::string embedding_norm = {};
  std::string project_in = {}, project_out = {};  // between embeddings and hidden states of another width
  std::string attention_norm = {}, mlp_norm = {}, final_norm = {};
  std::string attention_out_norm = {},
              mlp_out_norm = {};               // norms of what a block adds to the residual stream
  std::vector<std::string> qkv = {};           // one fused module, or query, key and value projections
  std::string query_norm = {}, key_norm = {};  // with a second `{}` for the head where each has its own
  std::string attention_out = {};
  std::vector<std::string> mlp_in = {};  // one module, or gate and up projections
  std::string mlp_out = {};
  std::string head =
      {};  // tensor, of an LM head; where it is tied a file may hold a copy of the embedding there
  std::string head_bias = {};         // tensor
  bool linear_is_transposed = false;  // files hold [in_features, out_features]
  // Ends of the names of tensors that files may hold and the model does not need: causal masks and other
  // buffers.
  std::vector<std::string> buffers = {};
  // Beginnings of the names of tensors for what is no text, of models that see or hear as well.
  std::vector<std::string> other_modalities = {};
};

// Rotary position embedding of queries and keys.
struct RotarySpec {
  RotaryPairing pairing = RotaryPairing::halves;
  std::vector<float> frequencies;  // model/rotary.h
  float amplitude = 1;
  std::vector<float> long_frequencies = {};  // RotaryOp (plan/ops.h)
  std::int64_t original_context = 0;
};

struct ModelSpec {
  std::string family;  // "gpt2": for people, never for decisions
  std::int64_t vocab = 0, context = 0, hidden = 0, mlp_hidden = 0;
  int layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t embed_width = 0;  // that embeddings and LM head have; 0: hidden
  Norm norm = Norm::layer;
  bool has_norm_bias = true;
  float gain_offset = 0;  // 1 for norms that multiply by 1 + weight
  float epsilon = 1e-5F;
  bool is_parallel = false;   // attention and MLP read the same x, and both are added to it
  bool is_post_norm = false;  // attention_norm and mlp_norm follow the residual's addition
  float embed_scale = 1, residual_scale = 1, logit_scale = 1;
  float logit_cap = 0, attention_cap = 0;  // soft caps (Gemma 2); 0 = none
  Position position = Position::learned;
  std::int64_t position_offset = 0;
  RotarySpec rotary;
  std::optional<RotarySpec> window_rotary;  // for layers with a window, where it differs
  std::vector<bool> has_rotary;             // by layer; empty: all
  std::vector<float> alibi_slopes;          // by head
  QkNorm qk_norm = QkNorm::none;
  bool has_qk_norm_bias = false;
  QkvOrder qkv_order = QkvOrder::by_kind;
  Mlp mlp = Mlp::plain;
  Activation activation = Activation::gelu_tanh;
  bool has_qkv_bias = true, has_attention_out_bias = true, has_mlp_bias = true;
  bool is_head_tied = true, has_head_bias = false;
  bool scales_attention = true;               // by 1 / sqrt(head_dim)
  bool scales_attention_by_layer = false;     // and by 1 / (layer + 1)
  std::optional<float> attention_multiplier;  // instead of 1 / sqrt(head_dim)
  std::int64_t attention_window = 0;          // 0 = all earlier tokens
  std::vector<bool> has_window;               // by layer; empty: all
  std::vector<TokenId> end_tokens;            // generation stops at any of them
  bool has_bfloat16_weights = false;          // the file's matrices, all of them
  TensorNames names;
  std::vector<std::string> warnings;  // what the configuration says and cannot be

  float attention_scale(int layer) const;
  std::int64_t window_of(int layer) const;       // 0 = all earlier tokens
  const RotarySpec* rotary_of(int layer) const;  // null: none
  std::int64_t embedding_width() const { return embed_width > 0 ? embed_width : hidden; }
  std::int64_t query_columns() const { return std::int64_t{heads} * head_dim; }
  std::int64_t key_columns() const { return std::int64_t{kv_heads} * head_dim; }
};

}  // namespace assay
