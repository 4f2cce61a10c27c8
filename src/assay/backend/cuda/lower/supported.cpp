// What the CUDA backend runs, and the memory it takes.
#include "assay/backend/supported.h"
#include "assay/backend/cuda/run/executor.h"
#include "assay/base/error.h"

namespace assay::cuda {

namespace {

// The formats that kernels serve, by name: a new one is a line here.
constexpr WeightFormat kServedFormats[] = {
    formats::kFloat32, formats::kBfloat16, formats::kFloat16, formats::kInt8,  formats::kLlmInt8,
    formats::kNf4,     formats::kFp4,      formats::kNf4Dq,   formats::kFp4Dq, formats::kInt4G128,
    formats::kInt4G32, formats::kQ8_0,     formats::kQ4_0,    formats::kQ4_1,  formats::kQ5_0,
    formats::kQ5_1,    formats::kIq4Nl,    formats::kMxfp4,   formats::kQ2K,   formats::kQ3K,
    formats::kQ4K,     formats::kQ5K,      formats::kQ6K,     formats::kIq4Xs, formats::kTq2_0};

// Turing (sm_75) multiplies float16, int8 and float32.
void check_without_bfloat16(const Plan& plan, const DeviceFacts& facts) {
  const auto check_linear = [&](const LinearOp& linear) {
    const WeightSpec& w = plan.weight(linear.weight);
    const bool is_bfloat16 = w.format == formats::kBfloat16 || w.arithmetic.multiply == Multiply::bfloat16;
    if (is_bfloat16)
      throw FieldError(
          is_quantized(w.format) ? "dtype" : "precision",
          "{} (sm_{}{}) does not multiply bfloat16, and weight '{}' asks for it; expected float16 or "
          "float32",
          facts.name, facts.major, facts.minor, w.name);
    if (w.arithmetic.multiply == Multiply::tf32)
      throw FieldError("float32_matmul", "{} (sm_{}{}) has no TF32; expected float32, found tf32", facts.name,
                       facts.major, facts.minor);
  };
  for (const Op& op : plan.ops)
    if (const auto* linear = std::get_if<LinearOp>(&op.kind)) check_linear(*linear);
  check_linear(plan.head.product);
  if (plan.kv_format == KvFormat::bfloat16)
    throw FieldError(
        "kv_cache",
        "{} (sm_{}{}) does not multiply bfloat16; expected float16, int8 or float32, found bfloat16",
        facts.name, facts.major, facts.minor);
}

}  // namespace

MemoryReport memory_of(const WeightLayout& weights, const WorkspaceLayout& work) {
  return {weights.weight_bytes, {weights.bytes - weights.weight_bytes.value}, {work.bytes}};
}

void check_supported(const Plan& plan, const DeviceFacts& facts) {
  assay::check_supported(plan, "CUDA", kMaxHeadDim);
  check_served(plan, "CUDA", kServedFormats);
  if (plan.has_candidate_search)
    throw FieldError("lm_head_search",
                     "the CUDA backend does not search the LM head in int8; leave it out on a GPU");
  for (const WeightSpec& w : plan.weights)
    if (w.planes() > 1)
      throw FieldError("float32_matmul", "expected float32 or tf32 on a GPU, found {} of weight '{}'",
                       name_of(w.arithmetic.multiply), w.name);
  const auto check_linear = [&](const LinearOp& linear) {
    if (linear.has_int8_activations)
      throw FieldError("activations",
                       "the CUDA backend does not multiply int8 activations by {}; leave it out on a GPU",
                       name_of(plan.weight(linear.weight).format));
  };
  for (const Op& op : plan.ops)
    if (const auto* linear = std::get_if<LinearOp>(&op.kind)) check_linear(*linear);
  check_linear(plan.head.product);
  if (!has_bfloat16(facts)) check_without_bfloat16(plan, facts);
}

PredictedMemory predicted_memory(const Plan& plan, const DeviceFacts& facts, std::int64_t tokens,
                                 const GemmWays& ways) {
  check_supported(plan, facts);
  return {memory_of(WeightLayout(plan), WorkspaceLayout(plan, facts, ways)),
          cache_bytes_of(cache_layout_of(plan), tokens)};
}

}  // namespace assay::cuda
