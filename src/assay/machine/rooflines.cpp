#include "assay/machine/rooflines.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <cstring>
#include <thread>

#include "assay/base/aligned.h"
#include "assay/base/error.h"
#include "assay/machine/probes/probes.h"
#include "assay/statistics/statistics.h"

namespace assay {

namespace {

// Calls task(i) once on every thread of the pool, together: a thread that has its own waits for the others,
// so that none takes two. The time from the first that begins to the last that ends.
template <typename Task>
Seconds on_every_thread(ThreadPool& pool, const Task& task) {
  const int threads = pool.size();
  std::atomic<int> arrived{0};
  std::vector<TimePoint> begin(static_cast<std::size_t>(threads)), end(begin);
  pool.run(threads, [&](std::int64_t i) {
    arrived.fetch_add(1);
    while (arrived.load() < threads) std::this_thread::yield();
    const auto at = static_cast<std::size_t>(i);
    begin[at] = Clock::now();
    task(i);
    end[at] = Clock::now();
  });
  return elapsed(*std::min_element(begin.begin(), begin.end()), *std::max_element(end.begin(), end.end()));
}

// Counts per second of `work(count)`, with a count that takes `at_least`.
template <typename Work>
double rate(Seconds at_least, std::int64_t first_count, const Work& work) {
  for (std::int64_t count = first_count;;) {
    const Seconds time{std::max(work(count).value, 1e-9)};
    if (time >= at_least) return static_cast<double>(count) / time.value;
    const double wanted = 1.1 * static_cast<double>(count) * at_least.value / time.value;
    count = std::max(2 * count, static_cast<std::int64_t>(std::ceil(wanted)));
  }
}

probes::ReadLoop widest_read_loop() {
  if (is_usable(Isa::avx512)) return probes::avx512::loops().read;
  if (is_usable(Isa::avx2)) return probes::avx2::loops().read;
  return probes::scalar::loops().read;
}

struct ProductInfo {
  std::string_view name;
  Isa isa;
  std::string_view feature;  // beyond the tier; empty for none
};

ProductInfo info(ProductKind kind) {
  switch (kind) {
    case ProductKind::avx2_float32:
      return {"avx2 float32 FMA", Isa::avx2, {}};
    case ProductKind::avx512_float32:
      return {"avx512 float32 FMA", Isa::avx512, {}};
    case ProductKind::avx2_int8:
      return {"avx2 int8", Isa::avx2, {}};
    case ProductKind::avx2_vnni:
      return {"avx2 int8 VNNI", Isa::avx2, "avx_vnni"};
    case ProductKind::avx512_vnni:
      return {"avx512 int8 VNNI", Isa::avx512, "avx512_vnni"};
    case ProductKind::avx512_bfloat16:
      return {"avx512 bfloat16", Isa::avx512, "avx512_bf16"};
    case ProductKind::amx_bfloat16:
      return {"amx bfloat16", Isa::amx, {}};
    case ProductKind::amx_int8:
      return {"amx int8", Isa::amx, {}};
  }
  return {"?", Isa::scalar, {}};
}

probes::ProductLoop loop_of(ProductKind kind) {
  switch (kind) {
    case ProductKind::avx2_float32:
      return probes::avx2::loops().float32;
    case ProductKind::avx512_float32:
      return probes::avx512::loops().float32;
    case ProductKind::avx2_int8:
      return probes::avx2::loops().int8;
    case ProductKind::avx2_vnni:
      return probes::avx2::loops().vnni;
    case ProductKind::avx512_vnni:
      return probes::avx512::loops().int8;
    case ProductKind::avx512_bfloat16:
      return probes::avx512::loops().bfloat16;
    case ProductKind::amx_bfloat16:
      return probes::amx::loops().bfloat16;
    case ProductKind::amx_int8:
      return probes::amx::loops().int8;
  }
  return {};
}

// Bytes of each thread, of a buffer and of a region: whole steps of the loop.
std::size_t share_of_buffer(Bytes buffer, int threads) {
  const auto each = static_cast<std::size_t>(buffer.value / threads);
  return (each + probes::kReadStep - 1) / probes::kReadStep * probes::kReadStep;
}
std::size_t share_of_region(std::size_t bytes, int threads) {
  return bytes / static_cast<std::size_t>(threads) / probes::kReadStep * probes::kReadStep;
}

}  // namespace

struct ReadProbe::State {
  ThreadPool& pool;
  std::size_t share;  // bytes of each thread, of the buffer
  AlignedBuffer buffer;
  MemoryRegions regions;
  std::vector<std::thread::id>
      owners;  // who owns each share: the thread that touched it first goes on reading it
  probes::ReadLoop read;

  std::byte* share_at(std::size_t i) { return buffer.data() + i * share; }
  std::size_t own_number() const {
    const auto owner = std::find(owners.begin(), owners.end(), std::this_thread::get_id());
    return owner == owners.end() ? 0 : static_cast<std::size_t>(owner - owners.begin());
  }
  void read_share(std::size_t i, int streams) {
    for (const std::span<const std::byte> region : regions) {
      const std::size_t bytes = share_of_region(region.size(), pool.size());
      if (bytes > 0) read(region.data() + i * bytes, bytes, streams);
    }
    if (share > 0) read(share_at(i), share, streams);
  }
};

ReadProbe::ReadProbe(Bytes buffer, ThreadPool& pool, MemoryRegions regions) {
  // Something must be read.
  if (buffer.value <= 0 && read_of(regions, pool.size()).value == 0) buffer = {1};
  const std::size_t share = share_of_buffer({buffer.value + pool.size() - 1}, pool.size());
  const auto threads = static_cast<std::size_t>(pool.size());
  state_.reset(new State{pool, share, AlignedBuffer(share * threads, "the memory of the read probe"),
                         std::move(regions), std::vector<std::thread::id>(threads), widest_read_loop()});
  on_every_thread(pool, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    state_->owners[at] = std::this_thread::get_id();
    // Pages that were only read would all be the page of zeros.
    if (share > 0) std::memset(state_->share_at(at), 1, share);
  });
}

ReadProbe::~ReadProbe() = default;

Bytes ReadProbe::held() const {
  return {static_cast<std::int64_t>(state_->buffer.size())};
}

Bytes ReadProbe::read_of(const MemoryRegions& regions, int threads) {
  std::size_t all = 0;
  for (const std::span<const std::byte> region : regions)
    all += share_of_region(region.size(), threads) * static_cast<std::size_t>(threads);
  return {static_cast<std::int64_t>(all)};
}

Bytes ReadProbe::working_set() const {
  return held() + read_of(state_->regions, state_->pool.size());
}

double ReadProbe::bytes_per_second(int streams, Seconds at_least) {
  assert(streams == 1 || streams == 2 || streams == 4 || streams == 8);
  const double passes_per_second = rate(at_least, 1, [&](std::int64_t passes) {
    return on_every_thread(state_->pool, [&](std::int64_t) {
      const std::size_t mine = state_->own_number();
      for (std::int64_t pass = 0; pass < passes; ++pass) state_->read_share(mine, streams);
    });
  });
  return passes_per_second * static_cast<double>(working_set().value);
}

std::string_view name_of(ProductKind kind) {
  return info(kind).name;
}

std::optional<std::string> why_not_usable(ProductKind kind) {
  const ProductInfo needs = info(kind);
  if (auto reason = why_not_usable(needs.isa)) return reason;
  const std::vector<std::string>& features = cpu_features();
  if (needs.feature.empty() || std::find(features.begin(), features.end(), needs.feature) != features.end())
    return std::nullopt;
  return fmt::format("the processor has no {}", needs.feature);
}

double operations_per_second(ProductKind kind, ThreadPool& pool, Seconds at_least) {
  if (why_not_usable(kind)) return 0;
  constexpr std::int64_t kFirstRounds = 1000;  // some microseconds
  const probes::ProductLoop loop = loop_of(kind);
  const double rounds_per_second = rate(at_least, kFirstRounds, [&](std::int64_t rounds) {
    return on_every_thread(pool, [&](std::int64_t) { loop.run(rounds); });
  });
  return rounds_per_second * loop.operations * pool.size();
}

Seconds phase_round_trip(ThreadPool& pool, Seconds at_most) {
  constexpr std::size_t kOpClasses = 2000;
  std::vector<double> times;
  const TimePoint start = Clock::now();
  for (TimePoint begin = start; times.size() < kOpClasses && elapsed(start, begin) < at_most;) {
    pool.run(pool.size(), [](std::int64_t) {});
    const TimePoint end = Clock::now();
    times.push_back(elapsed(begin, end).value);
    begin = end;
  }
  return {statistics::median(times)};
}

}  // namespace assay
