#include "assay/backend/cpu/run/tasks.h"

#include "assay/backend/cpu/kernels/kernels.h"

namespace assay::cpu {

RowShares row_shares(std::int64_t rows, int threads, std::int64_t share_rows) {
  constexpr std::int64_t kBlockUnit = 2 * kTileRows;
  const std::int64_t count = std::clamp<std::int64_t>((rows + share_rows / 2) / share_rows, 1,
                                                      std::min<std::int64_t>(threads, kMaxShares));
  return {rows, count, round_up((rows + count - 1) / count, kBlockUnit)};
}

std::int64_t panels_of_few_rows(std::int64_t panels, int threads) {
  // What reading takes by panels of a task, measured on a Zen 4.
  struct Size {
    std::int64_t panels;
    double cost;
  };
  constexpr Size kSizes[] = {{8, 1}, {16, 0.98}, {4, 1.04}, {2, 1.1}, {1, 1.2}};
  std::int64_t best = 0;
  double best_time = 0;
  for (const auto& [size, cost] : kSizes) {
    const std::int64_t tasks = (panels + size - 1) / size, of_one = (tasks + threads - 1) / threads;
    const double time = static_cast<double>(std::min(of_one * size, panels)) * cost;
    if (best == 0 || time < best_time) {
      best = size;
      best_time = time;
    }
  }
  return best;
}

TaskRegion region_of(std::int64_t worker, std::int64_t tasks, int threads) {
  const std::int64_t each = tasks / threads, more = tasks % threads;
  return {worker * each + std::min(worker, more), each + (worker < more ? 1 : 0)};
}

}  // namespace assay::cpu
