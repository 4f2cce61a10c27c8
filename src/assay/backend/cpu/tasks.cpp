#include "assay/backend/cpu/tasks.h"

#include "assay/backend/cpu/kernels.h"

namespace assay::cpu {

RowShares row_shares(std::int64_t rows, int threads) {
  constexpr std::int64_t kBlockUnit = 2 * kTileRows;
  const std::int64_t count = std::clamp<std::int64_t>((rows + kShareRows / 2) / kShareRows, 1,
                                                      std::min<std::int64_t>(threads, kMaxShares));
  return {rows, count, round_up((rows + count - 1) / count, kBlockUnit)};
}

std::int64_t in_regions(std::int64_t task, std::int64_t tasks, int threads) {
  const std::int64_t region = task % threads;
  return region * (tasks / threads) + std::min(region, tasks % threads) + task / threads;
}

}  // namespace assay::cpu
