#include "assay/backend/cpu/tasks.h"

#include "assay/backend/cpu/kernels.h"

namespace assay::cpu {

RowShares row_shares(std::int64_t rows, int threads) {
  constexpr std::int64_t kBlockUnit = 2 * kTileRows;
  const std::int64_t count = std::clamp<std::int64_t>((rows + kShareRows / 2) / kShareRows, 1,
                                                      std::min<std::int64_t>(threads, kMaxShares));
  return {rows, count, round_up((rows + count - 1) / count, kBlockUnit)};
}

TaskRegion region_of(std::int64_t worker, std::int64_t tasks, int threads) {
  const std::int64_t each = tasks / threads, more = tasks % threads;
  return {worker * each + std::min(worker, more), each + (worker < more ? 1 : 0)};
}

}  // namespace assay::cpu
