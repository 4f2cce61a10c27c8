#include "assay/model/forward.h"

#include <cmath>

#include "assay/model/blocks/blocks.h"

namespace assay {

float ModelSpec::attention_scale(int layer) const {
  float scale = scales_attention ? 1.0F / std::sqrt(static_cast<float>(head_dim)) : 1.0F;
  if (scales_attention_by_layer) scale /= static_cast<float>(layer + 1);
  return scale;
}

std::vector<std::string> modules_of(const Plan& plan) {
  std::vector<std::string> modules;
  for (const Op& op : plan.ops)
    if (const auto* linear = std::get_if<LinearOp>(&op.what))
      modules.insert(modules.end(), linear->modules.begin(), linear->modules.end());
  return modules;
}

BlockBuffers make_buffers(PlanWriter& write) {
  const ModelSpec& spec = write.spec();
  BlockBuffers buffers;
  buffers.x = write.buffer("x", spec.hidden);
  buffers.h = write.buffer("normed", spec.hidden);
  buffers.qkv = write.buffer("qkv", spec.query_columns() + 2 * spec.key_columns());
  buffers.attended = write.buffer("attended", spec.query_columns());
  if (spec.mlp == Mlp::gated) buffers.gate_up = write.buffer("gate_up", 2 * spec.mlp_hidden);
  buffers.mlp = write.buffer("mlp", spec.mlp_hidden);
  return buffers;
}

Plan plan_forward(const ModelSpec& spec, const Precision& precision, const Calibration& calibration) {
  PlanWriter write(spec, precision, calibration);
  const BlockBuffers buffers = make_buffers(write);
  write.embed(buffers.x);
  for (int layer = 0; layer < spec.layers; ++layer) {
    write.norm(PlanWriter::named(spec.names.attention_norm, layer), buffers.x, buffers.h);  // h = norm(x)
    write_attention(write, layer, buffers);                                           // x += attention(h)
    write.norm(PlanWriter::named(spec.names.mlp_norm, layer), buffers.x, buffers.h);  // h = norm(x)
    write_mlp(write, layer, buffers);                                                 // x += mlp(h)
  }
  return write.finish(buffers.x);
}

}  // namespace assay
