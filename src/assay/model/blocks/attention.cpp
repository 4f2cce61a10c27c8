#include "assay/base/format.h"
#include "assay/model/blocks/blocks.h"

namespace assay {

namespace {

// Where each head of a projection fused by key head lies in [queries, keys, values].
std::vector<std::int64_t> heads_in_order(const ModelSpec& spec) {
  std::vector<std::int64_t> outputs;
  const int shared = spec.heads / spec.kv_heads;
  for (int key = 0; key < spec.kv_heads; ++key) {
    for (int i = 0; i < shared; ++i) outputs.push_back((std::int64_t{key} * shared + i) * spec.head_dim);
    outputs.push_back(spec.query_columns() + std::int64_t{key} * spec.head_dim);
    outputs.push_back(spec.query_columns() + spec.key_columns() + std::int64_t{key} * spec.head_dim);
  }
  return outputs;
}

std::vector<Module> qkv_modules(const ModelSpec& spec, int layer) {
  const std::vector<std::string>& names = spec.names.qkv;
  const auto module = [&](const std::string& pattern, std::int64_t outputs) {
    return Module{PlanWriter::named(pattern, layer), outputs, spec.has_qkv_bias};
  };
  if (names.size() == 1) {
    Module fused = module(names[0], spec.query_columns() + 2 * spec.key_columns());
    if (spec.qkv_order == QkvOrder::by_key_head) {
      fused.run_rows = spec.head_dim;
      fused.run_outputs = heads_in_order(spec);
    }
    return {fused};
  }
  return {module(names[0], spec.query_columns()), module(names[1], spec.key_columns()),
          module(names[2], spec.key_columns())};
}

void write_norm(PlanWriter& write, const std::string& pattern, int layer, int heads, std::int64_t column,
                BufferId qkv) {
  const ModelSpec& spec = write.spec();
  const std::int64_t width = spec.head_dim;
  switch (spec.qk_norm) {
    case QkNorm::none:
      return;
    case QkNorm::by_head:
      return write.norm_part(PlanWriter::named(pattern, layer), qkv, column, width, heads);
    case QkNorm::whole:
      return write.norm_part(PlanWriter::named(pattern, layer), qkv, column, heads * width, 1);
    case QkNorm::each_head:
      for (int head = 0; head < heads; ++head)
        write.norm_part(fmt::format(fmt::runtime(pattern), layer, head), qkv, column + head * width, width,
                        1);
  }
}

}  // namespace

void write_attention(PlanWriter& write, int layer, BufferId in, bool is_shared, const BlockBuffers& buffers) {
  const ModelSpec& spec = write.spec();
  write.linear(qkv_modules(spec, layer), in, buffers.qkv,
               {.is_input_shared = is_shared});                                 // q, k, v = in Wqkv
  write_norm(write, spec.names.query_norm, layer, spec.heads, 0, buffers.qkv);  // q = norm(q)
  write_norm(write, spec.names.key_norm, layer, spec.kv_heads, spec.query_columns(), buffers.qkv);
  if (const RotarySpec* rotary = spec.rotary_of(layer))  // q, k turned by their positions
    write.add(fmt::format("rotary.{}", layer), OpClass::attention,
              RotaryOp{.buffer = buffers.qkv,
                       .heads = spec.heads + spec.kv_heads,
                       .head_dim = spec.head_dim,
                       .pairing = rotary->pairing,
                       .frequencies = rotary->frequencies,
                       .amplitude = rotary->amplitude,
                       .long_frequencies = rotary->long_frequencies,
                       .original_context = rotary->original_context});
  write.add(fmt::format("attention.{}", layer), OpClass::attention,  // a = softmax(q k' s) v
            AttentionOp{.layer = layer,
                        .heads = spec.heads,
                        .kv_heads = spec.kv_heads,
                        .head_dim = spec.head_dim,
                        .scale = spec.attention_scale(layer),
                        .window = spec.window_of(layer),
                        .soft_cap = spec.attention_cap,
                        .alibi_slopes = spec.alibi_slopes,
                        .qkv = buffers.qkv,
                        .out = buffers.attended});
}

void write_attention_out(PlanWriter& write, int layer, const BlockBuffers& buffers) {
  const ModelSpec& spec = write.spec();
  const Module out{PlanWriter::named(spec.names.attention_out, layer), spec.hidden,
                   spec.has_attention_out_bias};
  write_residual(write, out, buffers.attended, PlanWriter::named(spec.names.attention_out_norm, layer),
                 buffers);
}

}  // namespace assay
