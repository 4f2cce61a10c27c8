// AMX kernels: bfloat16 and int8 products on tiles, and what makes their bfloat16, which an instruction
// rounds to. The others are those of AVX-512. Compiled with its own flags, called only after the CPU check.
#include "assay/backend/cpu/kernels/grouped_codes.h"

#include <immintrin.h>

extern "C" double log(double) noexcept;

// What is called per vector: a call costs as much as the work.
#define ASSAY_INLINE [[gnu::always_inline]] inline

namespace assay::cpu::amx {

namespace {

#include "assay/backend/cpu/kernels/simd/vec512-inl.h"

#include "assay/backend/cpu/kernels/simd/float32_chunk512-inl.h"
// Its loops are used there.
#include "assay/backend/cpu/kernels/simd/all_kernels-inl.h"
// These need it.
#include "assay/backend/cpu/kernels/simd/tiles512-inl.h"

// Own assembly: g++ 12 declares the operand of its _tile_loadconfig as 8 bytes and drops the stores to the
// rest, and its tile loads do not say that they read memory.
#define ASSAY_TILE_LOAD(tile, address, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(address), "r"(std::int64_t{stride}) : "memory")
#define ASSAY_TILE_LOAD_ONCE(tile, from, stride) \
  __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(std::int64_t{stride}) : "memory")
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
// (tileloaddt1), where the panels are to stay for the rows that follow. Meanwhile some lines a step of the
// panels, and four of a strip of the rows, that come next are fetched into the second-level cache: no more
// than are needed, since each takes one of the few buffers that the rows come in through as well.
struct Ahead {
  const std::uint16_t *panels, *rows;
};
template <bool kIsInt8, int kPanelLines, bool kFetchesRows>
ASSAY_INLINE void add_two_by_two(const RowSteps& x, const WeightSteps& w, std::int64_t steps,
                                 const Ahead& ahead) {
  static_assert(kPanelLines == 2 || kPanelLines == 4);
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
      "prefetcht1 (%[panels])\n\tprefetcht1 64(%[panels])\n\t"
      ".if %c[lines] == 4\n\tprefetcht1 128(%[panels])\n\tprefetcht1 192(%[panels])\n\t.endif\n\t"
      ".if %c[fetches_rows]\n\t"
      "prefetcht1 (%[rows])\n\tprefetcht1 64(%[rows])\n\t"
      "prefetcht1 128(%[rows])\n\tprefetcht1 192(%[rows])\n\tadd %[strip], %[rows]\n\t"
      ".endif\n\t"
      ASSAY_PRODUCT(2, 5, 6)
      ASSAY_PRODUCT(3, 5, 7)
      "add %[strip], %[a]\n\tadd $1024, %[b0]\n\tadd $1024, %[b1]\n\t"
      "add $64*%c[lines], %[panels]\n\t"
      "dec %[steps]\n\t"
      "jnz 1b"
      :
      [a] "+r"(a), [b0] "+r"(b0), [b1] "+r"(b1), [panels] "+r"(panels), [rows] "+r"(rows), [steps] "+r"(steps)
      : [row] "r"(kTileBytes), [strip] "r"(2 * x.strip), [is_int8] "i"(kIsInt8), [lines] "i"(kPanelLines),
        [fetches_rows] "i"(kFetchesRows)
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
    epilogue(args, block, kStride, first_row, rows, first_output,
             left < panels * kPanel ? left : panels * kPanel);
    panel += panels;
  }
  release();
}

// One row on the vector units, which read memory faster than tile loads do (bfloat16 decode +6 %), to the
// bits of the tile products: of 32 inputs the even and the odd ones are two chains of multiply-adds from
// zero, their sum is added to the sums so far, and numbers below the normal ones count as zero (Intel's
// manual, TDPBF16PS). Adds to sums[16 * Panels]. kStreams: panels from memory, fetched ahead.
template <int Panels, bool kStreams>
void multiply_row(const RowSteps& x, const WeightSteps& w, std::int64_t steps, float* sums,
                  const WeightFetch& fetch) {
  const auto low = [](__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); };
  const auto high = [](__m512i pairs) {
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
  };
  Vec sum[Panels];
  for (int i = 0; i < Panels; ++i) sum[i] = Vec::load(sums + i * kPanel);
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::uint16_t* inputs = x.data + step * x.strip;
    const std::uint16_t* weights = w.data + step * kTileElements;
    Vec even[Panels], odd[Panels];
    for (int i = 0; i < Panels; ++i) even[i] = odd[i] = Vec::set(0.0F);
    const std::int64_t ahead = bytes_ahead<Panels>(fetch, (steps - step) * kTileElements * 2, w.next * 2);
#pragma GCC unroll 4
    for (std::int64_t pair = 0; pair < kTileColumns / 2; ++pair) {
      std::int32_t bits = 0;
      __builtin_memcpy(&bits, inputs + 2 * pair, sizeof(bits));
      const __m512i two = _mm512_set1_epi32(bits);
      Vec first{low(two)}, second{high(two)};
      first = Vec::kept(first);
      second = Vec::kept(second);
      for (int i = 0; i < Panels; ++i) {
        const std::uint16_t* from = weights + i * w.next + pair * 2 * kPanel;
        if (kStreams) fetch_ahead(from, ahead, fetch);
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
      const auto multiply = panels == kGroup ? multiply_row<kGroup, true> : multiply_row<1, true>;
      for (std::int64_t i = 0; i < panels * kPanel; i += kLane) Vec::set(0.0F).store(sums + i);
      multiply(row_steps(args, row, 0), weight_steps(args, panel, 0), steps_of(args), sums, args.fetch);
    }
    const std::int64_t left = args.n - first_output;
    epilogue(args, sums, kGroup * kPanel, row, 1, first_output,
             left < panels * kPanel ? left : panels * kPanel);
    panel += panels;
  }
}

#include "assay/backend/cpu/kernels/amx/tile_pass-inl.h"

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

// After what it uses.
#include "assay/backend/cpu/kernels/amx/attention-inl.h"

void end_attending() noexcept {
  if (configured_rows != 0) release();
}

}  // namespace

void fill(KernelTable& table) {
  table.norm = norm;
  table.gate = gate;
  table.expand = expand;
  table.linear_tiles = linear_tiles;
  table.attend_bfloat16 = attend_bfloat16_tiles;
  table.end_attending = end_attending;
  table.store_bfloat16 = store_bfloat16_tiles;
  table.linear_int8 = linear_int8_tiles;
  table.quantize = quantize_tiles;
  table.norm_origin = table.gate_origin = table.expand_origin = table.linear_tiles_origin =
      table.attend_bfloat16_origin = table.store_origin = table.int8_origin = "amx";
  table.uses_tiles = true;
}

}  // namespace assay::cpu::amx
