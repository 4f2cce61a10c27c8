// Probes of AMX: two tiles of each operand give four tiles of sums, enough to cover the latency of the unit.
// Everything from configuring the tiles to releasing them is one piece of assembler: the compiler knows
// neither the tiles nor that they would have to survive between two of its own.
#include <cstring>

#include "assay/measure/probes/probes.h"

namespace assay::probes::amx {

namespace {

struct TileConfiguration {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
static_assert(sizeof(TileConfiguration) == 64);

// Eight tiles of 16 rows of 64 bytes.
TileConfiguration full_tiles() {
  TileConfiguration tiles{};
  tiles.palette = 1;
  for (int i = 0; i < 8; ++i) {
    tiles.row_bytes[i] = 64;
    tiles.rows[i] = 16;
  }
  return tiles;
}

#define ASSAY_TILE_LOOP(instruction)                                                      \
  __asm__ volatile(                                                                       \
      "ldtilecfg %[tiles]\n\t"                                                            \
      ".irp n,4,5,6,7\n\t"                                                                \
      "tileloadd (%[data],%[stride],1), %%tmm\\n\n\t.endr\n\t"                            \
      ".irp n,0,1,2,3\n\ttilezero %%tmm\\n\n\t.endr\n\t"                                  \
      "1:\n\t" instruction " %%tmm6, %%tmm4, %%tmm0\n\t" instruction                      \
      " %%tmm7, %%tmm4, %%tmm1\n\t" instruction " %%tmm6, %%tmm5, %%tmm2\n\t" instruction \
      " %%tmm7, %%tmm5, %%tmm3\n\t"                                                       \
      "dec %[rounds]\n\t"                                                                 \
      "jnz 1b\n\t"                                                                        \
      "tilerelease"                                                                       \
      : [rounds] "+r"(rounds)                                                             \
      : [tiles] "m"(tiles), [data] "r"(data), [stride] "r"(kRowBytes)                     \
      : "cc", "memory")

constexpr std::int64_t kRowBytes = 64;

void run_bfloat16(std::int64_t rounds) noexcept {
  const TileConfiguration tiles = full_tiles();
  alignas(64) std::uint16_t data[16 * 32];
  for (std::uint16_t& value : data) value = 0x3c80;  // 2^-6
  ASSAY_TILE_LOOP("tdpbf16ps");
}

void run_int8(std::int64_t rounds) noexcept {
  const TileConfiguration tiles = full_tiles();
  alignas(64) std::uint8_t data[16 * 64];
  for (std::uint8_t& value : data) value = 3;
  ASSAY_TILE_LOOP("tdpbusd");
}

#undef ASSAY_TILE_LOOP

constexpr double kTileProducts = 16 * 16 * 2 * 4;  // of one round, for each element of a row of K

}  // namespace

Loops loops() {
  return {nullptr, {}, {run_int8, kTileProducts * 64}, {run_bfloat16, kTileProducts * 32}};
}

}  // namespace assay::probes::amx
