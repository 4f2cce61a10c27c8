// The rooflines of this machine: how fast at most it reads memory, multiplies, and wakes a thread. Probes are
// plain loops whose hot part holds no spill; they run on the caller's pool, so on the same processors as
// what they are compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/cpu.h"
#include "assay/base/thread_pool.h"
#include "assay/base/units.h"

namespace assay {

using MemoryRegions = std::vector<std::span<const std::byte>>;

// Reads the same memory again and again, of each piece every thread its own contiguous share: memory of the
// case that it bounds, which lies in the caches as that case left it, and a buffer of its own. The buffer
// stays allocated (huge pages where the system grants them), so that a probe can be run in turns with the
// case.
class ReadProbe {
 public:
  // `regions` must outlive the probe, are aligned to 64 bytes and are read but for what is left over of whole
  // steps of each thread. Throws Error when the memory for the buffer cannot be had.
  ReadProbe(Bytes buffer, ThreadPool& pool, MemoryRegions regions = {});
  ~ReadProbe();
  ReadProbe(const ReadProbe&) = delete;
  ReadProbe& operator=(const ReadProbe&) = delete;

  // Bytes per second of as many whole passes as `at_least` takes (one at least), each thread reading
  // `streams` (1, 2, 4 or 8) sequential streams side by side.
  double bytes_per_second(int streams, Seconds at_least);
  Bytes working_set() const;  // what is read: the buffer is rounded up to whole steps of each thread
  Bytes held() const;         // the buffer
  // What a probe of this many threads reads of some regions.
  static Bytes read_of(const MemoryRegions& regions, int threads);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The kinds of product a processor multiplies with.
enum class ProductKind {
  avx2_float32,
  avx512_float32,
  avx2_int8,        // vpmaddubsw, vpmaddwd
  avx2_vnni,        // vpdpbusd
  avx512_vnni,      // vpdpbusd
  avx512_bfloat16,  // vdpbf16ps
  amx_bfloat16,
  amx_int8,
};
inline constexpr ProductKind kAllProducts[] = {ProductKind::avx2_float32, ProductKind::avx512_float32,
                                               ProductKind::avx2_int8,    ProductKind::avx2_vnni,
                                               ProductKind::avx512_vnni,  ProductKind::avx512_bfloat16,
                                               ProductKind::amx_bfloat16, ProductKind::amx_int8};
std::string_view name_of(ProductKind kind);  // "avx512 float32 FMA"
// Why this machine cannot run it; none where it can.
std::optional<std::string> why_not_usable(ProductKind kind);

// Operations per second of all threads of the pool together; a multiplication and an addition are two. Vector
// loops stay in registers. Tile loops load each operand once per round from the nearest cache, as a product
// of matrices has to: their clock depends on it (probes/amx.cpp). 0 where it is not usable.
double operations_per_second(ProductKind kind, ThreadPool& pool, Seconds at_least);

// Median time of one phase of the pool that does nothing, one chunk per thread: over 2,000 phases, or as many
// as there is time for. How far apart the threads' processors are, which a hypervisor may change at any
// moment.
Seconds phase_round_trip(ThreadPool& pool, Seconds at_most = {0.2});

}  // namespace assay
