#include "assay/backend/cpu/run/linear.h"

namespace assay::cpu {

namespace {

constexpr std::int64_t kMinManyRowsPanels = 2 * kGroup;
// For tasks on the vector units, which go best by sixes.
constexpr std::int64_t kManyVectorPanels = 12;

// The same tiles from a row on.
Tiles tiles_from(Tiles tiles, std::int64_t row) {
  if (tiles.data != nullptr) tiles.data += tiles.offset(row, 0);
  return tiles;
}

}  // namespace

LinearArgs part_of(const LinearArgs& whole, const ProductPart& part) {
  LinearArgs args = whole;
  const std::int64_t first = part.rows.first;
  args.rows = part.rows.size();
  if (args.x != nullptr) args.x += first * args.x_stride;
  args.x_tiles = tiles_from(args.x_tiles, first);
  if (args.y != nullptr) args.y += first * args.y_stride;
  args.y_tiles = tiles_from(args.y_tiles, first);
  args.first_panel = part.first_panel;
  args.panels = part.panels;
  return args;
}

std::int64_t panels_of_task(std::int64_t panels, int threads, std::int64_t most) {
  std::int64_t best = 0, best_time = 0;
  for (std::int64_t size = most; size >= kMinManyRowsPanels; size -= 2) {
    const std::int64_t tasks = (panels + size - 1) / size, time = (tasks + threads - 1) / threads * size;
    if (best == 0 || time < best_time) {
      best = size;
      best_time = time;
    }
  }
  return best;
}

Linear::Linear(const PackedPlan& packed, Tasks& tasks, Workspace& work)
    : packed_(packed),
      tasks_(tasks),
      work_(work),
      ranges_(kMaxRows / kNormRows),
      ahead_(packed, tasks.pool()) {
  std::int64_t widest = 0;
  for (const PackedWeight& w : packed.weights) widest = std::max(widest, w.k_padded());
  is_outlier_.resize(static_cast<std::size_t>(widest));
  fold_zero_points();
}

LinearArgs Linear::arguments(const LinearOp& op, const Buffer& in, std::int64_t rows,
                             const LinearTarget& target) const {
  const PackedWeight& w = packed_.weight(op.weight);
  const bool has_tiles = packed_.multiplies_tiles(w), is_gated = target.gate != nullptr;
  LinearArgs args{.x = has_tiles ? nullptr : in.floats,
                  .x_stride = in.stride,
                  .x_tiles = has_tiles ? in.tiles : kNoTiles,
                  .rows = rows,
                  .k = w.spec.columns,
                  .w = w.data.data(),
                  .packing = w.packing,
                  .planes = has_tiles ? planes_for(w) : w.planes(),
                  .bias = packed_.vector(op.bias),
                  .activation = op.activation,
                  .adds = op.adds_to_output,
                  .is_rounded = !is_gated && target.out.is_rounded,
                  .y = is_gated ? nullptr : target.out.floats,
                  .y_stride = target.out.stride,
                  .y_tiles = is_gated ? kNoTiles : target.out.tiles,
                  .n = w.spec.rows,
                  .first_panel = 0,
                  .panels = w.panels,
                  .fetch = packed_.fetch};
  if (args.y != nullptr) args.y += target.column;
  if (args.y_tiles.data != nullptr) args.y_tiles.data += args.y_tiles.offset(0, target.column);
  return args;
}

void Linear::run(const LinearOp& op, const Buffer& in, std::int64_t rows, const LinearTarget& target,
                 const NarrowPanels* queries) {
  const PackedWeight& w = packed_.weight(op.weight);
  ahead_.begin(op.weight, rows);
  LinearArgs whole = arguments(op, in, rows, target);
  if (w.packing == Packing::int8) whole = quantize_inputs(op, whole, in);
  if (target.panels > 0) return run_part(op, whole, {{0, rows}, target.first_panel, target.panels}, target);
  const std::int64_t narrow = queries == nullptr ? 0 : queries->panels,
                     panels = target.gate == nullptr ? w.panels : w.panels / 2;
  if (narrow > 0) run_part(op, whole, {queries->rows, 0, narrow}, target);
  if (panels > narrow) run_part(op, whole, {{0, rows}, narrow, panels - narrow}, target);
}

void Linear::run_panel(const LinearOp& op, const Buffer& in, const Buffer& out, std::int64_t row,
                       std::int64_t panel) const {
  const auto kernel =
      packed_.multiplies_tiles(packed_.weight(op.weight)) ? packed_.table.linear_tiles : packed_.table.linear;
  kernel(part_of(arguments(op, in, row + 1, {.out = out}), {{row, row + 1}, panel, 1}));
}

void Linear::run_part(const LinearOp& op, const LinearArgs& whole, const ProductPart& part,
                      const LinearTarget& target) {
  const PackedWeight& w = packed_.weight(op.weight);
  if (w.packing == Packing::int8) return run_int8(op, whole, part, target);
  if (w.packing == Packing::four_bit) return run_four_bit(op, whole, part, target);
  if (w.packing == Packing::grouped) return run_grouped(op, whole, part, target);
  const auto kernel = packed_.multiplies_tiles(w) ? packed_.table.linear_tiles : packed_.table.linear;
  run_tasks(whole, part, w, target, [&](const LinearArgs& args, const ProductPart&) { kernel(args); });
}

std::int64_t Linear::panels_at_once(const ProductPart& part, const PackedWeight& w,
                                    const RowShares& shares) const {
  if (part.rows.size() <= kFewRows) return panels_of_few_rows(part.panels, tasks_.threads());
  const auto count = static_cast<int>(shares.count);
  const bool is_vector = w.packing != Packing::int8 && !packed_.multiplies_tiles(w);
  return panels_of_task(part.panels, (tasks_.threads() + count - 1) / count,
                        is_vector ? kManyVectorPanels : kManyRowsPanels);
}

void Linear::apply_gate(const ProductPart& part, const LinearTarget& target, const float* outputs) const {
  const std::int64_t n = part.panels * kPanel, column = part.first_panel * kPanel;
  const Buffer& out = target.out;
  packed_.table.gate(
      {.gate = outputs,
       .up = outputs + n,
       .x_stride = Workspace::kGateColumns,
       .activation = target.gate->activation,
       .is_rounded = out.is_rounded,
       .y = out.floats == nullptr ? nullptr : out.floats + part.rows.first * out.stride + column,
       .y_stride = out.stride,
       .y_tiles = out.tiles,
       .first_tile_row = part.rows.first,
       .first_tile_column = column,
       .rows = part.rows.size(),
       .n = n});
}

}  // namespace assay::cpu
