// The operations of a plan as launches.
#include <algorithm>
#include <limits>

#include "assay/backend/common/fusing.h"
#include "assay/backend/cuda/kernels/attend_step.h"
#include "assay/backend/cuda/run/executor.h"
#include "assay/backend/cuda/run/gemm_library.h"

namespace assay::cuda {

void CudaProgram::run_op(std::size_t index, Step& step) {
  const OpConstants& constants = weights_.constants(index);
  std::visit(Cases{[&](const EmbedOp& op) { cuda::run(*runtime_, embedding(op, step.rows)); },
                   [&](const NormOp& op) {
                     if (!is_made_of_inputs(index, step.rows)) norm(op, step);
                   },
                   [&](const LinearOp& op) {
                     if (observer_) show_inputs(op, step);
                     multiply(op, constants, step.rows, around(op, index, step.rows));
                   },
                   [&](const RotaryOp& op) {
                     if (rotation_before(index + 1) == nullptr) cuda::run(*runtime_, rotation(op, step.rows));
                   },
                   [&](const AttentionOp& op) { attend(op, constants, index, step); },
                   [&](const GatedOp& op) {
                     if (!is_made_of_inputs(index, step.rows) && !computes_gate(index - 1, step.rows))
                       gate(op, step);
                   },
                   [&](const AddOp& op) {
                     const Buffer in = work_[op.in], out = work_[op.out];
                     cuda::run(*runtime_, AddArgs{.x = in.data,
                                                  .x_stride = in.stride,
                                                  .scale = op.scale,
                                                  .out = out.data,
                                                  .out_stride = out.stride,
                                                  .rows = step.rows,
                                                  .n = out.columns});
                   }},
             plan_.ops[index].kind);
}

EmbedArgs CudaProgram::embedding(const EmbedOp& op, std::int64_t rows) const {
  const Buffer out = work_[op.out];
  return {.ids = work_.rows(kIds),
          .positions = work_.rows(kPositions),
          .tokens = weights_.matrix(op.tokens),
          .places = weights_.matrix(op.positions),
          .position_offset = op.position_offset,
          .scale = op.scale,
          .out = out.data,
          .out_stride = out.stride,
          .rows = rows,
          .columns = out.columns,
          .moments = moments_behind(0, rows)};
}

void CudaProgram::norm(const NormOp& op, const Step& step) {
  const Buffer in = work_[op.in], out = work_[op.out];
  cuda::run(*runtime_, NormArgs{.x = in.data + op.column,
                                .x_stride = in.stride,
                                .row_of = {},
                                .gain = weights_.vector(op.gain),
                                .bias = weights_.vector(op.bias),
                                .epsilon = op.epsilon,
                                .subtracts_mean = op.kind == Norm::layer,
                                .out = out.data + op.column,
                                .out_stride = out.stride,
                                .rows = step.rows,
                                .groups = op.groups,
                                .n = weights_.spec(op.gain).columns});
}

void CudaProgram::gate(const GatedOp& op, const Step& step) {
  const Buffer in = work_[op.in], out = work_[op.out];
  cuda::run(*runtime_, GatedArgs{.x = in.data,
                                 .x_stride = in.stride,
                                 .activation = op.activation,
                                 .out = out.data,
                                 .out_stride = out.stride,
                                 .rows = step.rows,
                                 .n = out.columns});
}

CudaProgram::Product CudaProgram::product_of(const LinearOp& op, const OpConstants& constants,
                                             std::int64_t rows, const Around& around) const {
  Epilogue to{.bias = weights_.vector(op.bias),
              .activation = around.gate != nullptr ? around.gate->activation : op.activation,
              .adds = op.adds_to_output,
              .is_added_to_early = around.adds_early,
              .lets_next_start = around.lets_next_start,
              .out = around.out.data,
              .out_stride = around.out.stride,
              .ordered = around.left,
              .moments = around.moments};
  if (around.gate != nullptr) to.gated = around.out.columns;
  if (is_int8(weights_.spec(op.weight).format)) return int8_product_of(op, constants, rows, around, to);
  return LinearArgs{.x = around.in.data,
                    .x_stride = around.in.stride,
                    .rows = rows,
                    .weight = weights_.matrix(op.weight),
                    .arithmetic = arithmetic_of(weights_.spec(op.weight)),
                    .to = to,
                    .scratch = work_.gemm_scratch(),
                    .made = around.made,
                    .ordered = around.ordered};
}

void CudaProgram::multiply(const LinearOp& op, const OpConstants& constants, std::int64_t rows,
                           const Around& around) {
  launch_product(op, product_of(op, constants, rows, around), launches_->of(key_of(op, rows, around)));
}

// The LM head takes fewer rows at a time than the library does.
void CudaProgram::launch_product(const LinearOp& op, Product product, const LaunchChoice& choice) {
  const auto kernel = [&](std::int64_t rows) {
    return choose_gemm(ways_, gemm_product_of(op, weights_.spec(op.weight), rows), choice);
  };
  if (auto* coded = std::get_if<QuantizedLinearArgs>(&product)) {
    coded->linear.many_rows = many_rows_of(kernel(coded->linear.rows));
    return cuda::run(*runtime_, *coded, choice);
  }
  auto& args = std::get<LinearArgs>(product);
  const GemmKernel chosen = kernel(args.rows);
  if (chosen == GemmKernel::cublaslt && multiply_by_library(*runtime_, args, work_.library_scratch())) return;
  args.many_rows = many_rows_of(chosen);
  cuda::run(*runtime_, args, choice);
}

CudaProgram::Around CudaProgram::around(const LinearOp& op, std::size_t index, std::int64_t rows) const {
  Around found{.in = work_[op.in],
               .out = work_[op.out],
               .made = made_inputs(index, rows),
               .left = ordered_behind(index, rows),
               .moments = moments_behind(index, rows),
               .adds_early = neighbours_.adds_early[index],
               .lets_next_start = neighbours_.lets_next_start[index] && has_few(rows, kFewRows)};
  found.out.data = found.out.data + op.out_column;
  if (found.made.kind != FusedPrologue::Kind::none)
    found.in = work_[buffers_of(plan_.ops[index - 1]).reads.front()];
  if (computes_gate(index, rows)) {
    found.gate = &std::get<GatedOp>(plan_.ops[index + 1].kind);
    found.out = work_[found.gate->out];
  }
  if (const auto& producer = neighbours_.producers[index]; producer && ordered_behind(producer->op, rows).out)
    found.ordered = work_.at<const std::byte>(work_.layout().ordered_at);
  return found;
}

// What an operation leaves for the multiplication behind it, or behind the gate that it computes.
OrderedRowsOut CudaProgram::ordered_behind(std::size_t index, std::int64_t rows) const {
  const bool has_gate = computes_gate(index, rows);
  const std::size_t reader = index + (has_gate ? 2 : 1);
  if (rows > kFewRows || reader >= plan_.ops.size()) return {};
  const auto& producer = neighbours_.producers[reader];
  if (!producer || producer->op != index || producer->is_behind_gate != has_gate) return {};
  const WeightSpec& weight = weights_.spec(std::get<LinearOp>(plan_.ops[reader].kind).weight);
  return {.out = work_.at<std::byte>(work_.layout().ordered_at),
          .out_stride = rounded_inputs_stride(weight.columns, Arithmetic::bfloat16),
          .is_float16 =
              format_of(weight) == MatrixFormat::float16 || arithmetic_of(weight) == Arithmetic::float16};
}

MomentParts CudaProgram::moments_behind(std::size_t index, std::int64_t rows) const {
  if (!neighbours_.leaves_moments[index] || !has_few(rows, kFewRows)) return {};
  return {.data = work_.at<float>(work_.layout().moments_at), .stride = work_.layout().moments_stride};
}

// What the operation in front of a multiplication leaves to it.
FusedPrologue CudaProgram::made_inputs(std::size_t index, std::int64_t rows) const {
  if (index == 0 || !is_made_of_inputs(index - 1, rows)) return {};
  const Op& op = plan_.ops[index - 1];
  if (const auto* gate = std::get_if<GatedOp>(&op.kind))
    return {.kind = FusedPrologue::Kind::gated, .activation = gate->activation};
  return norm_of_inputs(std::get<NormOp>(op.kind),
                        index > 1 ? moments_behind(index - 2, rows) : MomentParts{});
}
FusedPrologue CudaProgram::norm_of_inputs(const NormOp& norm, const MomentParts& moments) const {
  return {.kind = FusedPrologue::Kind::norm,
          .gain = weights_.vector(norm.gain),
          .bias = weights_.vector(norm.bias),
          .epsilon = norm.epsilon,
          .subtracts_mean = norm.kind == Norm::layer,
          .moments = moments};
}

bool CudaProgram::has_few(std::int64_t rows, std::int64_t most) const {
  return rows <= most && !observer_ && !profile_;
}
// What the multiplication behind it makes of its inputs; a gate rather belongs to the one in front.
bool CudaProgram::is_made_of_inputs(std::size_t index, std::int64_t rows) const {
  return has_few(rows, neighbours_.made_rows[index]) && !(index > 0 && computes_gate(index - 1, rows));
}
bool CudaProgram::computes_gate(std::size_t index, std::int64_t rows) const {
  return has_few(rows, neighbours_.gate_rows[index]);
}

// Without memory for what the kind of codes has no use for.
QuantizeArgs CudaProgram::quantization(const LinearOp& op, const OpConstants& constants,
                                       std::int64_t rows) const {
  const WorkspaceLayout& layout = work_.layout();
  const WeightSpec& weight = weights_.spec(op.weight);
  const bool is_llm_int8 = weight.format == formats::kLlmInt8;
  QuantizeArgs codes{.kind = is_llm_int8           ? QuantizeArgs::Kind::symmetric
                             : op.static_input     ? QuantizeArgs::Kind::fixed
                             : op.has_tensor_scale ? QuantizeArgs::Kind::tensor_range
                                                   : QuantizeArgs::Kind::row_ranges,
                     .rows = rows,
                     .inputs = weight.columns,
                     .factors = weights_.constant(constants.factors_at),
                     .codes = work_.at<std::int8_t>(layout.codes_at),
                     .codes_stride = codes_stride(weight.columns),
                     .absmax = work_.at<float>(layout.absmax_at),
                     .zero_points = work_.at<std::int32_t>(layout.zeros_at)};
  if (op.static_input) {
    codes.fixed_scale = op.static_input->scale;
    codes.fixed_zero_point = op.static_input->zero_point - kCodeOffset;
  }
  if (op.has_tensor_scale) codes.ranges = work_.at<float>(layout.ranges_at);
  if (!is_llm_int8) return codes;
  codes.threshold = std::numeric_limits<float>::infinity();
  if (op.outlier_threshold > 0) {
    codes.threshold = op.outlier_threshold;
    codes.marks = work_.at<std::uint8_t>(layout.marks_at);
    codes.outliers = work_.at<std::int32_t>(layout.outliers_at);
    codes.outlier_count = work_.at<std::int32_t>(layout.count_at);
    codes.seen = work_.at<std::int64_t>(layout.seen_at);
  }
  return codes;
}

QuantizedLinearArgs CudaProgram::int8_product_of(const LinearOp& op, const OpConstants& constants,
                                                 std::int64_t rows, const Around& around, Epilogue to) const {
  QuantizeArgs codes = quantization(op, constants, rows);
  codes.x = around.in.data;
  codes.x_stride = around.in.stride;
  codes.made = around.made;
  if (op.static_input) to.bias = weights_.constant(constants.static_bias_at);
  LinearInt8Args product{.codes = codes.codes,
                         .codes_stride = codes.codes_stride,
                         .rows = rows,
                         .absmax = codes.absmax,
                         .weight = weights_.matrix(op.weight),
                         .outliers = codes.outliers,
                         .outlier_count = codes.outlier_count,
                         .to = to,
                         .scratch = work_.gemm_scratch()};
  if (codes.kind == QuantizeArgs::Kind::row_ranges || codes.kind == QuantizeArgs::Kind::tensor_range) {
    product.zero_points = codes.zero_points;
    product.sums = weights_.sums(op.weight);
  }
  if (codes.outliers) {
    product.x = codes.x;
    product.x_stride = codes.x_stride;
  }
  return {codes, product};
}

// The rotation that the attention at `index` makes when it stores its keys; null: none.
const RotaryOp* CudaProgram::rotation_before(std::size_t index) const {
  return profile_ ? nullptr : rotation_of_attention(plan_, index);
}

RotateArgs CudaProgram::rotation(const RotaryOp& op, std::int64_t rows) const {
  const Buffer buffer = work_[op.buffer];
  const RotaryTable& table = work_.table_of(op);
  return {.x = buffer.data + op.column,
          .x_stride = buffer.stride,
          .rows = rows,
          .heads = op.heads,
          .head_dim = op.head_dim,
          .pairs = table.pairs,
          .pairing = op.pairing,
          .cosines = work_.at<float>(table.cosines_at),
          .sines = work_.at<float>(table.sines_at)};
}

KvSlots CudaProgram::places(bool are_kept) const {
  return {work_.rows(are_kept ? kKeptKeys : kKeys), work_.rows(are_kept ? kKeptFirstPages : kFirstPages),
          work_.at<DevicePointer<std::byte>>(work_.layout().pages_at)};
}

// Keys and values of all rows are stored; behind the last attention only the rows that are kept go on.
void CudaProgram::attend(const AttentionOp& op, const OpConstants& constants, std::size_t index, Step& step) {
  const Buffer qkv = work_[op.qkv];
  const StoreArgs store{.keys = qkv.data + op.k_column(),
                        .values = qkv.data + op.v_column(),
                        .x_stride = qkv.stride,
                        .rows = step.rows,
                        .cache = pages_->layout(),
                        .layer = op.layer,
                        .places = places(false)};
  const RotaryOp* rotary = rotation_before(index);
  if (step.is_decode)
    return cuda::run(*runtime_,
                     AttendStepArgs{.rotate = rotary ? rotation(*rotary, step.rows) : RotateArgs(),
                                    .store = store,
                                    .attend = attention(op, constants, index, step, false),
                                    .counters = work_.at<std::uint32_t>(work_.layout().counters_at)});
  if (rotary != nullptr)
    cuda::run(*runtime_, RotateStoreArgs{rotation(*rotary, step.rows), store});
  else
    cuda::run(*runtime_, store);
  const bool prunes = index == pruning_.attention && step.is_pruned;
  if (prunes) {
    step.rows = static_cast<std::int64_t>(kept_.size());
    if (step.rows == 0) return;
    keep_rows(op.qkv, step.rows);
    for (const BufferId id : pruning_.moved)
      if (id != op.qkv && id != op.out) keep_rows(id, step.rows);
  }
  cuda::run(*runtime_, attention(op, constants, index, step, prunes));
}

AttendArgs CudaProgram::attention(const AttentionOp& op, const OpConstants& constants, std::size_t index,
                                  const Step& step, bool prunes) const {
  const Buffer qkv = work_[op.qkv], out = work_[op.out];
  const WorkspaceLayout& layout = work_.layout();
  return {.q = qkv.data,
          .q_stride = qkv.stride,
          .rows = step.rows,
          .heads = op.heads,
          .layer = op.layer,
          .cache = pages_->layout(),
          .scale = op.scale,
          .window = op.window,
          .soft_cap = op.soft_cap,
          .slopes = weights_.constant(constants.slopes_at),
          .places = places(prunes),
          .sequences = step.sequences,
          .longest = step.longest,
          .out = out.data,
          .out_stride = out.stride,
          .ordered = ordered_behind(index, step.rows),
          .scratch = work_.at<float>(layout.scratch_at),
          .scratch_floats = layout.scratch_floats};
}

void CudaProgram::keep_rows(BufferId id, std::int64_t rows) {
  const Buffer buffer = work_[id];
  const auto gathered = work_.at<float>(work_.layout().gathered_at);
  cuda::run(*runtime_, GatherArgs{.x = buffer.data,
                                  .x_stride = buffer.stride,
                                  .row_of = work_.rows(kKept),
                                  .out = gathered,
                                  .out_stride = buffer.stride,
                                  .rows = rows,
                                  .n = buffer.columns});
  runtime_->copy(buffer.data.as<std::byte>(), gathered.as<const std::byte>(), rows * buffer.stride * 4);
}

void CudaProgram::show_inputs(const LinearOp& op, const Step& step) const {
  const Buffer in = work_[op.in];
  std::vector<float> x(static_cast<std::size_t>(step.rows * in.stride));
  download<float>(x, in.data);
  observer_({op.weight, x.data(), step.rows, weights_.spec(op.weight).columns, in.stride});
}

}  // namespace assay::cuda
