#include "assay/base/format.h"
#include "assay/model/blocks/blocks.h"

namespace assay {

void write_mlp(PlanWriter& write, int layer, BufferId in, const BlockBuffers& buffers) {
  const ModelSpec& spec = write.spec();
  std::vector<Module> modules;
  const std::int64_t outputs =
      spec.mlp == Mlp::gated && spec.names.mlp_in.size() == 1 ? 2 * spec.mlp_hidden : spec.mlp_hidden;
  for (const std::string& pattern : spec.names.mlp_in)
    modules.push_back({PlanWriter::named(pattern, layer), outputs, spec.has_mlp_bias});
  if (spec.mlp == Mlp::gated) {
    write.linear(modules, in, buffers.gate_up);  // g, u = in Wgate, in Wup
    write.add(fmt::format("gated.{}", layer), OpClass::linear,
              GatedOp{spec.activation, buffers.gate_up, buffers.mlp});  // f = act(g) * u
  } else {
    write.linear(modules, in, buffers.mlp, {.activation = spec.activation});  // f = act(in Win)
  }
  const Module out{PlanWriter::named(spec.names.mlp_out, layer), spec.hidden, spec.has_mlp_bias};
  write_residual(write, out, buffers.mlp, PlanWriter::named(spec.names.mlp_out_norm, layer), buffers);
}

}  // namespace assay
