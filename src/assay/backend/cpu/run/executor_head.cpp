// The LM head of the CPU backend's program: hidden states in, logits or what is made of them out.
#include <algorithm>

#include "assay/backend/cpu/run/executor.h"

namespace assay::cpu {

// Hidden states of at most kMaxRows rows into head_normed.
void Executor::norm_head(std::span<const std::int64_t> rows) {
  const Buffer& hidden = (*work_)[plan().hidden];
  const auto count = static_cast<std::int64_t>(rows.size());
  const auto for_each = [&](const auto& task) {
    if (count > kHeadRows) return tasks_.run(count, task);
    for (std::int64_t i = 0; i < count; ++i) task(i);
  };
  normed_rows_.clear();
  if (!plan().head.norm)
    return for_each([&](std::int64_t i) {
      const std::int64_t place = pruner_->hidden().place_of(rows[static_cast<std::size_t>(i)]);
      work_->head_normed.put_row(i, hidden.floats + place * hidden.stride);
    });
  const NormOp& op = *plan().head.norm;
  const NormArgs whole =
      norm_args(op, packed_.vector(op.gain), packed_.vector(op.bias), hidden, work_->head_normed);
  for_each([&](std::int64_t i) {
    NormArgs one = whole;
    one.rows = 1;
    one.x += pruner_->hidden().place_of(rows[static_cast<std::size_t>(i)]) * one.x_stride;
    one.first_tile_row = i;
    if (one.y != nullptr) one.y += one.first_tile_row * one.y_stride;
    packed_.table.norm(one);
  });
}

void Executor::head(std::span<const std::int64_t> rows, const HeadSink& sink) {
  const OpTimer timer(*this, OpClass::head);
  for (std::size_t first = 0; first < rows.size(); first += kHeadRows) {
    const auto part = rows.subspan(first, std::min<std::size_t>(kHeadRows, rows.size() - first));
    const auto count = static_cast<std::int64_t>(part.size());
    norm_head(part);
    const auto* best = std::get_if<ArgmaxSink>(&sink);
    if (best != nullptr && candidates_ &&
        candidates_->find_highest(count, best->ids.subspan(first, part.size())))
      continue;
    linear_->run(plan().head.product, work_->head_normed, count, {.out = work_->logits});
    drain(part, static_cast<std::int64_t>(first), sink);
  }
}

// The hidden states of rows whose slices follow each other are normed once.
void Executor::head_slice(std::span<const std::int64_t> rows, const LogitSlice& slice) {
  const OpTimer timer(*this, OpClass::head);
  if (!std::equal(rows.begin(), rows.end(), normed_rows_.begin(), normed_rows_.end())) {
    norm_head(rows);
    normed_rows_.assign(rows.begin(), rows.end());
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t first_panel = slice.first / kPanel,
                     panels = std::min(round_up((slice.count + kPanel - 1) / kPanel, kGroup),
                                       packed_.head().panels - first_panel);
  const Buffer out{.columns = slice.count, .stride = slice.stride, .floats = slice.logits};
  linear_->run(plan().head.product, work_->head_normed, count,
               {.out = out, .column = -slice.first, .first_panel = first_panel, .panels = panels});
  const LmHead& lm_head = plan().head;
  if (lm_head.bends_logits())
    tasks_.run(count, [&](std::int64_t i) {
      packed_.table.bend_logits(slice.logits + i * slice.stride, slice.count, lm_head.scale,
                                lm_head.soft_cap);
    });
}

// For few rows each thread looks at logits that it has computed itself: they lie in its own caches.
void Executor::find_highest(std::int64_t rows, std::span<TokenId> ids) {
  constexpr std::int64_t kUnknown = -1, kNothing = -2;  // what argmax() gives; of a slice without logits
  const std::int64_t vocab = plan().vocab, slices = tasks_.threads(),
                     each = round_up((vocab + slices - 1) / slices, kPanel);
  highest_.resize(static_cast<std::size_t>(rows * slices));
  tasks_.run_in_regions(slices, [&](std::int64_t slice) {
    const std::int64_t first = slice * each, n = std::min(each, vocab - first);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at =
          n <= 0 ? kNothing
                 : packed_.table.argmax(work_->logits.floats + row * work_->logits.stride + first, n);
      highest_[static_cast<std::size_t>(row * slices + slice)] = at < 0 ? at : first + at;
    }
  });
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* x = work_->logits.floats + row * work_->logits.stride;
    const auto of_row =
        std::span(highest_).subspan(static_cast<std::size_t>(row * slices), static_cast<std::size_t>(slices));
    std::int64_t best = of_row[0];
    for (const std::int64_t at : of_row.subspan(1))
      if (at >= 0 && best >= 0 && x[at] > x[best]) best = at;
    // A slice without a finite highest logit says nothing of the row.
    const bool is_known = std::find(of_row.begin(), of_row.end(), kUnknown) == of_row.end();
    ids[static_cast<std::size_t>(row)] =
        static_cast<TokenId>(is_known ? best : packed_.table.argmax(x, vocab));
  }
}

// Reduces the held logits, a row per chunk of work: the result does not depend on the number of threads.
void Executor::drain(std::span<const std::int64_t> rows, std::int64_t first, const HeadSink& sink) {
  const std::int64_t vocab = plan().vocab;
  if (const auto* best = std::get_if<ArgmaxSink>(&sink);
      best != nullptr && static_cast<std::int64_t>(rows.size()) <= kFewRows)
    return find_highest(static_cast<std::int64_t>(rows.size()),
                        best->ids.subspan(static_cast<std::size_t>(first), rows.size()));
  const LmHead& lm_head = plan().head;
  const bool bends = lm_head.bends_logits() && !std::holds_alternative<ArgmaxSink>(sink);
  tasks_.run(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i) {
    float* x = work_->logits.floats + i * work_->logits.stride;
    if (bends) packed_.table.bend_logits(x, vocab, lm_head.scale, lm_head.soft_cap);
    const auto at = static_cast<std::size_t>(first + i);
    std::visit(Cases{[&](const LogitsSink& full) {
                       std::copy_n(x, vocab, full.logits.data() + static_cast<std::int64_t>(at) * vocab);
                     },
                     [&](const ArgmaxSink& best) {
                       best.ids[at] = static_cast<TokenId>(packed_.table.argmax(x, vocab));
                     },
                     [&](const LogProbabilitySink& score) {
                       score.log_probabilities[at] =
                           static_cast<double>(x[score.targets[at]]) - packed_.table.log_sum_exp(x, vocab);
                     }},
               sink);
  });
}

}  // namespace assay::cpu
