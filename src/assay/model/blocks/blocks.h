// The parts that a decoder layer is made of. Each reads `h`, the normed hidden states, and adds to `x`.
#pragma once

#include "assay/model/plan_writer.h"

namespace assay {

// The buffers of a forward pass.
struct BlockBuffers {
  BufferId x = kNone;         // [hidden]: the residual stream
  BufferId h = kNone;         // [hidden]: normed
  BufferId qkv = kNone;       // [(heads + 2 kv_heads) * head_dim]
  BufferId attended = kNone;  // [heads * head_dim]
  BufferId gate_up = kNone;   // [2 * mlp_hidden], of a gated MLP
  BufferId mlp = kNone;       // [mlp_hidden]
};
BlockBuffers make_buffers(PlanWriter& write);

// x += attention(h).
void write_attention(PlanWriter& write, int layer, const BlockBuffers& buffers);
// x += mlp(h).
void write_mlp(PlanWriter& write, int layer, const BlockBuffers& buffers);

}  // namespace assay
