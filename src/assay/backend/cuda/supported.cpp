// What the CUDA backend runs, and the memory it takes.
#include <algorithm>
#include <cmath>

#include "assay/backend/cuda/program.h"
#include "assay/base/error.h"

namespace assay::cuda {

namespace {

bool is_cap(float cap) {
  return cap >= 0 && std::isfinite(cap);
}

}  // namespace

MemoryReport memory_of(const WeightLayout& weights, const WorkspaceLayout& work) {
  return {weights.weight_bytes, {weights.bytes - weights.weight_bytes.value}, {work.bytes}};
}

void check_supported(const Plan& plan) {
  const auto width = [&](BufferId id) { return plan.buffers[static_cast<std::size_t>(id)].columns; };
  const auto refuse = [](std::string_view op, const char* what) {
    throw Error("{}: the CUDA backend does not run {}", op, what);
  };
  if (plan.has_candidate_search)
    throw FieldError("lm_head_search",
                     "the CUDA backend does not search the LM head in int8; leave it out on a GPU");
  if (plan.head_dim > kLargestHeadDim)
    throw Error("attention heads of {} elements: the CUDA backend runs at most {}", plan.head_dim,
                kLargestHeadDim);
  for (const WeightSpec& w : plan.weights)
    if (planes_of(w.format) > 1)
      throw FieldError("float32_matmul", "expected float32 or tf32 on a GPU, found {} of weight '{}'",
                       info(w.format).name, w.name);
  const auto check_linear = [](const LinearOp& linear) {
    if (linear.has_int8_inputs)
      throw FieldError("activations",
                       "the CUDA backend does not multiply int8 activations by 4-bit weights; leave it out "
                       "on a GPU");
  };
  for (const Op& op : plan.ops)
    std::visit(Cases{[](const EmbedOp&) {},
                     [&](const NormOp& norm) {
                       const std::int64_t end = norm.column + norm.groups * plan.weight(norm.gain).columns;
                       if (end > std::min(width(norm.in), width(norm.out)))
                         refuse(op.name, "a norm of more columns than there are");
                     },
                     check_linear,
                     [&](const RotaryOp& rotary) {
                       if (2 * static_cast<int>(rotary.frequencies.size()) > rotary.head_dim)
                         refuse(op.name, "rotary pairs beyond the head's elements");
                     },
                     [&](const AttentionOp& attention) {
                       if (!is_cap(attention.soft_cap))
                         refuse(op.name, "a soft cap that is negative or not finite");
                       if (!attention.alibi_slopes.empty() &&
                           attention.alibi_slopes.size() != static_cast<std::size_t>(attention.heads))
                         refuse(op.name, "ALiBi slopes of some heads alone");
                     },
                     [](const GatedOp&) {}, [](const AddOp&) {}},
               op.what);
  check_linear(plan.head.product);
  if (!is_cap(plan.head.soft_cap)) refuse("lm_head", "a soft cap that is negative or not finite");
  if (!(plan.head.scale > 0) || !std::isfinite(plan.head.scale))
    refuse("lm_head", "logits whose scale is not a positive number");
}

PredictedMemory predicted_memory(const Plan& plan, const DeviceFacts& facts, std::int64_t tokens) {
  check_supported(plan);
  return {memory_of(WeightLayout(plan), WorkspaceLayout(plan, facts)),
          cache_bytes_of(cache_layout_of(plan), tokens)};
}

}  // namespace assay::cuda
