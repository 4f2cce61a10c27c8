#include "assay/backend/cpu/lower/pruning.h"

#include <algorithm>

namespace assay::cpu {

namespace {

// One or two rows of 4-bit weights are computed in another arithmetic than a prompt's.
constexpr std::int64_t kMinKept = kFourBitRows + 1;

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

RowPruner::RowPruner(const PackedPlan& packed, Workspace& work)
    : work_(work), ops_(packed.plan.ops.size()), pruning_(pruning_of(packed.plan)) {
  if (pruning_.qkv_product == ops_) return;
  const std::int64_t queries = std::get<AttentionOp>(packed.plan.ops[pruning_.attention].kind).k_column();
  query_panels_ = queries % kTileColumns == 0 ? queries / kPanel : 0;
}

std::vector<RowRange> RowPruner::rows_to_keep(const Batch& batch) const {
  const auto all = static_cast<std::int64_t>(batch.ids.size());
  if (batch.wants_all || pruning_.attention == ops_) return {};
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
    const std::int64_t more = std::clamp<std::int64_t>(kMinKept - kept, 0, range.first);
    range.first -= more;
    kept += more;
  }
  // Moving them costs more than it saves; or they are too few to be computed as a prompt is.
  if (2 * kept > all || kept < kMinKept) return {};
  return ranges;
}

std::optional<NarrowPanels> RowPruner::queries_of(std::size_t op, std::span<const RowRange> kept) const {
  // For several sequences weights would be read several times.
  if (op != pruning_.qkv_product || query_panels_ == 0 || kept.size() != 1) return std::nullopt;
  return NarrowPanels{kept.front(), query_panels_};
}

std::int64_t RowPruner::keep(const Batch& batch, std::span<const RowRange> ranges) {
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    for (std::int64_t row = ranges[i].first; row < ranges[i].end; ++row)
      kept.push_back(batch.sequences[i].first_row + row);
  // No row moves up, nor onto one that has not moved yet.
  for (std::size_t to = 0; to < kept.size(); ++to)
    for (const BufferId id : pruning_.moved) copy_row(work_[id], kept[to], static_cast<std::int64_t>(to));
  hidden_.keep(std::move(kept));
  return static_cast<std::int64_t>(hidden_.kept().size());
}

}  // namespace assay::cpu
