// Angles of rotary position embeddings, with the scalings that stretch a model's context.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/base/json_view.h"

namespace assay {

// What config.json says of them: `rope_parameters` of Transformers 5, or `rope_theta` and `rope_scaling`
// of 4. Frequencies in radians per position, of head_dim / 2 pairs, computed in float32 as Transformers does:
// base^(-2 i / head_dim); divided by `factor` (linear); or, by wavelength, divided, kept or between the two
// (llama3: "The Llama 3 Herd of Models", 2024). Throws Error naming the key for another rope_type and for
// factors out of range.
std::vector<float> rotary_frequencies(const JsonView& config, int head_dim, double default_base);

}  // namespace assay
