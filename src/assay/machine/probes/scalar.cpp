// Reading memory with what every x86-64 processor has.
#include <emmintrin.h>

#include "assay/machine/probes/probes.h"

namespace assay::probes::scalar {

namespace {

struct Vec {
  __m128i v;
  static Vec load(const std::byte* p) { return {_mm_load_si128(reinterpret_cast<const __m128i*>(p))}; }
  friend Vec operator|(Vec a, Vec b) { return {_mm_or_si128(a.v, b.v)}; }
  std::uint64_t low() const { return static_cast<std::uint64_t>(_mm_cvtsi128_si64(v)); }
};

#include "assay/machine/probes/read_loop-inl.h"

}  // namespace

Loops loops() {
  return {read, {}, {}, {}};
}

}  // namespace assay::probes::scalar
