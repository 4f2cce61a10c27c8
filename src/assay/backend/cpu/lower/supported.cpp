#include "assay/backend/cpu/lower/supported.h"

#include "assay/base/error.h"

namespace assay::cpu {

void check_formats(const Plan& plan) {
  for (const WeightSpec& w : plan.weights) {
    if (w.format == WeightFormat::tf32)
      throw FieldError("float32_matmul", "expected float32, bf16x3 or bf16x6 on a CPU, found tf32");
    if (w.format == WeightFormat::float16 || w.expanded == WeightFormat::float16)
      throw Error("weight '{}': expected a format that a CPU multiplies, found float16", w.name);
  }
  if (plan.kv_format == KvFormat::float16)
    throw Error("the KV cache: expected a format that a CPU multiplies, found float16");
}

void check_planes(const Plan& plan, const KernelTable& table, std::string_view kernels) {
  for (const WeightSpec& w : plan.weights)
    if (planes_of(w.format) > 1 && !table.uses_tiles)
      throw FieldError(
          "float32_matmul",
          "matrix multiplications of bfloat16 parts need AMX or AVX-512 BF16, and the kernels here are those "
          "of {}",
          kernels);
}

}  // namespace assay::cpu
