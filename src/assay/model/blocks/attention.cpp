#include "assay/base/format.h"
#include "assay/model/blocks/blocks.h"

namespace assay {

namespace {

std::vector<Module> qkv_modules(const ModelSpec& spec, int layer) {
  const std::vector<std::string>& names = spec.names.qkv;
  const auto module = [&](const std::string& pattern, std::int64_t outputs) {
    return Module{PlanWriter::named(pattern, layer), outputs, spec.has_qkv_bias};
  };
  if (names.size() == 1) return {module(names[0], spec.query_columns() + 2 * spec.key_columns())};
  return {module(names[0], spec.query_columns()), module(names[1], spec.key_columns()),
          module(names[2], spec.key_columns())};
}

}  // namespace

void write_attention(PlanWriter& write, int layer, const BlockBuffers& buffers) {
  const ModelSpec& spec = write.spec();
  write.linear(qkv_modules(spec, layer), buffers.h, buffers.qkv);  // q, k, v = h Wqkv
  if (spec.position == Position::rotary)                           // q, k turned by their positions
    write.add(fmt::format("rotary.{}", layer), Phase::attention,
              RotaryOp{.buffer = buffers.qkv,
                       .heads = spec.heads + spec.kv_heads,
                       .head_dim = spec.head_dim,
                       .pairing = spec.rotary.pairing,
                       .frequencies = spec.rotary.frequencies,
                       .amplitude = spec.rotary.amplitude});
  write.add(fmt::format("attention.{}", layer), Phase::attention,  // a = softmax(q k' s) v
            AttentionOp{.layer = layer,
                        .heads = spec.heads,
                        .kv_heads = spec.kv_heads,
                        .head_dim = spec.head_dim,
                        .scale = spec.attention_scale(layer),
                        .window = spec.attention_window,
                        .qkv = buffers.qkv,
                        .out = buffers.attended});
  const Module out{PlanWriter::named(spec.names.attention_out, layer), spec.hidden,
                   spec.has_attention_out_bias};
  write.linear({out}, buffers.attended, buffers.x, Activation::none, true);  // x += a Wo
}

}  // namespace assay
