#include "assay/backend/cuda/program.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "assay/base/error.h"

namespace assay::cuda {

namespace {

MemoryReport memory_of(const WeightLayout& weights, const WorkspaceLayout& work) {
  return {weights.weight_bytes, {weights.bytes - weights.weight_bytes.value}, {work.bytes}};
}

// Before any of it is taken.
const Plan& checked(const Plan& plan, Runtime& runtime) {
  check_supported(plan);
  const std::int64_t needed = WeightLayout(plan).bytes + WorkspaceLayout(plan, runtime.facts()).bytes,
                     free = runtime.memory_info().free.value;
  if (needed > free)
    throw Error("not enough GPU memory for the weights and the activations: {:.0f} MB needed, {:.0f} MB free",
                Bytes{needed}.megabytes(), Bytes{free}.megabytes());
  return plan;
}

Arithmetic arithmetic_of(const WeightSpec& weight) {
  if (weight.format == WeightFormat::tf32) return Arithmetic::tf32;
  if (!is_four_bit(weight.format)) return Arithmetic::float32;  // others have their own
  return weight.expanded == WeightFormat::bfloat16  ? Arithmetic::bfloat16
         : weight.expanded == WeightFormat::float16 ? Arithmetic::float16
                                                    : Arithmetic::float32;
}

bool is_cap(float cap) {
  return cap >= 0 && std::isfinite(cap);
}

}  // namespace

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

CudaProgram::CudaProgram(const Plan& plan, const WeightSource& source, std::shared_ptr<Runtime> runtime)
    : plan_(checked(plan, *runtime)),
      pruning_(pruning_of(plan_)),
      runtime_(std::move(runtime)),
      weights_(plan_, source, runtime_),
      work_(plan_, runtime_),
      pages_(std::make_shared<PagePool>(PagePool{runtime_, cache_layout_of(plan_), {}})) {
  const WorkspaceLayout& layout = work_.layout();
  if (layout.seen_at > 0) runtime_->fill(work_.at<std::byte>(layout.seen_at), 0, 16);
}

MemoryReport CudaProgram::memory() const {
  return memory_of(weights_.layout(), work_.layout());
}

double CudaProgram::outlier_share() const {
  if (work_.layout().seen_at == 0) return 0;
  std::int64_t seen[2] = {};
  download<std::int64_t>(seen, work_.at<std::int64_t>(work_.layout().seen_at));
  return seen[1] == 0 ? 0 : static_cast<double>(seen[0]) / static_cast<double>(seen[1]);
}

void CudaProgram::check(const Batch& batch, const CudaKvCache& cache) const {
  if (static_cast<std::int64_t>(batch.ids.size()) > kMaxRows)
    throw Error("a batch of {} tokens was given; at most {} fit one step", batch.ids.size(), kMaxRows);
  assert(batch.positions.size() == batch.ids.size());
  for (const TokenId id : batch.ids)
    if (id < 0 || id >= plan_.vocab)
      throw Error("token id {} is outside the model's vocabulary of {}", id, plan_.vocab);
  for (const std::int32_t position : batch.positions)
    if (position < 0 || position >= plan_.context)
      throw Error("position {} is outside the model's context of {} tokens", position, plan_.context);
  for (const SequenceRows& rows : batch.sequences)
    if (cache.length(rows.sequence) + rows.rows > plan_.context)
      throw Error("{} tokens exceed the model's context of {}", cache.length(rows.sequence) + rows.rows,
                  plan_.context);
}

void CudaProgram::run(const Batch& batch, KvCache& cache) {
  auto& kv = static_cast<CudaKvCache&>(cache);
  check(batch, kv);
  hidden_rows_ = 0;  // no hidden states until they are there
  keeps_all_ = true;
  for (const SequenceRows& s : batch.sequences) kv.grow(s.sequence, s.rows);
  Step step = begin(batch, kv);
  marks_.clear();
  if (profile_) marks_.push_back({std::nullopt, runtime_->record()});
  for (std::size_t i = 0; i < plan_.ops.size() && step.rows > 0; ++i) {
    run_op(i, step);
    mark(plan_.ops[i].phase);
  }
  add_marks();
  keeps_all_ = !step.is_pruned;
  hidden_rows_ = step.all_rows;
}

// What the device must know of the rows.
CudaProgram::Step CudaProgram::begin(const Batch& batch, const CudaKvCache& cache) {
  const auto rows = static_cast<std::int64_t>(batch.ids.size());
  Step step{.rows = rows, .all_rows = rows, .sequences = static_cast<std::int64_t>(batch.sequences.size())};
  std::vector<std::int32_t> facts(static_cast<std::size_t>(kRowFacts * kMaxRows));
  const auto fact = [&](RowFact which, std::int64_t row) -> std::int32_t& {
    return facts[static_cast<std::size_t>(which * kMaxRows + row)];
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    fact(kIds, row) = batch.ids[static_cast<std::size_t>(row)];
    fact(kPositions, row) = batch.positions[static_cast<std::size_t>(row)];
  }
  std::vector<DevicePointer<std::byte>> pages;
  for (const SequenceRows& s : batch.sequences) {
    const std::int64_t past = cache.length(s.sequence) - s.rows;
    for (std::int64_t i = 0; i < s.rows; ++i) {
      // Padding is not kept: a padded sequence gives the bits of an unpadded one.
      const std::int64_t key = past + i - s.first_key;
      fact(kKeys, s.first_row + i) = key < 0 ? -1 : static_cast<std::int32_t>(key);
      fact(kFirstPages, s.first_row + i) = static_cast<std::int32_t>(pages.size());
      step.longest = std::max(step.longest, key + 1);
    }
    for (const OwnedMemory& page : cache.pages(s.sequence)) pages.push_back(page.get());
  }
  if (static_cast<std::int64_t>(pages.size()) > work_.layout().most_pages)
    throw Error("the sequences of a batch have {} pages of keys and values; at most {} were expected",
                pages.size(), work_.layout().most_pages);
  kept_.clear();
  const bool prunes = !batch.wants_all && !observer_ && pruning_.attention < plan_.ops.size() &&
                      static_cast<std::int64_t>(batch.wanted.size()) < rows;
  if (prunes) kept_ = batch.wanted;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const auto to = static_cast<std::int64_t>(i);
    fact(kKept, to) = static_cast<std::int32_t>(kept_[i]);
    fact(kKeptKeys, to) = fact(kKeys, kept_[i]);
    fact(kKeptFirstPages, to) = fact(kFirstPages, kept_[i]);
  }
  step.is_pruned = prunes;
  upload<std::int32_t>(work_.rows(kIds), facts);
  upload<DevicePointer<std::byte>>(work_.at<DevicePointer<std::byte>>(work_.layout().pages_at), pages);
  upload_rotary_tables(batch);
  return step;
}

// On the host, whose cosines are those of the CPU backend.
void CudaProgram::upload_rotary_tables(const Batch& batch) {
  std::vector<float> cosines, sines;
  for (const RotaryTable& table : work_.layout().rotary_tables) {
    cosines.clear();
    sines.clear();
    for (const std::int32_t position : batch.positions)
      for (const float frequency : table.op->frequencies) {
        // In float32, as Transformers has it; cosine and sine of exactly that.
        const auto angle = static_cast<double>(static_cast<float>(position) * frequency);
        cosines.push_back(static_cast<float>(std::cos(angle)) * table.op->amplitude);
        sines.push_back(static_cast<float>(std::sin(angle)) * table.op->amplitude);
      }
    upload<float>(work_.at<float>(table.cosines_at), cosines);
    upload<float>(work_.at<float>(table.sines_at), sines);
  }
}

void CudaProgram::run_op(std::size_t index, Step& step) {
  const OpConstants& constants = weights_.constants(index);
  std::visit(Cases{[&](const EmbedOp& op) { embed(op, step); },  //
                   [&](const NormOp& op) { norm(op, step); },    //
                   [&](const LinearOp& op) {
                     if (observer_) show_inputs(op, step);
                     Buffer out = work_[op.out];
                     out.data = out.data + op.out_column;
                     multiply(op, constants, work_[op.in], out, step.rows);
                   },
                   [&](const RotaryOp& op) { rotate(op, step); },
                   [&](const AttentionOp& op) { attend(op, constants, index == pruning_.attention, step); },
                   [&](const GatedOp& op) {
                     const Buffer in = work_[op.in], out = work_[op.out];
                     cuda::run(*runtime_, GatedArgs{.x = in.data,
                                                    .x_stride = in.stride,
                                                    .activation = op.activation,
                                                    .out = out.data,
                                                    .out_stride = out.stride,
                                                    .rows = step.rows,
                                                    .n = out.columns});
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
             plan_.ops[index].what);
}

void CudaProgram::embed(const EmbedOp& op, const Step& step) {
  const Buffer out = work_[op.out];
  cuda::run(*runtime_, EmbedArgs{.ids = work_.rows(kIds),
                                 .positions = work_.rows(kPositions),
                                 .tokens = weights_.matrix(op.tokens),
                                 .places = weights_.matrix(op.positions),
                                 .position_offset = op.position_offset,
                                 .scale = op.scale,
                                 .out = out.data,
                                 .out_stride = out.stride,
                                 .rows = step.rows,
                                 .columns = out.columns});
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

void CudaProgram::multiply(const LinearOp& op, const OpConstants& constants, const Buffer& in,
                           const Buffer& out, std::int64_t rows) {
  const Epilogue to{.bias = weights_.vector(op.bias),
                    .activation = op.activation,
                    .adds = op.adds_to_output,
                    .out = out.data,
                    .out_stride = out.stride};
  if (is_int8(weights_.spec(op.weight).format)) return multiply_int8(op, constants, in, rows, to);
  cuda::run(*runtime_, LinearArgs{.x = in.data,
                                  .x_stride = in.stride,
                                  .rows = rows,
                                  .weight = weights_.matrix(op.weight),
                                  .arithmetic = arithmetic_of(weights_.spec(op.weight)),
                                  .to = to,
                                  .scratch = work_.gemm_scratch()});
}

void CudaProgram::multiply_int8(const LinearOp& op, const OpConstants& constants, const Buffer& in,
                                std::int64_t rows, Epilogue to) {
  const WorkspaceLayout& layout = work_.layout();
  const WeightSpec& weight = weights_.spec(op.weight);
  const bool is_llm_int8 = weight.format == WeightFormat::llm_int8,
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
                         .x = {},
                         .to = to,
                         .scratch = work_.gemm_scratch()};
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

void CudaProgram::rotate(const RotaryOp& op, const Step& step) {
  const Buffer buffer = work_[op.buffer];
  const RotaryTable& table = work_.table_of(op);
  cuda::run(*runtime_, RotateArgs{.x = buffer.data + op.column,
                                  .x_stride = buffer.stride,
                                  .rows = step.rows,
                                  .heads = op.heads,
                                  .head_dim = op.head_dim,
                                  .pairs = table.pairs,
                                  .pairing = op.pairing,
                                  .cosines = work_.at<float>(table.cosines_at),
                                  .sines = work_.at<float>(table.sines_at)});
}

RowPlaces CudaProgram::places(bool are_kept) const {
  return {work_.rows(are_kept ? kKeptKeys : kKeys), work_.rows(are_kept ? kKeptFirstPages : kFirstPages),
          work_.at<DevicePointer<std::byte>>(work_.layout().pages_at)};
}

// Keys and values of all rows are stored; behind the last attention only the rows that are kept go on.
void CudaProgram::attend(const AttentionOp& op, const OpConstants& constants, bool is_last, Step& step) {
  const Buffer qkv = work_[op.qkv], out = work_[op.out];
  cuda::run(*runtime_, StoreArgs{.keys = qkv.data + op.k_column(),
                                 .values = qkv.data + op.v_column(),
                                 .x_stride = qkv.stride,
                                 .rows = step.rows,
                                 .cache = pages_->layout,
                                 .layer = op.layer,
                                 .places = places(false)});
  const bool prunes = is_last && step.is_pruned;
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
                                  .cache = pages_->layout,
                                  .scale = op.scale,
                                  .window = op.window,
                                  .soft_cap = op.soft_cap,
                                  .slopes = weights_.constant(constants.slopes_at),
                                  .places = places(prunes),
                                  .sequences = step.sequences,
                                  .longest = step.longest,
                                  .out = out.data,
                                  .out_stride = out.stride,
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

std::int64_t CudaProgram::place_of(std::int64_t row) const {
  if (keeps_all_ && row >= 0 && row < hidden_rows_) return row;
  const auto at = std::lower_bound(kept_.begin(), kept_.end(), row);
  if (keeps_all_ || at == kept_.end() || *at != row)
    throw Error("row {} of the last batch has no hidden state: it was not wanted", row);
  return at - kept_.begin();
}

void CudaProgram::head(std::span<const std::int64_t> rows, const HeadSink& sink) {
  marks_.clear();
  if (profile_) marks_.push_back({std::nullopt, runtime_->record()});
  const Buffer hidden = work_[plan_.hidden], normed = work_.head_normed(), logits = work_.logits();
  const auto row_of = work_.at<std::int32_t>(work_.layout().head_rows_at);
  for (std::size_t first = 0; first < rows.size(); first += kHeadRows) {
    const std::size_t count = std::min<std::size_t>(kHeadRows, rows.size() - first);
    const auto part = static_cast<std::int64_t>(count);
    std::vector<std::int32_t> from;
    for (const std::int64_t row : rows.subspan(first, count))
      from.push_back(static_cast<std::int32_t>(place_of(row)));
    upload<std::int32_t>(row_of, from);
    if (plan_.head.norm)
      cuda::run(*runtime_, NormArgs{.x = hidden.data,
                                    .x_stride = hidden.stride,
                                    .row_of = row_of,
                                    .gain = weights_.vector(plan_.head.norm->gain),
                                    .bias = weights_.vector(plan_.head.norm->bias),
                                    .epsilon = plan_.head.norm->epsilon,
                                    .subtracts_mean = plan_.head.norm->kind == Norm::layer,
                                    .out = normed.data,
                                    .out_stride = normed.stride,
                                    .rows = part,
                                    .groups = 1,
                                    .n = hidden.columns});
    else
      cuda::run(*runtime_, GatherArgs{.x = hidden.data,
                                      .x_stride = hidden.stride,
                                      .row_of = row_of,
                                      .out = normed.data,
                                      .out_stride = normed.stride,
                                      .rows = part,
                                      .n = hidden.columns});
    multiply(plan_.head.product, weights_.constants(plan_.ops.size()), normed, logits, part);
    drain(first, count, sink);
  }
  mark(Phase::head);
  add_marks();
}

// Reduces the held logits of rows [first, first + count) of the call.
void CudaProgram::drain(std::size_t first, std::size_t count, const HeadSink& sink) {
  const Buffer logits = work_.logits();
  const auto rows = static_cast<std::int64_t>(count);
  if (plan_.head.bends_logits() && !std::holds_alternative<ArgmaxSink>(sink))
    cuda::run(*runtime_, BendArgs{.x = logits.data,
                                  .x_stride = logits.stride,
                                  .rows = rows,
                                  .n = plan_.vocab,
                                  .scale = plan_.head.scale,
                                  .soft_cap = plan_.head.soft_cap});
  std::visit(Cases{[&](const LogitsSink& full) {
                     const auto vocab = static_cast<std::size_t>(plan_.vocab);
                     download(full.logits.subspan(first * vocab, count * vocab), logits.data);
                   },
                   [&](const ArgmaxSink& best) {
                     const auto out = work_.at<std::int32_t>(work_.layout().highest_at);
                     cuda::run(*runtime_, ArgmaxArgs{.x = logits.data,
                                                     .x_stride = logits.stride,
                                                     .rows = rows,
                                                     .n = plan_.vocab,
                                                     .out = out});
                     download(best.ids.subspan(first, count), out);
                   },
                   [&](const LogProbabilitySink& score) {
                     const auto targets = work_.at<std::int32_t>(work_.layout().targets_at);
                     const auto out = work_.at<double>(work_.layout().log_probabilities_at);
                     upload<std::int32_t>(targets, score.targets.subspan(first, count));
                     cuda::run(*runtime_, LogProbabilityArgs{.x = logits.data,
                                                             .x_stride = logits.stride,
                                                             .rows = rows,
                                                             .n = plan_.vocab,
                                                             .targets = targets,
                                                             .out = out});
                     download(score.log_probabilities.subspan(first, count), out);
                   }},
             sink);
}

void CudaProgram::mark(Phase phase) {
  if (profile_) marks_.push_back({phase, runtime_->record()});
}

// The device's own times between marks; what it waited for the host counts to the phase that follows.
void CudaProgram::add_marks() {
  if (!profile_) return;
  runtime_->synchronize();
  for (std::size_t i = 1; i < marks_.size(); ++i) {
    StepProfile::Part& part = profile_->parts[static_cast<std::size_t>(*marks_[i].phase)];
    part.time = part.time + runtime_->between(marks_[i - 1].point, marks_[i].point);
  }
}

}  // namespace assay::cuda
