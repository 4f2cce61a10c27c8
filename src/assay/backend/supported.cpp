#include "assay/backend/supported.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"

namespace assay {

namespace {

constexpr const char* kNotACap = "a soft cap that is negative or not finite";
bool is_cap(float cap) {
  return cap >= 0 && std::isfinite(cap);
}

bool is_served(const WeightFormat& format, std::span<const WeightFormat> served) {
  const bool has_other_blocks = format.groups_cross_outputs && is_block_size(format.inputs_per_scale);
  return std::any_of(served.begin(), served.end(), [&](const WeightFormat& each) {
    const WeightFormat like =
        has_other_blocks && each.groups_cross_outputs ? with_block(each, format.inputs_per_scale) : each;
    return format == like ||
           (has_wide_scales(each) && is_four_bit(like) && format == with_scale(like, ScaleType::bfloat16));
  });
}

// What checkpoints alone hold has no codes to be found for, and those of blocks are found for whole ones;
// with zero points, or permuted inputs, there is no kernel that multiplies int8.
void check_blocks(const WeightSpec& w) {
  if (!is_quantized(w.format) || has_wide_scales(w.format)) return;
  if (!w.is_stored_quantized && !is_quantized_to(w.format))
    throw Error("weight '{}': weights are not quantized to {}, which checkpoints hold", w.name,
                name_of(w.format));
  if (const std::int64_t block = block_inputs(w.format); !w.is_stored_quantized && w.columns % block != 0)
    throw Error("weight '{}': expected a multiple of {} inputs, which a block of {} has, found {}", w.name,
                block, name_of(w.format), w.columns);
  if (w.arithmetic.activations == ActivationType::int8_per_group && !takes_int8_activations(w.format))
    throw FieldError("activations", "expected dtype beside weights in {}, found int8 (weight '{}')",
                     name_of(w.format), w.name);
}

}  // namespace

void check_served(const Plan& plan, std::string_view backend, std::span<const WeightFormat> served) {
  for (const WeightSpec& w : plan.weights)
    if (w.kind != WeightSpec::Kind::vector && !is_served(w.format, served))
      throw Error("weight '{}': the {} backend has no kernel for {}; it has kernels for {}", w.name, backend,
                  recipe_name_of(w.format), names_of(served));
  for (const WeightSpec& w : plan.weights) check_blocks(w);
}

void check_supported(const Plan& plan, std::string_view backend, int largest_head_dim) {
  if (plan.head_dim > largest_head_dim)
    throw Error("attention heads of {} elements: the {} backend runs at most {}", plan.head_dim, backend,
                largest_head_dim);
  const auto width = [&](BufferId id) { return plan.buffers[static_cast<std::size_t>(id)].columns; };
  const auto refuse = [&](std::string_view op, const char* what) {
    throw Error("{}: the {} backend does not run {}", op, backend, what);
  };
  for (const Op& op : plan.ops)
    std::visit(Cases{[](const EmbedOp&) {},
                     [&](const NormOp& norm) {
                       const std::int64_t end = norm.column + norm.groups * plan.weight(norm.gain).columns;
                       if (end > std::min(width(norm.in), width(norm.out)))
                         refuse(op.name, "a norm of more columns than there are");
                     },
                     [](const LinearOp&) {},
                     [&](const RotaryOp& rotary) {
                       if (2 * static_cast<int>(rotary.frequencies.size()) > rotary.head_dim)
                         refuse(op.name, "rotary pairs beyond the head's elements");
                     },
                     [&](const AttentionOp& attention) {
                       if (!is_cap(attention.soft_cap)) refuse(op.name, kNotACap);
                       if (!attention.alibi_slopes.empty() &&
                           attention.alibi_slopes.size() != static_cast<std::size_t>(attention.heads))
                         refuse(op.name, "ALiBi slopes of some heads alone");
                     },
                     [](const GatedOp&) {}, [](const AddOp&) {}},
               op.kind);
  if (!is_cap(plan.head.soft_cap)) refuse("lm_head", kNotACap);
  if (!(plan.head.scale > 0) || !std::isfinite(plan.head.scale))
    refuse("lm_head", "logits whose scale is not a positive number");
}

}  // namespace assay
