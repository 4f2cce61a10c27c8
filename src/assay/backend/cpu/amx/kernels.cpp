// AMX kernels: bfloat16 and int8 products on tiles; the float32 kernels of AVX-512 with its newer
// instructions. Compiled with its own flags, called only after the CPU check.
#include "assay/backend/cpu/kernels.h"

#include <immintrin.h>

extern "C" double log(double) noexcept;

// What is called per vector: a call costs as much as the work.
#define ASSAY_INLINE [[gnu::always_inline]] inline

namespace assay::cpu::amx {

namespace {

#include "assay/backend/cpu/simd/vec512.h"

double log_of(double x) {
  return ::log(x);
}

#include "assay/backend/cpu/simd/float32_chunk512.h"

#include "assay/backend/cpu/simd/float32_kernels.h"
#include "assay/backend/cpu/simd/quantized_kernels.h"
#include "assay/backend/cpu/simd/store_bfloat16.h"

// Own assembly: g++ 12 declares the operand of its _tile_loadconfig as 8 bytes and drops the stores to the
// rest, and its tile loads do not say that they read memory.
#define ASSAY_TILE_LOAD(tile, address, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(address), "r"(std::int64_t{stride}) : "memory")
#define ASSAY_TILE_LOAD_ONCE(tile, address, stride)                                               \
  __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile ::"r"(address), "r"(std::int64_t{stride}) \
                   : "memor"                                                                      \
                     "y")
#define ASSAY_TILE_STORE(tile, address, stride)                                                     \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(address), "r"(std::int64_t{stride}) \
                   : "memory")
#define ASSAY_TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::)
// Within assembler with a constant operand is_int8: sums += rows * weights, of bfloat16 or of signed bytes.
#define ASSAY_PRODUCT(sums, rows, weights)                                    \
  ".if %c[is_int8]\n\ttdpbssd %%tmm" #weights ", %%tmm" #rows ", %%tmm" #sums \
  "\n\t.else\n\ttdpbf16ps %%tmm" #weights ", %%tmm" #rows ", %%tmm" #sums "\n\t.endif\n\t"
#define ASSAY_TILE_PRODUCT(sums, rows, weights) \
  __asm__ volatile(ASSAY_PRODUCT(sums, rows, weights)::[is_int8] "i"(kIsInt8))
#define ASSAY_BFLOAT16_PRODUCT(sums, rows, weights) \
  __asm__ volatile("tdpbf16ps %%tmm" #weights ", %%tmm" #rows ", %%tmm" #sums ::)

// The panel that a register walks, 2 KB ahead: a line each of a step, since the processor alone does not keep
// up with memory.
// clang-format off
#define ASSAY_FETCH_LINES(at, panel) \
  "prefetcht0 64*(32+" at ")(%[" panel "])\n\tprefetcht0 64*(33+" at ")(%[" panel "])\n\t" \
  "prefetcht0 64*(34+" at ")(%[" panel "])\n\tprefetcht0 64*(35+" at ")(%[" panel "])\n\t"
#define ASSAY_FETCH_STEP(panel) \
  ASSAY_FETCH_LINES("0", panel) ASSAY_FETCH_LINES("4", panel) \
  ASSAY_FETCH_LINES("8", panel) ASSAY_FETCH_LINES("12", panel)
// clang-format on

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[8] = {}, unused_row_bytes[8] = {};
  std::uint8_t rows[8] = {}, unused_rows[8] = {};
};
static_assert(sizeof(TileConfig) == 64);

// What this thread's tiles are set up for; setting them up costs a tenth of a microsecond.
thread_local std::int64_t configured_rows = 0;

// Sums in tiles 0 to 3, activations in 4, of `rows` rows each; weights in 5 to 7. Of 32 rows, both halves in
// full tiles, 5 holds the activations of the second.
void configure(std::int64_t rows) {
  if (configured_rows == rows) return;
  configured_rows = rows;
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = tile < 5 ? static_cast<std::uint8_t>(rows) : std::uint8_t{16};
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
}
void release() {
  configured_rows = 0;
  __asm__ volatile("tilerelease" ::: "memory");
}

constexpr std::int64_t kTileBytes = 64;  // from one row of a tile to the next
constexpr std::int64_t kLane = 16;       // floats of a row of sums

// Weights of a plane of a panel: 1 KB per step of 32 inputs, or of 64 in int8; `next` elements to the next
// panel.
struct WeightSteps {
  const std::uint16_t* data;
  std::int64_t next;
  WeightSteps from(std::int64_t step) const { return {data + step * kTileElements, next}; }
};
// 16 rows of a plane of tiles, the next 16 right behind; `strip` elements to the next step.
struct RowSteps {
  const std::uint16_t* data;
  std::int64_t strip;
  RowSteps from(std::int64_t step) const { return {data + step * strip, strip}; }
};
std::int64_t steps_of(const LinearArgs& args) {
  const std::int64_t columns = args.packing == Packing::int8 ? kInt8Columns : kTileColumns;
  return (args.k + columns - 1) / columns;
}
WeightSteps weight_steps(const LinearArgs& args, std::int64_t panel, int plane) {
  const std::int64_t per_plane = steps_of(args) * kTileElements;
  return {static_cast<const std::uint16_t*>(args.w) + (panel * args.planes + plane) * per_plane,
          args.planes * per_plane};
}
RowSteps row_steps(const LinearArgs& args, std::int64_t row, int plane) {
  return {args.x_tiles.plane(plane) + row * kTileColumns, args.x_tiles.strip()};
}

// The loops over the steps are assembler as a whole: between two statements of it compilers put moves and
// spills that cost as much as the products.

// Up to 16 rows times 4 panels: four streams of weights.
void add_one_by_four(const RowSteps& x, const WeightSteps& w, std::int64_t steps) {
  constexpr bool kIsInt8 = false;
  const std::uint16_t *a = x.data, *b0 = w.data, *b1 = b0 + w.next, *b2 = b1 + w.next, *b3 = b2 + w.next;
  __asm__ volatile(
      "1:\n\t"
      "tileloadd (%[a],%[row],1), %%tmm4\n\t"
      "tileloadd (%[b0],%[row],1), %%tmm5\n\t"
      ASSAY_FETCH_STEP("b0")
      ASSAY_PRODUCT(0, 4, 5)
      "tileloadd (%[b1],%[row],1), %%tmm6\n\t"
      ASSAY_FETCH_STEP("b1")
      ASSAY_PRODUCT(1, 4, 6)
      "tileloadd (%[b2],%[row],1), %%tmm7\n\t"
      ASSAY_FETCH_STEP("b2")
      ASSAY_PRODUCT(2, 4, 7)
      "tileloadd (%[b3],%[row],1), %%tmm5\n\t"
      ASSAY_FETCH_STEP("b3")
      ASSAY_PRODUCT(3, 4, 5)
      "add %[strip], %[a]\n\tadd $1024, %[b0]\n\tadd $1024, %[b1]\n\tadd $1024, %[b2]\n\tadd $1024, %[b3]\n\t"
      "dec %[steps]\n\t"
      "jnz 1b"
      : [a] "+r"(a), [b0] "+r"(b0), [b1] "+r"(b1), [b2] "+r"(b2), [b3] "+r"(b3), [steps] "+r"(steps)
      : [row] "r"(kTileBytes), [strip] "r"(2 * x.strip), [is_int8] "i"(kIsInt8)
      : "cc", "memory");
}
// Up to 16 rows times 1 panel: what is left of a group.
void add_one_by_one(const RowSteps& x, const WeightSteps& w, std::int64_t steps) {
  constexpr bool kIsInt8 = false;
  for (std::int64_t step = 0; step < steps; ++step) {
    ASSAY_TILE_LOAD(4, x.data + step * x.strip, kTileBytes);
    ASSAY_TILE_LOAD(5, w.data + step * kTileElements, kTileBytes);
    ASSAY_TILE_PRODUCT(0, 4, 5);
  }
}
// 32 rows times 2 panels: each tile loaded serves two products. The rows pass the nearest cache by
// (tileloaddt1), where the panels are to stay for the rows that follow. Meanwhile 128 bytes a step of the
// panels, and 256 of a strip of the rows, that come next are fetched into the second-level cache.
constexpr std::int64_t kFetchedElements = 128;
struct Ahead {
  const std::uint16_t *panels, *rows;
  Ahead from(std::int64_t step, std::int64_t strip) const {
    return {panels + step * kFetchedElements, rows + step * strip};
  }
};
template <bool kIsInt8>
void add_two_by_two(const RowSteps& x, const WeightSteps& w, std::int64_t steps, const Ahead& ahead) {
  const std::uint16_t *a = x.data, *b0 = w.data, *b1 = b0 + w.next;
  const std::uint16_t *panels = ahead.panels, *rows = ahead.rows;
  __asm__ volatile(
      "1:\n\t"
      "tileloaddt1 (%[a],%[row],1), %%tmm4\n\t"
      "tileloadd (%[b0],%[row],1), %%tmm6\n\t"
      "tileloadd (%[b1],%[row],1), %%tmm7\n\t"
      ASSAY_PRODUCT(0, 4, 6)
      "tileloaddt1 1024(%[a],%[row],1), %%tmm5\n\t"
      ASSAY_PRODUCT(1, 4, 7)
      "prefetcht1 (%[panels])\n\tprefetcht1 64(%[panels])\n\tprefetcht1 128(%[panels])\n\tprefetcht1 192(%[panels])\n\t"
      "prefetcht1 (%[rows])\n\tprefetcht1 64(%[rows])\n\t"
      "prefetcht1 128(%[rows])\n\tprefetcht1 192(%[rows])\n\t"
      ASSAY_PRODUCT(2, 5, 6)
      ASSAY_PRODUCT(3, 5, 7)
      "add %[strip], %[a]\n\tadd $1024, %[b0]\n\tadd $1024, %[b1]\n\t"
      "add $256, %[panels]\n\tadd %[strip], %[rows]\n\t"
      "dec %[steps]\n\t"
      "jnz 1b"
      :
      [a] "+r"(a), [b0] "+r"(b0), [b1] "+r"(b1), [panels] "+r"(panels), [rows] "+r"(rows), [steps] "+r"(steps)
      : [row] "r"(kTileBytes), [strip] "r"(2 * x.strip), [is_int8] "i"(kIsInt8)
      : "cc", "memory");
}
// The same where no rows follow: the panels come from memory, fetched 2 KB ahead.
template <bool kIsInt8>
void add_two_by_two_streaming(const RowSteps& x, const WeightSteps& w, std::int64_t steps) {
  const std::uint16_t *a = x.data, *b0 = w.data, *b1 = b0 + w.next;
  __asm__ volatile(
      "1:\n\t"
      "tileloadd (%[a],%[row],1), %%tmm4\n\t"
      "tileloadd (%[b0],%[row],1), %%tmm6\n\t"
      ASSAY_PRODUCT(0, 4, 6)
      ASSAY_FETCH_STEP("b0")
      "tileloadd (%[b1],%[row],1), %%tmm7\n\t"
      ASSAY_PRODUCT(1, 4, 7)
      ASSAY_FETCH_STEP("b1")
      "tileloadd 1024(%[a],%[row],1), %%tmm5\n\t"
      ASSAY_PRODUCT(2, 5, 6)
      ASSAY_PRODUCT(3, 5, 7)
      "add %[strip], %[a]\n\tadd $1024, %[b0]\n\tadd $1024, %[b1]\n\t"
      "dec %[steps]\n\t"
      "jnz 1b"
      : [a] "+r"(a), [b0] "+r"(b0), [b1] "+r"(b1), [steps] "+r"(steps)
      : [row] "r"(kTileBytes), [strip] "r"(2 * x.strip), [is_int8] "i"(kIsInt8)
      : "cc", "memory");
}
template <bool kIsInt8>
void add_two_by_one(const RowSteps& x, const WeightSteps& w, std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step) {
    ASSAY_TILE_LOAD(4, x.data + step * x.strip, kTileBytes);
    ASSAY_TILE_LOAD(5, x.data + step * x.strip + kTileElements, kTileBytes);
    ASSAY_TILE_LOAD(6, w.data + step * kTileElements, kTileBytes);
    ASSAY_TILE_PRODUCT(0, 4, 6);
    ASSAY_TILE_PRODUCT(2, 5, 6);
  }
}
void clear_sums() {
  ASSAY_TILE_ZERO(0);
  ASSAY_TILE_ZERO(1);
  ASSAY_TILE_ZERO(2);
  ASSAY_TILE_ZERO(3);
}

using AddProducts = void (*)(const RowSteps& x, const WeightSteps& w, std::int64_t steps);

// All products of planes that count, the smallest first: their sum is added to the largest last.
void add_planes(const LinearArgs& args, std::int64_t row, std::int64_t panel, AddProducts add) {
  const std::int64_t steps = steps_of(args);
  for (int order = args.planes - 1; order >= 0; --order)
    for (int i = 0; i <= order; ++i)
      add(row_steps(args, row, i), weight_steps(args, panel, order - i), steps);
}

// At most 16 rows: weights stream from memory, four panels side by side.
void linear_few_rows(const LinearArgs& args, std::int64_t first_row, std::int64_t rows) {
  alignas(64) float block[kTileRows * kGroup * kPanel];
  constexpr std::int64_t kStride = kGroup * kPanel, kStrideBytes = kStride * sizeof(float);
  configure(rows);
  const std::int64_t last = args.first_panel + args.panels;
  for (std::int64_t panel = args.first_panel; panel < last;) {
    const std::int64_t panels = last - panel >= kGroup ? kGroup : 1, first_output = panel * kPanel;
    clear_sums();
    if (panels == kGroup) {
      add_planes(args, first_row, panel, add_one_by_four);
      ASSAY_TILE_STORE(0, block, kStrideBytes);
      ASSAY_TILE_STORE(1, block + kLane, kStrideBytes);
      ASSAY_TILE_STORE(2, block + 2 * kLane, kStrideBytes);
      ASSAY_TILE_STORE(3, block + 3 * kLane, kStrideBytes);
    } else {
      add_planes(args, first_row, panel, add_one_by_one);
      ASSAY_TILE_STORE(0, block, kStrideBytes);
    }
    const std::int64_t left = args.n - first_output;
    finish_block(args, block, kStride, first_row, rows, first_output,
                 left < panels * kPanel ? left : panels * kPanel);
    panel += panels;
  }
  release();
}

// One row on the vector units, which read memory faster than tile loads do (bfloat16 decode +6 %), to the
// bits of the tile products: of 32 inputs the even and the odd ones are two chains of multiply-adds from
// zero, their sum is added to the sums so far, and numbers below the normal ones count as zero (Intel's
// manual, TDPBF16PS).
template <int Panels>
void multiply_row(const RowSteps& x, const WeightSteps& w, std::int64_t steps, float* sums) {
  const auto low = [](__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); };
  const auto high = [](__m512i pairs) {
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
  };
  Vec sum[Panels];
  for (Vec& v : sum) v = Vec::set(0.0F);
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::uint16_t* inputs = x.data + step * x.strip;
    const std::uint16_t* weights = w.data + step * kTileElements;
    Vec even[Panels], odd[Panels];
    for (int i = 0; i < Panels; ++i) even[i] = odd[i] = Vec::set(0.0F);
#pragma GCC unroll 4
    for (std::int64_t pair = 0; pair < kTileColumns / 2; ++pair) {
      std::int32_t bits = 0;
      __builtin_memcpy(&bits, inputs + 2 * pair, sizeof(bits));
      const __m512i two = _mm512_set1_epi32(bits);
      Vec first{low(two)}, second{high(two)};
      first.keep();
      second.keep();
      for (int i = 0; i < Panels; ++i) {
        const std::uint16_t* from = weights + i * w.next + pair * 2 * kPanel;
        fetch_ahead(from);
        const __m512i pairs = _mm512_loadu_si512(from);
        even[i] = Vec::fma(first, Vec{low(pairs)}, even[i]);
        odd[i] = Vec::fma(second, Vec{high(pairs)}, odd[i]);
      }
    }
    for (int i = 0; i < Panels; ++i) sum[i] = Vec::add(sum[i], Vec::add(even[i], odd[i]));
  }
  for (int i = 0; i < Panels; ++i) sum[i].store(sums + i * kPanel);
}

// Numbers below the normal ones are zero, as tile products have it, while one of these lives.
class FlushesDenormals {
 public:
  FlushesDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushesDenormals() { _mm_setcsr(before_); }
  FlushesDenormals(const FlushesDenormals&) = delete;
  FlushesDenormals& operator=(const FlushesDenormals&) = delete;

 private:
  unsigned before_;
};

void linear_one_row(const LinearArgs& args, std::int64_t row) {
  alignas(64) float sums[kGroup * kPanel];
  const std::int64_t last = args.first_panel + args.panels;
  for (std::int64_t panel = args.first_panel; panel < last;) {
    const std::int64_t panels = last - panel >= kGroup ? kGroup : 1, first_output = panel * kPanel;
    {
      const FlushesDenormals flushes;
      const auto multiply = panels == kGroup ? multiply_row<kGroup> : multiply_row<1>;
      multiply(row_steps(args, row, 0), weight_steps(args, panel, 0), steps_of(args), sums);
    }
    const std::int64_t left = args.n - first_output;
    finish_block(args, sums, kGroup * kPanel, row, 1, first_output,
                 left < panels * kPanel ? left : panels * kPanel);
    panel += panels;
  }
}

// Inputs go through in chunks: a pair of panels fills half of the nearest cache (48 KB) and stays there while
// all rows pass over it; sums are loaded and stored between them.
constexpr std::int64_t kChunkSteps = 12;
// Panels of a turn. Inputs that stay in the second-level cache as a whole are gone through with each pair of
// panels, of others a chunk serves many panels while it is near.
constexpr std::int64_t kNearBytes = std::int64_t{1} << 20, kNearTurnPanels = 2, kTurnPanels = 16;
constexpr std::int64_t kBlockRows = 2 * kTileRows, kSums = kTileRows * kPanel, kBlockSums = 4 * kSums;

// Some inputs of one product of planes.
struct Segment {
  int x_plane, w_plane;
  std::int64_t first_step, steps;
  bool is_first, is_last;
};

// Sums of 32 rows and two panels, [row / 16][panel][16][16], on their way to the outputs.
struct Finished {
  const float* sums;  // null for none
  std::int64_t row, panel;
};

void load_sums(const float* sums) {
  ASSAY_TILE_LOAD(0, sums, kTileBytes);
  ASSAY_TILE_LOAD(1, sums + kSums, kTileBytes);
  ASSAY_TILE_LOAD(2, sums + 2 * kSums, kTileBytes);
  ASSAY_TILE_LOAD(3, sums + 3 * kSums, kTileBytes);
}
void store_sums(float* sums) {
  ASSAY_TILE_STORE(0, sums, kTileBytes);
  ASSAY_TILE_STORE(1, sums + kSums, kTileBytes);
  ASSAY_TILE_STORE(2, sums + 2 * kSums, kTileBytes);
  ASSAY_TILE_STORE(3, sums + 3 * kSums, kTileBytes);
}

// Sums of a tile of int8 products, less what the row's zero point adds to them.
ASSAY_INLINE Vec exact_sums(const Int8Args& args, Vec sums, std::int64_t row, std::int64_t column) {
  Dot exact{_mm512_castps_si512(sums.v)};
  if (args.x_zero != nullptr) exact = exact.less(Dot::all(args.x_zero[row]), Dot::load(args.w_sums + column));
  return exact.floats();
}

// Outputs of `count` rows of a block from `first` on, of any kind.
void finish_any(const LinearArgs& args, const Int8Args* int8, const Finished& block, std::int64_t first,
                std::int64_t count) {
  const std::int64_t column = block.panel * kPanel, left = args.n - column;
  const __mmask16 low = left < kPanel ? Vec::mask(left) : __mmask16{0xffff};
  const __mmask16 high = left >= 2 * kPanel ? __mmask16{0xffff}
                         : left <= kPanel   ? __mmask16{0}
                                            : Vec::mask(left - kPanel);
  Vec bias[2] = {Vec::set(0.0F), Vec::set(0.0F)};
  if (args.bias != nullptr) {
    bias[0].v = _mm512_maskz_loadu_ps(low, args.bias + column);
    bias[1].v = _mm512_maskz_loadu_ps(high, args.bias + column + kPanel);
  }
  for (std::int64_t row = first; row < first + count; ++row) {
    const float* sums = block.sums + row / kTileRows * 2 * kSums + row % kTileRows * kPanel;
    Vec value[2] = {Vec::load(sums), Vec::load(sums + kSums)};
    if (int8 != nullptr)
      for (int i = 0; i < 2; ++i)
        if (i == 0 || left > kPanel)
          value[i] = int8_value(*int8, exact_sums(*int8, value[i], block.row + row, column + i * kPanel),
                                block.row + row, column + i * kPanel);
    if (args.bias != nullptr)
      for (int i = 0; i < 2; ++i) value[i] = Vec::add(value[i], bias[i]);
    for (Vec& v : value) v = activate(args.activation, v, args.is_rounded);
    if (args.y != nullptr) {
      float* y = args.y + (block.row + row) * args.y_stride + column;
      if (args.adds) {
        value[0] = Vec::add(Vec{_mm512_maskz_loadu_ps(low, y)}, value[0]);
        value[1] = Vec::add(Vec{_mm512_maskz_loadu_ps(high, y + kPanel)}, value[1]);
      }
      _mm512_mask_storeu_ps(y, low, value[0].v);
      _mm512_mask_storeu_ps(y + kPanel, high, value[1].v);
    }
    if (args.y_tiles.data == nullptr) continue;
    if (args.y_tiles.planes == 1 && left >= 2 * kPanel) {  // the pair is one row of a tile: panels are even
      _mm512_storeu_si512(args.y_tiles.data + args.y_tiles.offset(block.row + row, column),
                          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(value[1].v, value[0].v)));
      continue;
    }
    store_tiles(args.y_tiles, block.row + row, column, value[0], left < kPanel ? left : kPanel);
    if (left > kPanel)
      store_tiles(args.y_tiles, block.row + row, column + kPanel, value[1],
                  left < 2 * kPanel ? left - kPanel : kPanel);
  }
}

// The same of whole panels, which is nearly all: what does not change from row to row is in registers, and
// two rows go side by side.
template <bool kIsInt8, Activation kActivation, bool kIsRounded>
void finish_whole(const LinearArgs& args, const Int8Args* int8, const Finished& block, std::int64_t first,
                  std::int64_t count) {
  constexpr int kRows = 2;
  const std::int64_t column = block.panel * kPanel, row = block.row + first;
  const bool has_bias = args.bias != nullptr, has_floats = args.y != nullptr, adds = args.adds;
  const bool has_tiles = args.y_tiles.data != nullptr;
  Vec bias[2] = {Vec::set(0.0F), Vec::set(0.0F)}, unit[2] = {};
  Dot weight_sums[2] = {};
  const float* x_absmax = nullptr;
  const std::int32_t* x_zero = nullptr;
  for (int i = 0; i < 2; ++i) {
    if (has_bias) bias[i] = Vec::load(args.bias + column + i * kPanel);
    if (!kIsInt8) continue;
    unit[i] = Vec::load(int8->w_absmax + column + i * kPanel);
    weight_sums[i] = Dot::load(int8->w_sums + column + i * kPanel);
  }
  if (kIsInt8) {
    x_absmax = int8->x_absmax + row;
    x_zero = int8->x_zero == nullptr ? nullptr : int8->x_zero + row;
  }
  const float* sums = block.sums + first / kTileRows * 2 * kSums + first % kTileRows * kPanel;
  const std::int64_t y_stride = args.y_stride;
  float* y = has_floats ? args.y + row * y_stride + column : nullptr;
  std::uint16_t* tiles = has_tiles ? args.y_tiles.data + args.y_tiles.offset(row, column) : nullptr;
  for (std::int64_t at = 0; at < count; at += kRows) {
    Vec value[kRows][2];
    for (int r = 0; r < kRows; ++r)
      for (int i = 0; i < 2; ++i) {
        Vec v = Vec::load(sums + i * kSums + (at + r) * kPanel);
        if (kIsInt8) {
          Dot exact{_mm512_castps_si512(v.v)};
          if (x_zero != nullptr) exact = exact.less(Dot::all(x_zero[at + r]), weight_sums[i]);
          v = Vec::mul(exact.floats(), Vec::mul(Vec::set(x_absmax[at + r] * kInt8Unit), unit[i]));
        }
        if (has_bias) v = Vec::add(v, bias[i]);
        value[r][i] = v;
      }
    for (auto& of_row : value)
      for (Vec& v : of_row) v = activate(kActivation, v, kIsRounded);
    for (int r = 0; r < kRows; ++r) {
      if (has_floats) {
        float* out = y + (at + r) * y_stride;
        for (int i = 0; i < 2; ++i) {
          if (adds) value[r][i] = Vec::add(Vec::load(out + i * kPanel), value[r][i]);
          value[r][i].store(out + i * kPanel);
        }
      }
      if (has_tiles)  // the pair is one row of a tile: panels are even
        _mm512_storeu_si512(tiles + (at + r) * kTileColumns,
                            reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(value[r][1].v, value[r][0].v)));
    }
  }
}

// Rows of a block from an even one on within 16.
template <bool kIsInt8, Activation kActivation, bool kIsRounded>
ASSAY_INLINE void finish_some(const LinearArgs& args, const Int8Args* int8, const Finished& block,
                              std::int64_t first, std::int64_t count) {
  const bool is_whole = args.n - block.panel * kPanel >= 2 * kPanel && args.y_tiles.planes <= 1 &&
                        (!kIsInt8 || int8->outlier_count == 0);
  if (is_whole)
    finish_whole<kIsInt8, kActivation, kIsRounded>(args, int8, block, first, count);
  else
    finish_any(args, int8, block, first, count);
}

// One pass: rows [first_row, first_row + rows), a multiple of 32, at most kPassRows, by the panels of a call,
// the first of an even number.
template <bool kIsInt8>
class TilePass {
 public:
  TilePass(const LinearArgs& args, const Int8Args* int8, std::int64_t first_row, std::int64_t rows)
      : args_(args), int8_(int8), first_row_(first_row), rows_(rows), steps_(steps_of(args)) {}

  // Takes panels in turns. The inputs of a turn go through in segments, between which its sums are held.
  template <Activation kActivation, bool kIsRounded>
  void run() {
    const bool is_whole = args_.planes == 1 && (steps_ <= kChunkSteps || rows_ == kBlockRows);
    const std::int64_t turn = is_whole                                                   ? args_.panels
                              : rows_ * steps_ * args_.planes * kTileBytes <= kNearBytes ? kNearTurnPanels
                                                                                         : kTurnPanels;
    alignas(64) float sums[kPassRows * kTurnPanels * kPanel];
    for (first_ = 0; first_ < args_.panels; first_ = end_) {
      end_ = args_.panels - first_ < turn ? args_.panels : first_ + turn;
      if (is_whole)
        run_segment<kActivation, kIsRounded>({0, 0, 0, steps_, true, true}, nullptr);
      else
        run_turn<kActivation, kIsRounded>(sums);
    }
    finish_last<kActivation, kIsRounded>();
  }

 private:
  template <Activation kActivation, bool kIsRounded>
  ASSAY_INLINE void run_turn(float* sums) {
    for (int order = args_.planes - 1; order >= 0; --order)
      for (int i = 0; i <= order; ++i)
        for (std::int64_t step = 0; step < steps_; step += kChunkSteps) {
          const bool is_end = step + kChunkSteps >= steps_;
          run_segment<kActivation, kIsRounded>(
              {i, order - i, step, is_end ? steps_ - step : kChunkSteps,
               order == args_.planes - 1 && i == 0 && step == 0, order == 0 && is_end},
              sums);
        }
  }
  template <Activation kActivation, bool kIsRounded>
  void run_segment(const Segment& segment, float* sums) {
    for (std::int64_t i = first_; i < end_; i += 2)
      for (std::int64_t row = 0; row < rows_; row += kBlockRows)
        add_block<kActivation, kIsRounded>(
            segment, i, row,
            sums + ((i - first_) / 2 * (kPassRows / kBlockRows) + row / kBlockRows) * kBlockSums);
  }

  // What comes next: of the panels a share with each block of rows, of the rows a share with each panel.
  Ahead ahead_of(const Segment& segment, const RowSteps& x, const WeightSteps& w, std::int64_t i,
                 std::int64_t row) const {
    const std::int64_t all = segment.steps * kTileElements;
    const std::uint16_t* panels = i + 2 < end_      ? w.data + 2 * w.next
                                  : segment.is_last ? w.from(-segment.first_step).data + 2 * w.next
                                                    : w.data - (i - first_) * w.next + all;
    const std::int64_t at = row / kBlockRows * segment.steps * kFetchedElements % (2 * all);
    return {panels + (at < all ? at : w.next + at - all),
            segment.is_last ? x.data : x.from(segment.steps).data + i / 2 * 128 % (2 * kTileElements)};
  }

  template <Activation kActivation, bool kIsRounded>
  ASSAY_INLINE void finish_last() const {
    for (std::int64_t row = 0; last_.sums != nullptr && row < kBlockRows; row += kTileRows)
      finish_some<kIsInt8, kActivation, kIsRounded>(args_, int8_, last_, row, kTileRows);
  }

  template <Activation kActivation, bool kIsRounded>
  ASSAY_INLINE void add_block(const Segment& segment, std::int64_t i, std::int64_t row, float* sums) {
    const WeightSteps w =
        weight_steps(args_, args_.first_panel + i, segment.w_plane).from(segment.first_step);
    const RowSteps x = row_steps(args_, first_row_ + row, segment.x_plane).from(segment.first_step);
    if (segment.is_first)
      clear_sums();
    else
      load_sums(sums);
    const bool has_two = i + 1 < args_.panels;
    if (!segment.is_last) {
      if (has_two)
        add_two_by_two<kIsInt8>(x, w, segment.steps, ahead_of(segment, x, w, i, row));
      else
        add_two_by_one<kIsInt8>(x, w, segment.steps);
      store_sums(sums);
      return;
    }
    const Finished next{scratch_[is_odd_ ? 1 : 0], first_row_ + row, args_.first_panel + i};
    if (!has_two) {
      add_two_by_one<kIsInt8>(x, w, segment.steps);
      finish_last<kActivation, kIsRounded>();
    } else {
      // The vector units finish the block before while the tiles of this one are summed.
      const Ahead ahead = ahead_of(segment, x, w, i, row);
      const bool streams = rows_ == kBlockRows;
      for (std::int64_t slice = 0; slice < kSlices; ++slice) {
        const std::int64_t begin = segment.steps * slice / kSlices,
                           end = segment.steps * (slice + 1) / kSlices;
        if (end > begin && streams)
          add_two_by_two_streaming<kIsInt8>(x.from(begin), w.from(begin), end - begin);
        else if (end > begin)
          add_two_by_two<kIsInt8>(x.from(begin), w.from(begin), end - begin, ahead.from(begin, x.strip));
        fetch_outputs(next, slice * (kBlockRows / kSlices), kBlockRows / kSlices);
        if (last_.sums != nullptr)
          finish_some<kIsInt8, kActivation, kIsRounded>(args_, int8_, last_, slice * (kBlockRows / kSlices),
                                                        kBlockRows / kSlices);
      }
    }
    store_sums(scratch_[is_odd_ ? 1 : 0]);
    last_ = next;
    is_odd_ = !is_odd_;
  }

  // Rows of outputs, to be written soon: they lie too far apart to be foreseen by the processor, and a store
  // that waits for its line holds up the loads of tiles.
  ASSAY_INLINE void fetch_outputs(const Finished& block, std::int64_t first, std::int64_t count) const {
    for (std::int64_t row = block.row + first; row < block.row + first + count; ++row) {
      if (args_.y != nullptr) {
        const float* y = args_.y + row * args_.y_stride + block.panel * kPanel;
        fetch_to_write(y);
        fetch_to_write(y + kPanel);
      }
      if (args_.y_tiles.data != nullptr)
        fetch_to_write(args_.y_tiles.data + args_.y_tiles.offset(row, block.panel * kPanel));
    }
  }
  static void fetch_to_write(const void* line) { __asm__ volatile("prefetchw (%0)" ::"r"(line)); }

  static constexpr std::int64_t kSlices = 16;
  LinearArgs args_;
  const Int8Args* int8_;
  std::int64_t first_row_, rows_, steps_;
  std::int64_t first_ = 0, end_ = 0;  // the panels of this turn, from the first of the call
  alignas(64) float scratch_[2][kBlockSums];
  Finished last_{nullptr, 0, 0};
  bool is_odd_ = false;
};

template <bool kIsInt8>
void run_pass(TilePass<kIsInt8> pass, Activation activation, bool is_rounded) {
  if (is_rounded && activation == Activation::gelu_tanh)
    return pass.template run<Activation::gelu_tanh, true>();
  switch (activation) {
    case Activation::none:
      return pass.template run<Activation::none, false>();
    case Activation::relu:
      return pass.template run<Activation::relu, false>();
    case Activation::silu:
      return pass.template run<Activation::silu, false>();
    case Activation::tanh:
      return pass.template run<Activation::tanh, false>();
    case Activation::gelu_tanh:
      return pass.template run<Activation::gelu_tanh, false>();
    case Activation::gelu_erf:
      return pass.template run<Activation::gelu_erf, false>();
    case Activation::gelu_quick:
      return pass.template run<Activation::gelu_quick, false>();
  }
}

// The rows that come in whole blocks; returns how many those are.
template <bool kIsInt8>
std::int64_t multiply_blocks(const LinearArgs& args, const Int8Args* int8) {
  const std::int64_t whole = args.rows / kBlockRows * kBlockRows;
  if (whole == 0) return 0;
  configure(kTileRows);
  for (std::int64_t row = 0; row < whole; row += kPassRows)
    run_pass(TilePass<kIsInt8>(args, int8, row, whole - row < kPassRows ? whole - row : kPassRows),
             args.activation, args.is_rounded);
  release();
  return whole;
}

void linear_tiles(const LinearArgs& args) noexcept {
  for (std::int64_t row = multiply_blocks<false>(args, nullptr); row < args.rows; row += kTileRows) {
    const std::int64_t rows = args.rows - row < kTileRows ? args.rows - row : kTileRows;
    if (rows == 1 && args.planes == 1)
      linear_one_row(args, row);
    else
      linear_few_rows(args, row, rows);
  }
}

// Whole blocks of rows on tiles, what is left by VNNI: the same exact sums.
void linear_int8_tiles(const Int8Args& args) noexcept {
  const std::int64_t done = multiply_blocks<true>(args.to, &args);
  if (done == args.to.rows) return;
  Int8Args rest = args;
  rest.to.rows -= done;
  rest.x_absmax += done;
  if (rest.x_zero != nullptr) rest.x_zero += done;
  rest.to.x += done * rest.to.x_stride;
  rest.to.x_tiles.data += rest.to.x_tiles.offset(done, 0);
  if (rest.to.y != nullptr) rest.to.y += done * rest.to.y_stride;
  if (rest.to.y_tiles.data != nullptr) rest.to.y_tiles.data += rest.to.y_tiles.offset(done, 0);
  linear_int8(rest);
}

#include "assay/backend/cpu/amx/attention.h"

void end_attending() noexcept {
  if (configured_rows != 0) release();
}

}  // namespace

void fill(KernelTable& table) {
  table.linear = linear;
  table.linear_tiles = linear_tiles;
  table.norm = norm;
  table.attend = attend;
  table.attend_bfloat16 = attend_bfloat16_tiles;
  table.attend_int8 = attend_int8;
  table.end_attending = end_attending;
  table.store_int8 = store_int8;
  table.store_bfloat16 = store_bfloat16_tiles;
  table.quantize = quantize;
  table.linear_int8 = linear_int8_tiles;
  table.expand = expand;
  table.linear_four_bit = linear_four_bit;
  table.quantize_groups = quantize_groups;
  table.linear_coded_inputs = linear_coded_inputs;
  table.argmax = argmax;
  table.log_sum_exp = log_sum_exp;
  table.linear_tiles_origin = table.attend_bfloat16_origin = table.store_origin = table.int8_origin = "amx";
  table.uses_tiles = true;
}

}  // namespace assay::cpu::amx
