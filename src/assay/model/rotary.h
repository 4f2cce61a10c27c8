// Angles of rotary position embeddings, with the scalings that stretch a model's context.
#pragma once

#include "assay/base/json_view.h"
#include "assay/model/spec.h"

namespace assay {

// Where a family's configuration keeps what it says of them, and what holds where it says nothing.
struct RotaryKeys {
  double base = 10000;
  const char* base_key = "rope_theta";
  double share = 1;  // how much of a head is turned
  const char* share_key = "partial_rotary_factor";
  int turned = 0;  // elements of a head, instead of a share
  // Of layers with a window, where they have one of their own (Gemma 3).
  double window_base = 0;
  const char* window_base_key = "rope_local_base_freq";
  // Where the configuration has no original_max_position_embeddings beside its scaling; 0: the scaling's own.
  std::int64_t original_context = 0;
};

// Reads `rope_parameters` of Transformers 5, one for all layers or one by layer type, or `rope_theta` and
// `rope_scaling` of 4, into spec.rotary and spec.window_rotary; head_dim and context are there. Frequencies
// in radians per position, computed in float32 as Transformers does: base^(-2 i / turned elements) and then
//   linear     divided by `factor`;
//   llama3     by wavelength, divided, kept or between the two ("The Llama 3 Herd of Models", 2024);
//   yarn       the same with a ramp over the pairs, and a factor for cosine and sine (Peng et al. 2023);
//   longrope   each divided by its own `short_factor` (Ding et al. 2024), and that factor; in a sequence that
//              extends beyond the original context by its `long_factor`, for all of its tokens;
//   dynamic    as they are: they change beyond max_position_embeddings alone.
// Throws Error naming the key for another rope_type and for factors out of range.
void read_rotary(const JsonView& config, const RotaryKeys& keys, ModelSpec& spec);

}  // namespace assay
