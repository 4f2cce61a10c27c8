#include "assay/base/format.h"
#include "assay/model/blocks/blocks.h"

namespace assay {

void write_mlp(PlanWriter& write, int layer, const BlockBuffers& buffers) {
  const ModelSpec& spec = write.spec();
  std::vector<Module> in;
  const std::int64_t outputs =
      spec.mlp == Mlp::gated && spec.names.mlp_in.size() == 1 ? 2 * spec.mlp_hidden : spec.mlp_hidden;
  for (const std::string& pattern : spec.names.mlp_in)
    in.push_back({PlanWriter::named(pattern, layer), outputs, spec.has_mlp_bias});
  if (spec.mlp == Mlp::gated) {
    write.linear(in, buffers.h, buffers.gate_up);  // g, u = h Wgate, h Wup
    write.add(fmt::format("gated.{}", layer), Phase::linear,
              GatedOp{spec.activation, buffers.gate_up, buffers.mlp});  // f = act(g) * u
  } else {
    write.linear(in, buffers.h, buffers.mlp, spec.activation);  // f = act(h Win)
  }
  const Module out{PlanWriter::named(spec.names.mlp_out, layer), spec.hidden, spec.has_mlp_bias};
  write.linear({out}, buffers.mlp, buffers.x, Activation::none, true);  // x += f Wout
}

}  // namespace assay
