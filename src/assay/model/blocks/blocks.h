// The parts that a decoder layer is made of.
#pragma once

#include "assay/model/plan_writer.h"

namespace assay {

// The buffers of a forward pass.
struct BlockBuffers {
  BufferId x = kNone;         // [hidden]: the residual stream
  BufferId h = kNone;         // [hidden]: normed
  BufferId added = kNone;     // [hidden]: what is normed or scaled before it is added to x
  BufferId qkv = kNone;       // [(heads + 2 kv_heads) * head_dim]
  BufferId attended = kNone;  // [heads * head_dim]
  BufferId gate_up = kNone;   // [2 * mlp_hidden], of a gated MLP
  BufferId mlp = kNone;       // [mlp_hidden]
};
BlockBuffers make_buffers(PlanWriter& write);

// attended = attention(in); `in` is shared where other operations read it as well.
void write_attention(PlanWriter& write, int layer, BufferId in, bool is_shared, const BlockBuffers& buffers);
// x += attended Wo.
void write_attention_out(PlanWriter& write, int layer, const BlockBuffers& buffers);
// x += mlp(in).
void write_mlp(PlanWriter& write, int layer, BufferId in, const BlockBuffers& buffers);
// x += scale * norm(in W), `norm` a module or empty.
void write_residual(PlanWriter& write, const Module& module, BufferId in, const std::string& norm,
                    const BlockBuffers& buffers);

}  // namespace assay
