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

enum class Position { learned };

// Names of the tensors in the files, `{}` standing for the layer. Empty: the model has none.
struct TensorNames {
  std::string tokens, positions;
  std::string attention_norm, qkv, attention_out;
  std::string mlp_norm, mlp_in, mlp_out;
  std::string final_norm, head;
  bool linear_is_transposed = false;  // files hold [inputs, outputs]
};

struct ModelSpec {
  std::string family;  // "gpt2": for people, never for decisions
  std::int64_t vocab = 0, context = 0, hidden = 0, mlp_hidden = 0;
  int layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  Norm norm = Norm::layer;
  float epsilon = 1e-5F;
  Position position = Position::learned;
  std::int64_t position_offset = 0;
  Activation activation = Activation::gelu_tanh;
  bool is_head_tied = true;
  bool scales_attention = true;            // by 1 / sqrt(head_dim)
  bool scales_attention_by_layer = false;  // and by 1 / (layer + 1)
  std::int64_t attention_window = 0;       // 0 = all earlier tokens
  std::vector<TokenId> end_tokens;         // generation stops at any of them
  TensorNames names;

  float attention_scale(int layer) const;
};

}  // namespace assay
