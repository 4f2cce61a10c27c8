#include "assay/backend/cuda/memory/workspace.h"

#include <algorithm>

#include "assay/backend/cuda/memory/kv_cache.h"
#include "assay/plan/liveness.h"

namespace assay::cuda {

namespace {

constexpr std::int64_t kLineFloats = 32;  // the size of a line of the caches
// States of chunks that are attended side by side: more would be worth less than the memory.
constexpr std::int64_t kMaxScratchBytes = std::int64_t{32} << 20;

bool is_alike(const RotaryOp& a, const RotaryOp& b) {
  return a.rotates_like(b);
}

template <typename Visit>
void for_linears(const Plan& plan, const Visit& visit) {
  for (const Op& op : plan.ops)
    if (const auto* linear = std::get_if<LinearOp>(&op.kind)) visit(*linear);
  visit(plan.head.product);
}

}  // namespace

WorkspaceLayout::WorkspaceLayout(const Plan& plan, const DeviceFacts& facts, const GemmWays& ways) {
  Offsets offsets;
  place_buffers(plan, offsets);
  place_rotary_tables(plan, offsets);
  place_int8_inputs(plan, offsets);
  place_gemm_scratch(plan, facts, offsets);
  place_ordered_rows(plan, offsets);
  if (ways.has_library) place_library_scratch(plan, facts, ways, offsets);
  row_facts_at = offsets.take(kRowFacts * kMaxRows * 4);
  // A page serves one sequence, and no more pages exist than fit the device.
  const std::int64_t page = std::max<std::int64_t>(cache_layout_of(plan).page_bytes(), 1);
  most_pages = std::min(kMaxRows * ((plan.context + kPagePositions - 1) / kPagePositions),
                        facts.memory_bytes / page + 1);
  pages_at = offsets.take(most_pages * static_cast<std::int64_t>(sizeof(void*)));
  head_rows_at = offsets.take(kHeadRows * 4);
  targets_at = offsets.take(kHeadRows * 4);
  log_probabilities_at = offsets.take(kHeadRows * 8);
  every_row_at = offsets.take(kMaxRows * 4);
  highest_at = offsets.take(kHeadRows * 4);
  slices_at = offsets.take(held_rows_of(plan.vocab) * slices_of(plan.vocab) *
                           static_cast<std::int64_t>(sizeof(RowSlice)));
  best_keys_at = offsets.take(kMaxRows * 8);
  tokens_at = offsets.take(kQueuedSteps * kMaxRows * 4);
  made_at = offsets.take(kMaxRows * 4);
  std::int64_t heads = 0, head_dim = 0;
  for (const Op& op : plan.ops)
    if (const auto* attention = std::get_if<AttentionOp>(&op.kind)) {
      heads = std::max<std::int64_t>(heads, attention->heads);
      head_dim = std::max<std::int64_t>(head_dim, attention->head_dim);
    }
  if (heads > 0) {
    // As many rows of a head as attention takes in chunks.
    const std::int64_t rows = 4LL * facts.processors / heads + 1;
    scratch_floats =
        std::min(attend_scratch_floats(rows, heads, head_dim, plan.context), kMaxScratchBytes / 4);
    scratch_at = offsets.take(scratch_floats * 4);
    counters_bytes = kMaxRows * heads * 4;
    counters_at = offsets.take(counters_bytes);
  }
  bytes = offsets.used();
}

// Buffers that are never needed at the same time share memory. Hidden states stay, for any number of calls of
// the LM head.
void WorkspaceLayout::place_buffers(const Plan& plan, Offsets& offsets) {
  std::vector<std::int64_t> columns = plan.widths(), sizes;
  const auto normed = static_cast<BufferId>(columns.size()), logit = normed + 1;
  columns.push_back(columns[static_cast<std::size_t>(plan.hidden)]);
  columns.push_back(plan.vocab);
  std::vector<Place> places;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    // Logits are copied to the host as they lie.
    const bool are_logits = static_cast<BufferId>(i) == logit;
    const std::int64_t stride = are_logits ? columns[i] : round_up(columns[i], kLineFloats);
    places.push_back({0, columns[i], stride});
    sizes.push_back(
        round_up((static_cast<BufferId>(i) < normed ? kMaxRows : kHeadRows) * stride * 4, kAlignment));
  }
  std::vector<StepUse> steps;
  for (const Op& op : plan.ops) steps.push_back(use_of(plan, op));
  const auto whole = [&](BufferId id) {
    return StepUse::Columns{id, 0, columns[static_cast<std::size_t>(id)]};
  };
  steps.push_back({{plan.hidden}, {whole(normed)}});
  steps.push_back({{normed}, {whole(logit)}});
  const Placement placement = place(sizes, conflicts_of(columns, steps, {plan.hidden, logit}));
  const std::int64_t begin = offsets.take(placement.size);
  for (std::size_t i = 0; i < places.size(); ++i) places[i].at = begin + placement.offsets[i];
  logits = places.back();
  places.pop_back();
  head_normed = places.back();
  places.pop_back();
  buffers = std::move(places);
  // Rows that stay go through here when others are left out.
  const std::int64_t widest = *std::max_element(columns.begin(), columns.end() - 1);
  gathered_at = offsets.take(kMaxRows * round_up(widest, kLineFloats) * 4);
}

void WorkspaceLayout::place_rotary_tables(const Plan& plan, Offsets& offsets) {
  for (const Op& op : plan.ops) {
    const auto* rotary = std::get_if<RotaryOp>(&op.kind);
    if (rotary == nullptr) continue;
    if (std::any_of(rotary_tables.begin(), rotary_tables.end(),
                    [&](const RotaryTable& table) { return is_alike(*table.op, *rotary); }))
      continue;
    const auto pairs = static_cast<std::int64_t>(rotary->frequencies.size());
    RotaryTable& table = rotary_tables.emplace_back(RotaryTable{.op = rotary, .pairs = pairs});
    const std::int64_t rows = plan.context * (table.has_long() ? 2 : 1);
    table.all_cosines_at = offsets.take(rows * pairs * 4);
    table.all_sines_at = offsets.take(rows * pairs * 4);
    table.cosines_at = offsets.take(kMaxRows * pairs * 4);
    table.sines_at = offsets.take(kMaxRows * pairs * 4);
  }
}

std::int64_t WorkspaceLayout::rotary_switch() const {
  for (const RotaryTable& table : rotary_tables)
    if (table.has_long()) return table.op->original_context;
  return 0;
}

void WorkspaceLayout::place_int8_inputs(const Plan& plan, Offsets& offsets) {
  std::int64_t widest = 0, widest_with_outliers = 0;
  bool has_tensor_scale = false;
  for_linears(plan, [&](const LinearOp& op) {
    const WeightSpec& weight = plan.weight(op.weight);
    if (!is_int8(weight.format)) return;
    widest = std::max(widest, codes_stride(weight.columns));
    has_tensor_scale = has_tensor_scale || op.has_tensor_scale;
    if (weight.format == formats::kLlmInt8 && op.outlier_threshold > 0)
      widest_with_outliers = std::max(widest_with_outliers, weight.columns);
  });
  if (widest > 0) {
    codes_at = offsets.take(kMaxRows * widest);
    absmax_at = offsets.take(kMaxRows * 4);
    zeros_at = offsets.take(kMaxRows * 4);
  }
  if (has_tensor_scale) ranges_at = offsets.take(2 * kMaxRows * 4);
  if (widest_with_outliers > 0) {
    marks_at = offsets.take(widest_with_outliers);
    outliers_at = offsets.take(widest_with_outliers * 4);
    count_at = offsets.take(4);
    seen_at = offsets.take(16);
  }
}

void WorkspaceLayout::place_gemm_scratch(const Plan& plan, const DeviceFacts& facts, Offsets& offsets) {
  for_linears(plan, [&](const LinearOp& op) {
    const WeightSpec& weight = plan.weight(op.weight);
    const Arithmetic arithmetic =
        weight.arithmetic.multiply == Multiply::tf32 ? Arithmetic::tf32 : Arithmetic::bfloat16;
    const std::int64_t inputs =
        is_int8(weight.format) ? 0 : kMaxRows * rounded_inputs_stride(weight.columns, arithmetic);
    gemm_bytes = std::max(gemm_bytes, round_up(inputs, kAlignment) +
                                          partial_sums_bytes(kMaxRows, weight.rows, facts.processors));
  });
  gemm_at = offsets.take(gemm_bytes);
}

void WorkspaceLayout::place_ordered_rows(const Plan& plan, Offsets& offsets) {
  std::int64_t widest = 0;
  for_linears(plan, [&](const LinearOp& op) {
    const WeightSpec& weight = plan.weight(op.weight);
    widest = std::max(widest, weight.rows);
    if (takes_ordered_inputs(weight))
      ordered_stride = std::max(ordered_stride, rounded_inputs_stride(weight.columns, Arithmetic::bfloat16));
  });
  ordered_at = offsets.take(kFewRows * ordered_stride);
  moments_stride = 2 * strips_of(widest);
  moments_at = offsets.take(kFewRows * moments_stride * 4);
}

void WorkspaceLayout::place_library_scratch(const Plan& plan, const DeviceFacts& facts, const GemmWays& ways,
                                            Offsets& offsets) {
  for (const Op& op : plan.ops) {
    const auto* linear = std::get_if<LinearOp>(&op.kind);
    if (linear == nullptr) continue;
    const WeightSpec& weight = plan.weight(linear->weight);
    const auto arithmetic = library_arithmetic(format_of(weight), arithmetic_of(weight), linear->activation,
                                               linear->adds_to_output);
    if (arithmetic && choose_gemm(ways, gemm_product_of(*linear, weight, kMaxRows)) == GemmKernel::cublaslt)
      expanded_bytes =
          std::max(expanded_bytes, expanded_matrix_bytes(weight.rows, weight.columns, *arithmetic));
  }
  if (expanded_bytes == 0) return;
  library_bytes = library_workspace_bytes(facts);
  expanded_at = offsets.take(expanded_bytes);
  library_at = offsets.take(library_bytes);
}

const RotaryTable& Workspace::table_of(const RotaryOp& op) const {
  return *std::find_if(layout_.rotary_tables.begin(), layout_.rotary_tables.end(),
                       [&](const RotaryTable& table) { return is_alike(*table.op, op); });
}

}  // namespace assay::cuda
