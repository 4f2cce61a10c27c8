// Probes of AMX: two tiles of each operand give four tiles of sums, enough to cover the latency of the unit.
// Everything from configuring the tiles to releasing them is one piece of assembler: the compiler knows
// neither the tiles nor that they would have to survive between two of its own.
#include <cstring>

#include "assay/machine/probes/probes.h"

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

// What a product of matrices does at best: with eight tiles no more than four sums are served by each two
// tiles of either operand, so every round loads four. They come from the nearest cache, at a KB each. The
// loads take no time of their own, but with operands that are numbers the processor clocks lower than over
// tiles that stay: a loop without them would be a roofline that no GEMM can reach (by a fifth on Sapphire
// Rapids).
#define ASSAY_TILE_LOOP(instruction)                                                      \
  __asm__ volatile(                                                                       \
      "ldtilecfg %[tiles]\n\t"                                                            \
      ".irp n,0,1,2,3\n\ttilezero %%tmm\\n\n\t.endr\n\t"                                  \
      "1:\n\t"                                                                            \
      "tileloadd (%[data],%[stride],1), %%tmm4\n\t"                                       \
      "tileloadd 1024(%[data],%[stride],1), %%tmm6\n\t"                                   \
      "tileloadd 2048(%[data],%[stride],1), %%tmm7\n\t" instruction                       \
      " %%tmm6, %%tmm4, %%tmm0\n\t"                                                       \
      "tileloadd 3072(%[data],%[stride],1), %%tmm5\n\t" instruction                       \
      " %%tmm7, %%tmm4, %%tmm1\n\t" instruction " %%tmm6, %%tmm5, %%tmm2\n\t" instruction \
      " %%tmm7, %%tmm5, %%tmm3\n\t"                                                       \
      "dec %[rounds]\n\t"                                                                 \
      "jnz 1b\n\t"                                                                        \
      "tilerelease"                                                                       \
      : [rounds] "+r"(rounds)                                                             \
      : [tiles] "m"(tiles), [data] "r"(data), [stride] "r"(kRowBytes)                     \
      : "cc", "memory")

constexpr std::int64_t kRowBytes = 64, kOperandBytes = 4 * 16 * kRowBytes;

// Bits as those of numbers are: of a linear congruential generator (Numerical Recipes, 7.1).
class Bits {
 public:
  std::uint32_t next() {
    state_ = state_ * 1664525 + 1013904223;
    return state_ >> 16;
  }

 private:
  std::uint32_t state_ = 1;
};

void run_bfloat16(std::int64_t rounds) noexcept {
  const TileConfiguration tiles = full_tiles();
  alignas(64) std::uint16_t data[kOperandBytes / 2];
  Bits bits;
  for (std::uint16_t& value : data)  // numbers of either sign, from 2^-7 to 2^-5
    value = static_cast<std::uint16_t>((bits.next() & 0x80ff) | 0x3c00);
  ASSAY_TILE_LOOP("tdpbf16ps");
}

void run_int8(std::int64_t rounds) noexcept {
  const TileConfiguration tiles = full_tiles();
  alignas(64) std::uint8_t data[kOperandBytes];
  Bits bits;
  for (std::uint8_t& value : data) value = static_cast<std::uint8_t>(bits.next());
  ASSAY_TILE_LOOP("tdpbssd");
}

#undef ASSAY_TILE_LOOP

constexpr double kTileProducts = 16 * 16 * 2 * 4;  // in one round, for each element of a row of K

}  // namespace

Loops loops() {
  return {nullptr, {}, {run_int8, kTileProducts * 64}, {run_bfloat16, kTileProducts * 32}};
}

}  // namespace assay::probes::amx
