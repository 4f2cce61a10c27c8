#include "assay/model/forward.h"

#include <cmath>

#include "assay/model/blocks/blocks.h"

namespace assay {

float ModelSpec::attention_scale(int layer) const {
  float scale = scales_attention ? 1.0F / std::sqrt(static_cast<float>(head_dim)) : 1.0F;
  if (attention_multiplier) scale = *attention_multiplier;
  if (scales_attention_by_layer) scale /= static_cast<float>(layer + 1);
  return scale;
}

std::int64_t ModelSpec::window_of(int layer) const {
  return has_window.empty() || has_window[static_cast<std::size_t>(layer)] ? attention_window : 0;
}

const RotarySpec* ModelSpec::rotary_of(int layer) const {
  if (position != Position::rotary) return nullptr;
  if (!has_rotary.empty() && !has_rotary[static_cast<std::size_t>(layer)]) return nullptr;
  return window_rotary && window_of(layer) > 0 ? &*window_rotary : &rotary;
}

std::vector<std::string> modules_of(const Plan& plan) {
  std::vector<std::string> modules;
  for (const Op& op : plan.ops)
    if (const auto* linear = std::get_if<LinearOp>(&op.kind))
      modules.insert(modules.end(), linear->modules.begin(), linear->modules.end());
  return modules;
}

BlockBuffers make_buffers(PlanWriter& write) {
  const ModelSpec& spec = write.spec();
  BlockBuffers buffers;
  buffers.x = write.buffer("x", spec.hidden);
  buffers.h = write.buffer("normed", spec.hidden);
  if (spec.residual_scale != 1 || !spec.names.attention_out_norm.empty() || !spec.names.mlp_out_norm.empty())
    buffers.added = write.buffer("added", spec.hidden);
  buffers.qkv = write.buffer("qkv", spec.query_columns() + 2 * spec.key_columns());
  buffers.attended = write.buffer("attended", spec.query_columns());
  if (spec.mlp == Mlp::gated) buffers.gate_up = write.buffer("gate_up", 2 * spec.mlp_hidden);
  buffers.mlp = write.buffer("mlp", spec.mlp_hidden);
  return buffers;
}

namespace {

// Attention and MLP one after the other. Norms before them or, in post-norm models, behind.
void write_layer(PlanWriter& write, int layer, const BlockBuffers& b) {
  const TensorNames& names = write.spec().names;
  const bool is_pre_norm = !write.spec().is_post_norm;
  const auto normed = [&](const std::string& pattern) {  // what a block reads
    if (!is_pre_norm || pattern.empty()) return b.x;
    write.norm(PlanWriter::named(pattern, layer), b.x, b.h);  // h = norm(x)
    return b.h;
  };
  const auto norm_behind = [&](const std::string& pattern) {
    if (!is_pre_norm) write.norm(PlanWriter::named(pattern, layer), b.x, b.x);  // x = norm(x)
  };
  const BufferId attention_in = normed(names.attention_norm);
  write_attention(write, layer, attention_in, attention_in == b.x, b);  // a = attention(h)
  write_attention_out(write, layer, b);                                 // x += a Wo
  norm_behind(names.attention_norm);
  write_mlp(write, layer, normed(names.mlp_norm), b);  // x += mlp(norm(x))
  norm_behind(names.mlp_norm);
}

// Attention and MLP side by side, of one norm of x or of one each.
void write_parallel_layer(PlanWriter& write, int layer, const BlockBuffers& b) {
  const TensorNames& names = write.spec().names;
  const bool is_shared = names.mlp_norm.empty();
  write.norm(PlanWriter::named(names.attention_norm, layer), b.x, b.h);            // h = norm(x)
  write_attention(write, layer, b.h, is_shared, b);                                // a = attention(h)
  if (!is_shared) write.norm(PlanWriter::named(names.mlp_norm, layer), b.x, b.h);  // h = norm'(x)
  write_attention_out(write, layer, b);                                            // x += a Wo
  write_mlp(write, layer, b.h, b);                                                 // x += mlp(h)
}

}  // namespace

Plan plan_forward(const ModelSpec& spec, const Precision& precision, const Calibration& calibration) {
  PlanWriter write(spec, precision, calibration);
  const BlockBuffers buffers = make_buffers(write);
  write.embed(buffers.x);
  for (int layer = 0; layer < spec.layers; ++layer)
    (spec.is_parallel ? write_parallel_layer : write_layer)(write, layer, buffers);
  return write.finish(buffers.x);
}

}  // namespace assay
