#include "assay/session/fitting_context.h"

namespace assay {

FittingContext fitting_context(Backend& backend, const Plan& plan, Bytes memory) {
  const MemoryReport program = backend.predict(plan, 0).program;
  const Bytes alone = program.weights + program.packing + program.workspace;
  const auto needed = [&](std::int64_t tokens) { return alone + backend.predict(plan, tokens).kv_cache; };
  if (needed(1) > memory) return {0, alone};
  std::int64_t fits = 1, exceeds = plan.context + 1;
  while (exceeds - fits > 1) {
    const std::int64_t middle = fits + (exceeds - fits) / 2;
    (needed(middle) > memory ? exceeds : fits) = middle;
  }
  return {fits, needed(fits)};
}

}  // namespace assay
