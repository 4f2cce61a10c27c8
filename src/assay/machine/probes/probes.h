// Loops that load one resource of the processor and nothing else. Each instruction set gives its own, from a
// file with its own flags; call them only after the CPU check (machine/rooflines.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::probes {

// Reads `bytes` once, as 1, 2, 4 or 8 sequential streams side by side. The result depends on every byte, so
// that none is left unread.
using ReadLoop = std::uint64_t (*)(const std::byte* data, std::size_t bytes, int streams) noexcept;
inline constexpr std::size_t kReadStep = 4096;  // `bytes` is a multiple of it

struct ProductLoop {
  void (*run)(std::int64_t rounds) noexcept;
  double operations;  // in one round; a multiplication and an addition are two
};

struct Loops {
  ReadLoop read;
  ProductLoop float32, int8, bfloat16;  // run is null where the instruction set has none
  ProductLoop vnni = {};                // for int8, by an extension of AVX2 that not every processor has
};

namespace scalar {
Loops loops();
}
namespace avx2 {
Loops loops();
}
namespace avx512 {
Loops loops();
}
namespace amx {
Loops loops();
}

}  // namespace assay::probes
