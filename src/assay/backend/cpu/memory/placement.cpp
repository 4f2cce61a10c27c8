#include "assay/backend/cpu/memory/placement.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "assay/backend/cpu/run/linear.h"

namespace assay::cpu {

namespace {

constexpr std::size_t kPage = 4096;

void touch(std::span<std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kPage)
    *static_cast<volatile std::byte*>(&bytes[at]) = std::byte{0};
}

}  // namespace

std::vector<std::span<std::byte>> read_by(PackedWeight& weight, bool is_gated, int worker, int workers) {
  if (weight.spec.kind != WeightSpec::Kind::matrix) return {};
  const std::int64_t halves = is_gated ? 2 : 1, panels = weight.panels / halves,
                     at_once = panels_of_few_rows(panels, workers), tasks = (panels + at_once - 1) / at_once;
  const TaskRegion own = region_of(worker, tasks, workers);
  const std::int64_t first = own.first * at_once, last = std::min((own.first + own.count) * at_once, panels);
  if (first >= last) return {};
  std::vector<std::span<std::byte>> all;
  const auto add = [&](std::int64_t from, std::int64_t bytes_of_panel, std::int64_t half) {
    all.push_back(std::span(weight.data.data(), weight.data.size())
                      .subspan(static_cast<std::size_t>(from + (half * panels + first) * bytes_of_panel),
                               static_cast<std::size_t>((last - first) * bytes_of_panel)));
  };
  for (std::int64_t half = 0; half < halves; ++half) {
    add(0, weight.panel_bytes(), half);
    if (weight.packing == Packing::four_bit)
      add(weight.scales_at,
          (weight.k_padded() + weight.group - 1) / weight.group * kPanel * weight.block_scales().bytes(),
          half);
    else if (weight.packing == Packing::grouped)
      add(weight.scales_at, weight.grouped().scale_bytes(), half);
  }
  return all;
}

void touch_by_readers(PackedWeight& weight, bool is_gated, ThreadPool& pool) {
  if (weight.spec.kind != WeightSpec::Kind::matrix) return;
  // A thread that has its part waits for the others, so that none takes two.
  std::atomic<int> arrived{0};
  pool.run(pool.size(), [&](std::int64_t) {
    arrived.fetch_add(1);
    while (arrived.load() < pool.size()) std::this_thread::yield();
    for (const std::span<std::byte> part : read_by(weight, is_gated, ThreadPool::worker(), pool.size()))
      touch(part);
  });
}

}  // namespace assay::cpu
