#include "assay/backend/cpu/lower/supported.h"

#include "assay/backend/supported.h"
#include "assay/base/error.h"

namespace assay::cpu {

namespace {

// The formats that kernels serve, by name: a new one is a line here.
constexpr WeightFormat kServedFormats[] = {
    formats::kFloat32, formats::kBfloat16, formats::kInt8,  formats::kLlmInt8,  formats::kNf4,
    formats::kFp4,     formats::kNf4Dq,    formats::kFp4Dq, formats::kInt4G128, formats::kInt4G32,
    formats::kQ8_0,    formats::kQ4_0,     formats::kQ4_1,  formats::kQ5_0,     formats::kQ5_1,
    formats::kIq4Nl,   formats::kMxfp4,    formats::kQ2K,   formats::kQ3K,      formats::kQ4K,
    formats::kQ5K,     formats::kQ6K,      formats::kIq4Xs, formats::kTq2_0};

}  // namespace

void check_formats(const Plan& plan) {
  for (const WeightSpec& w : plan.weights)
    if (w.arithmetic.multiply == Multiply::tf32)
      throw FieldError("float32_matmul", "expected float32, bf16x3 or bf16x6 on a CPU, found tf32");
  check_served(plan, "CPU", kServedFormats);
  for (const WeightSpec& w : plan.weights)
    if (w.arithmetic.multiply == Multiply::float16)
      throw Error("weight '{}': expected a format that a CPU multiplies, found float16", w.name);
  if (plan.kv_format == KvFormat::float16)
    throw Error("the KV cache: expected a format that a CPU multiplies, found float16");
}

void check_planes(const Plan& plan, const KernelTable& table, std::string_view kernels) {
  for (const WeightSpec& w : plan.weights)
    if (w.planes() > 1 && !table.uses_tiles)
      throw FieldError(
          "float32_matmul",
          "matrix multiplications of bfloat16 parts need AMX or AVX-512 BF16, and the kernels here are those "
          "of {}",
          kernels);
}

}  // namespace assay::cpu
