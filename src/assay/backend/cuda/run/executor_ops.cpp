// The operations of a plan as launches.
#include <algorithm>
#include <limits>

#include "assay/backend/common/fusing.h"
#include "assay/backend/cuda/run/executor.h"
#include "assay/backend/cuda/run/gemm_library.h"

namespace assay::cuda {

void CudaProgram::run_op(std::size_t index, Step& step) {
  const OpConstants& constants = weights_.constants(index);
  std::visit(Cases{[&](const EmbedOp& op) { cuda::run(*runtime_, embedding(op, step.rows)); },
                   [&](const NormOp& op) {
                     if (!is_made_of_inputs(index, step)) norm(op, step);
                   },
                   [&](const LinearOp& op) {
                     if (observer_) show_inputs(op, step);
                     Buffer out = work_[op.out];
                     out.data = out.data + op.out_column;
                     const Neighbours neighbours = neighbours_of(index, step);
                     const BufferId in =
                         neighbours.made != nullptr ? buffers_of(*neighbours.made).reads.front() : op.in;
                     multiply(op, constants, work_[in], out, step.rows, neighbours);
                   },
                   [&](const RotaryOp& op) {
                     if (rotation_before(index + 1) == nullptr) cuda::run(*runtime_, rotation(op, step.rows));
                   },
                   [&](const AttentionOp& op) { attend(op, constants, index, step); },
                   [&](const GatedOp& op) {
                     if (!is_made_of_inputs(index, step)) gate(op, step);
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
          .columns = out.columns};
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

void CudaProgram::multiply(const LinearOp& op, const OpConstants& constants, const Buffer& in,
                           const Buffer& out, std::int64_t rows, const Neighbours& neighbours) {
  const Epilogue to{.bias = weights_.vector(op.bias),
                    .activation = op.activation,
                    .adds = op.adds_to_output,
                    .out = out.data,
                    .out_stride = out.stride,
                    .ordered = neighbours.left};
  if (is_int8(weights_.spec(op.weight).format)) return multiply_int8(op, constants, in, rows, to);
  LinearArgs product{.x = in.data,
                     .x_stride = in.stride,
                     .rows = rows,
                     .weight = weights_.matrix(op.weight),
                     .arithmetic = arithmetic_of(weights_.spec(op.weight)),
                     .to = to,
                     .scratch = work_.gemm_scratch(),
                     .made = made_inputs(neighbours.made),
                     .ordered = neighbours.ordered};
  const GemmKernel kernel = choose_gemm(ways_, gemm_product_of(op, weights_.spec(op.weight), rows));
  if (kernel == GemmKernel::cublaslt && multiply_by_library(*runtime_, product, work_.library_scratch()))
    return;
  product.many_rows = many_rows_of(kernel);
  cuda::run(*runtime_, product);
}

CudaProgram::Neighbours CudaProgram::neighbours_of(std::size_t index, const Step& step) const {
  Neighbours found;
  if (index > 0 && is_made_of_inputs(index - 1, step)) found.made = &plan_.ops[index - 1];
  if (ordered_by_producers_[index] && step.rows <= kFewRows)
    found.ordered = work_.at<const std::byte>(work_.layout().ordered_at);
  found.left = ordered_behind(index, step.rows);
  return found;
}

// What an operation leaves for the multiplication behind it.
OrderedRowsOut CudaProgram::ordered_behind(std::size_t index, std::int64_t rows) const {
  if (index + 1 >= plan_.ops.size() || !ordered_by_producers_[index + 1] || rows > kFewRows) return {};
  const WeightSpec& weight = weights_.spec(std::get<LinearOp>(plan_.ops[index + 1].kind).weight);
  return {.out = work_.at<std::byte>(work_.layout().ordered_at),
          .out_stride = rounded_inputs_stride(weight.columns, Arithmetic::bfloat16),
          .is_float16 =
              format_of(weight) == MatrixFormat::float16 || arithmetic_of(weight) == Arithmetic::float16};
}

std::vector<bool> ordered_by_producers(const Plan& plan) {
  const auto leaves = [&](const Op& op, BufferId id, std::int64_t columns) {
    if (plan.buffers[static_cast<std::size_t>(id)].columns != columns) return false;
    if (const auto* attention = std::get_if<AttentionOp>(&op.kind))
      return attention->out == id && attention->head_dim <= kMaxOrderedHeadDim;
    const auto* linear = std::get_if<LinearOp>(&op.kind);
    return linear != nullptr && linear->out == id && linear->out_column == 0 && !linear->adds_to_output &&
           plan.weight(linear->weight).rows == columns;
  };
  std::vector<bool> are(plan.ops.size());
  for (std::size_t i = 1; i < plan.ops.size(); ++i) {
    const auto* linear = std::get_if<LinearOp>(&plan.ops[i].kind);
    if (linear == nullptr || are[i - 1]) continue;
    const WeightSpec& weight = plan.weight(linear->weight);
    are[i] = weight.columns % 64 == 0 && takes_ordered_inputs(weight) &&
             leaves(plan.ops[i - 1], linear->in, weight.columns);
  }
  return are;
}

FusedPrologue CudaProgram::made_inputs(const Op* op) const {
  if (op == nullptr) return {};
  if (const auto* gate = std::get_if<GatedOp>(&op->kind))
    return {.kind = FusedPrologue::Kind::gated, .activation = gate->activation};
  const auto& norm = std::get<NormOp>(op->kind);
  return {.kind = FusedPrologue::Kind::norm,
          .gain = weights_.vector(norm.gain),
          .bias = weights_.vector(norm.bias),
          .epsilon = norm.epsilon,
          .subtracts_mean = norm.kind == Norm::layer};
}

// What the multiplication behind it makes of its inputs.
bool CudaProgram::is_made_of_inputs(std::size_t index, const Step& step) const {
  return step.rows <= prologue_rows_[index] && !observer_ && !profile_;
}

std::vector<std::int64_t> prologue_rows(const Plan& plan, const WorkspaceLayout& layout) {
  const auto share_memory = [&](BufferId a, BufferId b) {
    const auto& x = layout.buffers[static_cast<std::size_t>(a)];
    const auto& y = layout.buffers[static_cast<std::size_t>(b)];
    return x.at < y.at + kMaxRows * y.stride * 4 && y.at < x.at + kMaxRows * x.stride * 4;
  };
  const std::vector<bool> are = prologues_of_products(plan, share_memory);
  std::vector<std::int64_t> rows(are.size());
  for (std::size_t i = 0; i + 1 < are.size(); ++i)
    if (are[i])
      rows[i] = takes_ordered_inputs(plan.weight(std::get<LinearOp>(plan.ops[i + 1].kind).weight))
                    ? kMaxOrderedPrologueRows
                    : kMaxPrologueRows;
  return rows;
}

void CudaProgram::multiply_int8(const LinearOp& op, const OpConstants& constants, const Buffer& in,
                                std::int64_t rows, Epilogue to) {
  const WorkspaceLayout& layout = work_.layout();
  const WeightSpec& weight = weights_.spec(op.weight);
  const bool is_llm_int8 = weight.format == formats::kLlmInt8,
             has_outliers = is_llm_int8 && op.outlier_threshold > 0,
             has_row_zeros = !is_llm_int8 && !op.static_input;
  QuantizeArgs codes{.kind = is_llm_int8           ? QuantizeArgs::Kind::symmetric
                             : op.static_input     ? QuantizeArgs::Kind::fixed
                             : op.has_tensor_scale ? QuantizeArgs::Kind::tensor_range
                                                   : QuantizeArgs::Kind::row_ranges,
                     .x = in.data,
                     .x_stride = in.stride,
                     .rows = rows,
                     .inputs = weight.columns,
                     .factors = weights_.constant(constants.factors_at),
                     .codes = work_.at<std::int8_t>(layout.codes_at),
                     .codes_stride = round_up(weight.columns, tile_inputs(MatrixFormat::int8)),
                     .absmax = work_.at<float>(layout.absmax_at),
                     .zero_points = work_.at<std::int32_t>(layout.zeros_at),
                     .ranges = {},
                     .marks = {},
                     .outliers = {},
                     .outlier_count = {},
                     .seen = {}};
  if (is_llm_int8)
    codes.threshold = has_outliers ? op.outlier_threshold : std::numeric_limits<float>::infinity();
  if (op.static_input) {
    codes.fixed_scale = op.static_input->scale;
    codes.fixed_zero_point = op.static_input->zero_point - kCodeOffset;
    to.bias = weights_.constant(constants.static_bias_at);
  }
  if (op.has_tensor_scale) codes.ranges = work_.at<float>(layout.ranges_at);
  if (has_outliers) {
    codes.marks = work_.at<std::uint8_t>(layout.marks_at);
    codes.outliers = work_.at<std::int32_t>(layout.outliers_at);
    codes.outlier_count = work_.at<std::int32_t>(layout.count_at);
    codes.seen = work_.at<std::int64_t>(layout.seen_at);
  }
  cuda::run(*runtime_, codes);
  LinearInt8Args product{.codes = codes.codes,
                         .codes_stride = codes.codes_stride,
                         .rows = rows,
                         .absmax = codes.absmax,
                         .zero_points = {},
                         .sums = {},
                         .weight = weights_.matrix(op.weight),
                         .outliers = codes.outliers,
                         .outlier_count = codes.outlier_count,
                         .to = to,
                         .scratch = work_.gemm_scratch(),
                         .many_rows = many_rows_of(choose_gemm(ways_, gemm_product_of(op, weight, rows)))};
  if (has_row_zeros) {
    product.zero_points = codes.zero_points;
    product.sums = weights_.sums(op.weight);
  }
  if (has_outliers) {
    product.x = in.data;
    product.x_stride = in.stride;
  }
  cuda::run(*runtime_, product);
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
  const Buffer qkv = work_[op.qkv], out = work_[op.out];
  const StoreArgs store{.keys = qkv.data + op.k_column(),
                        .values = qkv.data + op.v_column(),
                        .x_stride = qkv.stride,
                        .rows = step.rows,
                        .cache = pages_->layout(),
                        .layer = op.layer,
                        .places = places(false)};
  if (const RotaryOp* rotary = rotation_before(index))
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
  const WorkspaceLayout& layout = work_.layout();
  cuda::run(*runtime_, AttendArgs{.q = qkv.data,
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
                                  .scratch_floats = layout.scratch_floats});
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

namespace assay {

std::vector<bool> fused_on_gpu(const Plan& plan, std::int64_t rows) {
  std::vector<bool> fused;
  for (const std::int64_t most : cuda::prologue_rows(plan, cuda::WorkspaceLayout(plan, {})))
    fused.push_back(rows <= most);
  return fused;
}

std::vector<bool> rounds_inputs_on_gpu(const Plan& plan, std::int64_t rows) {
  const std::vector<bool> are_ordered = cuda::ordered_by_producers(plan);
  std::vector<bool> round(plan.ops.size() + 1);
  const auto rounds = [&](const LinearOp& op) {
    const WeightSpec& weight = plan.weight(op.weight);
    return cuda::takes_ordered_inputs(weight) ||
           (rows > cuda::kFewRows && cuda::arithmetic_of(weight) == cuda::Arithmetic::tf32);
  };
  for (std::size_t i = 0; i < plan.ops.size(); ++i)
    if (const auto* linear = std::get_if<LinearOp>(&plan.ops[i].kind))
      round[i] = rounds(*linear) && !(are_ordered[i] && rows <= cuda::kFewRows);
  round.back() = rounds(plan.head.product);
  return round;
}

}  // namespace assay
