// The LM head: from hidden states to logits, and to what is asked of them.
#include <algorithm>
#include <stdexcept>

#include "assay/backend/cuda/run/executor.h"

namespace assay::cuda {

void CudaProgram::head(std::span<const std::int64_t> rows, const HeadSink& sink) {
  begin_marks();
  held_ = 0;
  for (std::size_t first = 0; first < rows.size(); first += kHeadRows) {
    const std::size_t count = std::min<std::size_t>(kHeadRows, rows.size() - first);
    run_head(rows.subspan(first, count));
    drain(first, count, sink);
  }
  mark(OpClass::head, plan_.ops.size());
  add_marks();
}

// The rows are those of the last batch.
void CudaProgram::run_head(std::span<const std::int64_t> rows) {
  const auto row_of = work_.at<std::int32_t>(work_.layout().head_rows_at);
  std::vector<std::int32_t> from;
  for (const std::int64_t row : rows) from.push_back(static_cast<std::int32_t>(hidden_.place_of(row)));
  upload<std::int32_t>(row_of, from);
  run_head(row_of, std::ssize(from));
}

void CudaProgram::run_head(DevicePointer<const std::int32_t> row_of, std::int64_t rows) {
  if (!row_of && neighbours_.leaves_moments.back() && has_few(rows, kFewRows))
    return multiply(plan_.head.product, weights_.constants(plan_.ops.size()), rows, around_head(rows));
  if (!row_of) row_of = work_.at<std::int32_t>(work_.layout().every_row_at);
  const Buffer hidden = work_[plan_.hidden], normed = work_.head_normed();
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
                                  .rows = rows,
                                  .groups = 1,
                                  .n = hidden.columns});
  else
    cuda::run(*runtime_, GatherArgs{.x = hidden.data,
                                    .x_stride = hidden.stride,
                                    .row_of = row_of,
                                    .out = normed.data,
                                    .out_stride = normed.stride,
                                    .rows = rows,
                                    .n = hidden.columns});
  multiply(plan_.head.product, weights_.constants(plan_.ops.size()), rows,
           {.in = normed, .out = work_.logits()});
}

void CudaProgram::bend_logits(std::int64_t rows) {
  if (!plan_.head.bends_logits()) return;
  const Buffer logits = work_.logits();
  cuda::run(*runtime_, BendArgs{.x = logits.data,
                                .x_stride = logits.stride,
                                .rows = rows,
                                .n = plan_.vocab,
                                .scale = plan_.head.scale,
                                .soft_cap = plan_.head.soft_cap});
}

// Reduces the held logits of rows [first, first + count) of the call.
void CudaProgram::drain(std::size_t first, std::size_t count, const HeadSink& sink) {
  const Buffer logits = work_.logits();
  const auto rows = static_cast<std::int64_t>(count);
  if (!std::holds_alternative<ArgmaxSink>(sink)) bend_logits(rows);
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

std::int64_t CudaProgram::most_rows() const {
  return held_rows_of(plan_.vocab);
}

bool CudaProgram::is_beside(const HeldLogits& base) const {
  const auto* program = dynamic_cast<const CudaProgram*>(&base);
  return program != nullptr && program->runtime_ == runtime_;
}

void CudaProgram::hold(std::span<const std::int64_t> rows) {
  if (std::ssize(rows) > most_rows()) throw std::logic_error("logits of too many rows are to be held");
  held_ = 0;
  begin_marks();
  run_head(rows);
  bend_logits(std::ssize(rows));
  mark(OpClass::head, plan_.ops.size());
  add_marks();
  held_ = std::ssize(rows);
}

void CudaProgram::reduce(const HeldLogits* base, std::int64_t vocab, std::span<const TokenId> targets,
                         std::span<RowSlice> out) {
  const auto* beside = static_cast<const CudaProgram*>(base);
  const std::int64_t rows = std::ssize(targets);
  if (rows != held_ || (beside != nullptr && rows != beside->held_) || vocab > plan_.vocab ||
      (beside != nullptr && vocab > beside->plan_.vocab) || std::ssize(out) != rows * slices_of(vocab))
    throw std::logic_error("logits are reduced that are not held");
  const auto targets_at = work_.at<std::int32_t>(work_.layout().targets_at);
  const auto slices = work_.at<RowSlice>(work_.layout().slices_at);
  upload<std::int32_t>(targets_at, targets);
  begin_marks();
  cuda::run(*runtime_,
            ReduceSlicesArgs{.x = work_.logits().data,
                             .base = beside == nullptr ? DevicePointer<float>() : beside->work_.logits().data,
                             .x_stride = work_.logits().stride,
                             .base_stride = beside == nullptr ? 0 : beside->work_.logits().stride,
                             .rows = rows,
                             .n = vocab,
                             .targets = targets_at,
                             .out = slices});
  mark(OpClass::head, plan_.ops.size());
  add_marks();
  download(out, slices);
}

}  // namespace assay::cuda
