// Rotary positions as the metadata and the tensors of a GGUF file give them.
#pragma once

#include "assay/base/json.h"
#include "assay/base/json_view.h"
#include "assay/checkpoint/gguf_names.h"
#include "assay/checkpoint/gguf_shards.h"

namespace assay {

// Adds their keys to a configuration. Factors that a file keeps as a tensor, as it does for Llama 3's
// scaling, become rope_type longrope with the same factors for every length. Throws Error naming the key or
// tensor.
void add_rotary(const GgufShards& shards, const GgufArchitecture& architecture, std::int64_t head_dim,
                Json& config);
// What the file calls the factors, for messages.
void add_rotary_names(const GgufShards& shards, JsonView::KeyNames& names);
// Tensors that add_rotary() reads, and that the model has no other use for.
bool is_rotary_tensor(std::string_view name);

}  // namespace assay
