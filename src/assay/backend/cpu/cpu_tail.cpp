// Rows whose hidden states nobody wants: from the last attention on they are left out.
#include <algorithm>

#include "assay/backend/cpu/cpu_program.h"
#include "assay/base/error.h"

namespace assay::cpu {

namespace {

// One or two rows of 4-bit weights are computed in another arithmetic than a prompt's.
constexpr std::int64_t kFewestKept = kFourBitRows + 1;

void copy_row(const Buffer& buffer, std::int64_t from, std::int64_t to) {
  if (buffer.floats != nullptr)
    std::copy_n(buffer.floats + from * buffer.stride, buffer.columns, buffer.floats + to * buffer.stride);
  if (buffer.tiles.data == nullptr) return;
  for (int i = 0; i < buffer.tiles.planes; ++i)
    for (std::int64_t column = 0; column < buffer.tiles.columns; column += kTileColumns)
      std::copy_n(buffer.tiles.plane(i) + buffer.tiles.offset(from, column), kTileColumns,
                  buffer.tiles.plane(i) + buffer.tiles.offset(to, column));
}

}  // namespace

void CpuProgram::find_tail() {
  tail_ = tail_of(plan_);
  tail_product_ = tail_product_of(plan_);
  if (tail_product_ < plan_.ops.size()) {
    const auto& attention = std::get<AttentionOp>(plan_.ops[tail_].what);
    const std::int64_t queries = std::int64_t{attention.heads} * attention.head_dim;
    tail_query_panels_ = queries % kTileColumns == 0 ? queries / kPanel : 0;
  }
  std::vector<bool> is_written(plan_.buffers.size()), is_input(plan_.buffers.size());
  const auto reads = [&](BufferId id) {
    const auto at = static_cast<std::size_t>(id);
    if (!is_written[at] && !is_input[at]) tail_inputs_.push_back(id);
    is_input[at] = true;
  };
  for (std::size_t i = tail_ + 1; i < plan_.ops.size(); ++i) {
    if (const auto* norm = std::get_if<NormOp>(&plan_.ops[i].what)) {
      reads(norm->in);
      is_written[static_cast<std::size_t>(norm->out)] = true;
    }
    if (const auto* linear = std::get_if<LinearOp>(&plan_.ops[i].what)) {
      reads(linear->in);
      if (linear->adds_to_output) reads(linear->out);
      is_written[static_cast<std::size_t>(linear->out)] = true;
    }
  }
  reads(plan_.hidden);
}

std::vector<RowRange> CpuProgram::rows_to_keep(const Batch& batch) const {
  const auto all = static_cast<std::int64_t>(batch.ids.size());
  if (batch.wants_all || tail_ == plan_.ops.size() || observer_) return {};
  std::vector<RowRange> ranges;
  std::int64_t kept = 0;
  const std::vector<std::int64_t>& wanted = batch.wanted;
  for (const SequenceRows& s : batch.sequences) {
    const auto first = std::lower_bound(wanted.begin(), wanted.end(), s.first_row);
    const auto end = std::lower_bound(first, wanted.end(), s.first_row + s.rows);
    ranges.push_back(first == end ? RowRange{0, 0}
                                  : RowRange{*first - s.first_row, end[-1] - s.first_row + 1});
    kept += ranges.back().size();
  }
  if (kept == 0) return ranges;
  for (RowRange& range : ranges) {
    const std::int64_t more = std::clamp<std::int64_t>(kFewestKept - kept, 0, range.first);
    range.first -= more;
    kept += more;
  }
  // Not worth the moving; or too few to be computed as a prompt is.
  if (2 * kept > all || kept < kFewestKept) return {};
  return ranges;
}

const RowRange* CpuProgram::queries_to_compute(std::size_t op, std::span<const RowRange> kept) const {
  // Of several sequences weights would be read several times.
  return op == tail_product_ && tail_query_panels_ > 0 && kept.size() == 1 ? kept.data() : nullptr;
}

std::int64_t CpuProgram::keep_rows(const Batch& batch, std::span<const RowRange> ranges) {
  kept_.clear();
  for (std::size_t i = 0; i < ranges.size(); ++i)
    for (std::int64_t row = ranges[i].first; row < ranges[i].end; ++row)
      kept_.push_back(batch.sequences[i].first_row + row);
  // No row moves up, nor onto one that has not moved yet.
  for (std::size_t to = 0; to < kept_.size(); ++to)
    for (const BufferId id : tail_inputs_) copy_row(buffer(id), kept_[to], static_cast<std::int64_t>(to));
  keeps_all_ = false;
  return static_cast<std::int64_t>(kept_.size());
}

std::int64_t CpuProgram::place_of(std::int64_t row) const {
  if (keeps_all_ && row >= 0 && row < hidden_rows_) return row;
  const auto at = std::lower_bound(kept_.begin(), kept_.end(), row);
  if (keeps_all_ || at == kept_.end() || *at != row)
    throw Error("row {} of the last batch has no hidden state: it was not wanted", row);
  return at - kept_.begin();
}

}  // namespace assay::cpu
