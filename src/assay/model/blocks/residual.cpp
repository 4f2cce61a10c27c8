#include "assay/model/blocks/blocks.h"

namespace assay {

void write_residual(PlanWriter& write, const Module& module, BufferId in, const std::string& norm,
                    const BlockBuffers& buffers) {
  const float scale = write.spec().residual_scale;
  if (norm.empty() && scale == 1) return write.linear({module}, in, buffers.x, {.adds = true});  // x += in W
  write.linear({module}, in, buffers.added);                                                     // y = in W
  if (!norm.empty()) write.norm(norm, buffers.added, buffers.added);  // y = norm(y)
  write.add(module.name + ".add", OpClass::linear,
            AddOp{.scale = scale, .in = buffers.added, .out = buffers.x});  // x += s y
}

}  // namespace assay
