// Products of bfloat16 by vdpbf16ps, for the ISA file that includes it inside its own anonymous namespace,
// after float32_kernels-inl.h. Not a header for others.
//
// One instruction adds a pair of products to each of 16 sums, the second of the pair first, each by a fused
// multiply-add that rounds to nearest and takes numbers below the normal ones for zero (Intel's manual,
// VDPBF16PS; Zen 4 gives the same bits). An output is one chain of them along the pairs of inputs, whatever
// the number of rows.
#pragma once

#include "assay/backend/cpu/kernels/simd/float32_kernels-inl.h"

constexpr std::int64_t kPairs = kTileColumns / 2;  // that a strip has
constexpr std::int64_t kStripBytes = kTileColumns * 2;

// Weights of a panel: 1 KB per strip of 32 inputs; `next` elements to the next panel.
struct PanelStrips {
  const std::uint16_t* data;
  std::int64_t next;
  const WeightFetch* fetch;
};
// Rows of tiles, 64 bytes apart; `strip` elements to the next strip.
struct RowStrips {
  const std::uint16_t* data;
  std::int64_t strip;
};
std::int64_t strips_of(const LinearArgs& args) {
  return (args.k + kTileColumns - 1) / kTileColumns;
}
PanelStrips panel_strips(const LinearArgs& args, std::int64_t panel, int plane) {
  const std::int64_t size = strips_of(args) * kTileElements;
  return {static_cast<const std::uint16_t*>(args.w) + (panel * args.planes + plane) * size,
          args.planes * size, &args.fetch};
}
RowStrips row_strips(const LinearArgs& args, std::int64_t row, int plane) {
  return {args.x_tiles.plane(plane) + row * kTileColumns, args.x_tiles.strip()};
}

// Calls add(plane of the inputs, plane of the weights, is it the first) for all products of planes that
// count, the smallest first: their sum is added to the largest last.
template <typename Add>
ASSAY_INLINE void for_planes(int planes, const Add& add) {
  for (int order = planes - 1; order >= 0; --order)
    for (int i = 0; i <= order; ++i) add(i, order - i, order == planes - 1 && i == 0);
}

ASSAY_INLINE Vec add_pairs(Vec sums, __m512i x, __m512i w) {
  return {_mm512_dpbf16_ps(sums.v, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w))};
}
ASSAY_INLINE __m512i broadcast_pair(const std::uint16_t* pair) {
  std::int32_t bits = 0;
  __builtin_memcpy(&bits, pair, sizeof(bits));
  __m512i all = _mm512_set1_epi32(bits);
  __asm__("" : "+v"(all));  // kept in a register: compilers would load it for each product
  return all;
}

constexpr std::int64_t kFewPairRows = 6;  // times 4 panels: 24 sums, 4 vectors of weights, an input
constexpr std::int64_t kFewStride = kGroup * kPanel;

// Few rows times some panels, whose weights stream from memory side by side: sums c[Rows][kFewStride].
template <int Rows, int Panels>
void multiply_few(const RowStrips& x, const PanelStrips& w, std::int64_t strips, bool is_first, float* c) {
  Vec sums[Rows][Panels];
  for (int row = 0; row < Rows; ++row)
    for (int i = 0; i < Panels; ++i)
      sums[row][i] = is_first ? Vec::set(0.0F) : Vec::load(c + row * kFewStride + i * kPanel);
  const WeightFetch fetch = *w.fetch;
  for (std::int64_t strip = 0; strip < strips; ++strip) {
    const std::uint16_t* inputs = x.data + strip * x.strip;
    const std::uint16_t* weights = w.data + strip * kTileElements;
    const std::int64_t ahead = bytes_ahead<Panels>(fetch, (strips - strip) * kTileElements * 2, w.next * 2);
#pragma GCC unroll 4
    for (std::int64_t pair = 0; pair < kPairs; ++pair) {
      __m512i of_panel[Panels];
      for (int i = 0; i < Panels; ++i) {
        const std::uint16_t* from = weights + i * w.next + pair * 2 * kPanel;
        fetch_ahead(from, ahead, fetch);
        of_panel[i] = _mm512_loadu_si512(from);
        if (Rows > 1) __asm__("" : "+v"(of_panel[i]));
      }
      for (int row = 0; row < Rows; ++row) {
        const __m512i two = broadcast_pair(inputs + row * kTileColumns + 2 * pair);
        for (int i = 0; i < Panels; ++i) sums[row][i] = add_pairs(sums[row][i], two, of_panel[i]);
      }
    }
  }
  store_sums(sums, c, kFewStride);
}

using MultiplyFew = void (*)(const RowStrips&, const PanelStrips&, std::int64_t, bool, float*);
template <int Panels>
MultiplyFew multiply_few_of(std::int64_t rows) {
  constexpr MultiplyFew kOf[] = {multiply_few<1, Panels>, multiply_few<2, Panels>, multiply_few<3, Panels>,
                                 multiply_few<4, Panels>, multiply_few<5, Panels>, multiply_few<6, Panels>};
  return kOf[rows - 1];
}

void linear_few_pair_rows(const LinearArgs& args, std::int64_t first_panel, std::int64_t last_panel) {
  alignas(64) float block[kFewPairRows * kFewStride];
  for (std::int64_t panel = first_panel; panel < last_panel;) {
    const std::int64_t panels = last_panel - panel >= kGroup ? kGroup : 1, first_output = panel * kPanel,
                       left = args.n - first_output;
    for (std::int64_t row = 0; row < args.rows; row += kFewPairRows) {
      const std::int64_t rows = args.rows - row < kFewPairRows ? args.rows - row : kFewPairRows;
      fetch_finish(args, row, rows, first_output, panels * kPanel);
      const MultiplyFew multiply =
          panels == kGroup ? multiply_few_of<kGroup>(rows) : multiply_few_of<1>(rows);
      for_planes(args.planes, [&](int of_x, int of_w, bool is_first) {
        multiply(row_strips(args, row, of_x), panel_strips(args, panel, of_w), strips_of(args), is_first,
                 block);
      });
      epilogue(args, block, kFewStride, row, rows, first_output,
               left < panels * kPanel ? left : panels * kPanel);
    }
    panel += panels;
  }
}

// The loops over the strips of many rows are assembler: a load more per row that a compiler puts into them
// costs a quarter. Rows are 64 bytes apart, so one register addresses them all.
struct PairChunk {
  const std::uint16_t* a;  // rows of the first strip
  std::int64_t a_strip;    // bytes from a strip to the next
  const std::uint16_t* b;  // panels of the first strip
  std::int64_t b_next;     // bytes from a panel to the next
  std::int64_t strips;
  bool is_first;  // else sums are added to
  float* c;       // [rows][16 * panels]
  // Of what comes next, fetched into the second-level cache meanwhile: `step` bytes per pair of inputs, at
  // most 128.
  const char* ahead;
  std::int64_t step;
};

// clang-format off
#define ASSAY_PAIR_FETCH "prefetcht1 (%[ahead])\n\tadd %[step], %[ahead]\n\t"
// One block of rows alone fetches both panels' lines, which many share.
#define ASSAY_PAIR_FETCH_TWO "prefetcht1 64(%[ahead])\n\t" ASSAY_PAIR_FETCH
// X(at, two sums, row, register of the input), at: of the pair in its strip
#define ASSAY_TWO_ROWS_7(X, at) \
  X(at, "0", "1", "0", "30") X(at, "2", "3", "1", "31") X(at, "4", "5", "2", "30") X(at, "6", "7", "3", "31") \
  X(at, "8", "9", "4", "30") X(at, "10", "11", "5", "31") X(at, "12", "13", "6", "30")
#define ASSAY_TWO_ROWS_8(X, at) ASSAY_TWO_ROWS_7(X, at) X(at, "14", "15", "7", "31")
#define ASSAY_TWO_ROWS_9(X, at) ASSAY_TWO_ROWS_8(X, at) X(at, "16", "17", "8", "30")
#define ASSAY_TWO_ROWS_10(X, at) ASSAY_TWO_ROWS_9(X, at) X(at, "18", "19", "9", "31")
#define ASSAY_TWO_ROWS_11(X, at) ASSAY_TWO_ROWS_10(X, at) X(at, "20", "21", "10", "30")
#define ASSAY_TWO_ROWS_12(X, at) ASSAY_TWO_ROWS_11(X, at) X(at, "22", "23", "11", "31")
#define ASSAY_TWO_ROWS_13(X, at) ASSAY_TWO_ROWS_12(X, at) X(at, "24", "25", "12", "30")
#define ASSAY_TWO_ROWS_14(X, at) ASSAY_TWO_ROWS_13(X, at) X(at, "26", "27", "13", "31")
#define ASSAY_TWO_CLEAR(at, low, high, row, x) \
  "vpxord %%zmm" low ", %%zmm" low ", %%zmm" low "\n\tvpxord %%zmm" high ", %%zmm" high ", %%zmm" high "\n\t"
#define ASSAY_TWO_LOAD(at, low, high, row, x) \
  "vmovups 128*" row "(%[c]), %%zmm" low "\n\tvmovups 64+128*" row "(%[c]), %%zmm" high "\n\t"
#define ASSAY_TWO_STORE(at, low, high, row, x) \
  "vmovups %%zmm" low ", 128*" row "(%[c])\n\tvmovups %%zmm" high ", 64+128*" row "(%[c])\n\t"
#define ASSAY_TWO_MULTIPLY(at, low, high, row, x) \
  "vpbroadcastd 64*" row "+4*" at "(%[a]), %%zmm" x "\n\t" \
  "vdpbf16ps %%zmm28, %%zmm" x ", %%zmm" low "\n\t" \
  "vdpbf16ps %%zmm29, %%zmm" x ", %%zmm" high "\n\t"
#define ASSAY_TWO_PAIR(n, at) \
  "vmovups 64*" at "(%[b]), %%zmm28\n\tvmovups 64*" at "(%[b],%[next]), %%zmm29\n\t" ASSAY_PAIR_FETCH_TWO \
  ASSAY_TWO_ROWS_##n(ASSAY_TWO_MULTIPLY, at)

// The same where no panels come next, for sums [rows][64].
#define ASSAY_SPREAD_STORE(at, low, high, row, x) \
  "vmovups %%zmm" low ", 256*" row "(%[c])\n\tvmovups %%zmm" high ", 64+256*" row "(%[c])\n\t"
#define ASSAY_SPREAD_PAIR(n, at) \
  "vmovups 64*" at "(%[b]), %%zmm28\n\tvmovups 64*" at "(%[b],%[next]), %%zmm29\n\t" \
  ASSAY_TWO_ROWS_##n(ASSAY_TWO_MULTIPLY, at)

// The same of three panels.
#define ASSAY_THREE_ROWS_5(X, at) \
  X(at, "0", "1", "2", "0", "30") X(at, "3", "4", "5", "1", "31") X(at, "6", "7", "8", "2", "30") \
  X(at, "9", "10", "11", "3", "31") X(at, "12", "13", "14", "4", "30")
#define ASSAY_THREE_ROWS_6(X, at) ASSAY_THREE_ROWS_5(X, at) X(at, "15", "16", "17", "5", "31")
#define ASSAY_THREE_ROWS_7(X, at) ASSAY_THREE_ROWS_6(X, at) X(at, "18", "19", "20", "6", "30")
#define ASSAY_THREE_ROWS_8(X, at) ASSAY_THREE_ROWS_7(X, at) X(at, "21", "22", "23", "7", "31")
#define ASSAY_THREE_ROWS_9(X, at) ASSAY_THREE_ROWS_8(X, at) X(at, "24", "25", "26", "8", "30")
#define ASSAY_THREE_CLEAR(at, low, mid, high, row, x) \
  "vpxord %%zmm" low ", %%zmm" low ", %%zmm" low "\n\tvpxord %%zmm" mid ", %%zmm" mid ", %%zmm" mid "\n\t" \
  "vpxord %%zmm" high ", %%zmm" high ", %%zmm" high "\n\t"
#define ASSAY_THREE_LOAD(at, low, mid, high, row, x) \
  "vmovups 192*" row "(%[c]), %%zmm" low "\n\tvmovups 64+192*" row "(%[c]), %%zmm" mid "\n\t" \
  "vmovups 128+192*" row "(%[c]), %%zmm" high "\n\t"
#define ASSAY_THREE_STORE(at, low, mid, high, row, x) \
  "vmovups %%zmm" low ", 192*" row "(%[c])\n\tvmovups %%zmm" mid ", 64+192*" row "(%[c])\n\t" \
  "vmovups %%zmm" high ", 128+192*" row "(%[c])\n\t"
#define ASSAY_THREE_MULTIPLY(at, low, mid, high, row, x) \
  "vpbroadcastd 64*" row "+4*" at "(%[a]), %%zmm" x "\n\t" \
  "vdpbf16ps %%zmm27, %%zmm" x ", %%zmm" low "\n\t" \
  "vdpbf16ps %%zmm28, %%zmm" x ", %%zmm" mid "\n\t" \
  "vdpbf16ps %%zmm29, %%zmm" x ", %%zmm" high "\n\t"
#define ASSAY_THREE_PAIR(n, at) \
  "vmovups 64*" at "(%[b]), %%zmm27\n\tvmovups 64*" at "(%[b],%[next]), %%zmm28\n\t" \
  "vmovups 64*" at "(%[b],%[next],2), %%zmm29\n\t" ASSAY_PAIR_FETCH \
  ASSAY_THREE_ROWS_##n(ASSAY_THREE_MULTIPLY, at)

#define ASSAY_STRIP(PAIR, n) \
  PAIR(n, "0") PAIR(n, "1") PAIR(n, "2") PAIR(n, "3") PAIR(n, "4") PAIR(n, "5") PAIR(n, "6") PAIR(n, "7") \
  PAIR(n, "8") PAIR(n, "9") PAIR(n, "10") PAIR(n, "11") PAIR(n, "12") PAIR(n, "13") PAIR(n, "14") PAIR(n, "15") \
  "add %[strip], %[a]\n\tadd $1024, %[b]\n\t"
// clang-format on

#define ASSAY_PAIR_CHUNK(name, panels, n)                                                                   \
  void add_##name##_##n(const PairChunk& chunk) {                                                           \
    const std::uint16_t *a = chunk.a, *b = chunk.b;                                                         \
    const char* ahead = chunk.ahead;                                                                        \
    std::int64_t strips = chunk.strips;                                                                     \
    const std::int64_t is_first = chunk.is_first ? 1 : 0;                                                   \
    __asm__ volatile(                                                                                     \
        ASSAY_START(ASSAY_##panels##_ROWS_##n(ASSAY_##panels##_LOAD, "0"),                                \
                    ASSAY_##panels##_ROWS_##n(ASSAY_##panels##_CLEAR, "0"))                               \
            ".p2align 6\n3:\n\t" ASSAY_STRIP(ASSAY_##panels##_PAIR, n)                                    \
                "dec %[strips]\n\tjnz 3b\n\t" ASSAY_##panels##_ROWS_##n(ASSAY_##panels##_STORE, "0")     \
        : [a] "+r"(a), [b] "+r"(b), [ahead] "+r"(ahead), [strips] "+r"(strips)                            \
        : [strip] "r"(chunk.a_strip), [next] "r"(chunk.b_next), [c] "r"(chunk.c), [step] "r"(chunk.step), \
          [is_first] "m"(is_first)                                                                        \
        : ASSAY_USED); \
  }
ASSAY_PAIR_CHUNK(two_panels, TWO, 7)
ASSAY_PAIR_CHUNK(two_panels, TWO, 8)
ASSAY_PAIR_CHUNK(two_panels, TWO, 9)
ASSAY_PAIR_CHUNK(two_panels, TWO, 10)
ASSAY_PAIR_CHUNK(two_panels, TWO, 11)
ASSAY_PAIR_CHUNK(two_panels, TWO, 12)
ASSAY_PAIR_CHUNK(two_panels, TWO, 13)
ASSAY_PAIR_CHUNK(two_panels, TWO, 14)
ASSAY_PAIR_CHUNK(three_panels, THREE, 5)
ASSAY_PAIR_CHUNK(three_panels, THREE, 6)
ASSAY_PAIR_CHUNK(three_panels, THREE, 7)
ASSAY_PAIR_CHUNK(three_panels, THREE, 8)
ASSAY_PAIR_CHUNK(three_panels, THREE, 9)

// Two panels from zero: sums c[rows][kFewStride].
#define ASSAY_PAIR_SPREAD(n)                                                                                \
  void spread_two_panels_##n(const PairChunk& chunk) {                                                      \
    const std::uint16_t *a = chunk.a, *b = chunk.b;                                                         \
    std::int64_t strips = chunk.strips;                                                                     \
    __asm__ volatile(                                                                                       \
        ASSAY_TWO_ROWS_##n(ASSAY_TWO_CLEAR, "0") ".p2align 6\n3:\n\t" ASSAY_STRIP(                          \
            ASSAY_SPREAD_PAIR, n) "dec %[strips]\n\tjnz 3b\n\t" ASSAY_TWO_ROWS_##n(ASSAY_SPREAD_STORE, "0") \
        : [a] "+r"(a), [b] "+r"(b), [strips] "+r"(strips)                                                   \
        : [strip] "r"(chunk.a_strip), [next] "r"(chunk.b_next), [c] "r"(chunk.c)                            \
        : ASSAY_USED);                                                                                      \
  }
ASSAY_PAIR_SPREAD(7)
ASSAY_PAIR_SPREAD(8)
ASSAY_PAIR_SPREAD(9)
ASSAY_PAIR_SPREAD(10)
ASSAY_PAIR_SPREAD(11)
ASSAY_PAIR_SPREAD(12)
ASSAY_PAIR_SPREAD(13)
ASSAY_PAIR_SPREAD(14)
void spread_two_panels(std::int64_t rows, const PairChunk& chunk) {
  constexpr void (*kOf[])(const PairChunk&) = {
      spread_two_panels_7,  spread_two_panels_8,  spread_two_panels_9,  spread_two_panels_10,
      spread_two_panels_11, spread_two_panels_12, spread_two_panels_13, spread_two_panels_14};
  kOf[rows - 7](chunk);
}

// 7 to 14 rows times two panels: 28 sums, 2 vectors of weights, 2 inputs fill the registers.
struct TwoPanels {
  static constexpr std::int64_t kPanels = 2, kRows = 14;
  static void add(std::int64_t rows, const PairChunk& chunk) {
    constexpr void (*kOf[])(const PairChunk&) = {add_two_panels_7,  add_two_panels_8,  add_two_panels_9,
                                                 add_two_panels_10, add_two_panels_11, add_two_panels_12,
                                                 add_two_panels_13, add_two_panels_14};
    kOf[rows - 7](chunk);
  }
};
// 5 to 9 rows times three panels: fewer loads a product, where rows are many.
struct ThreePanels {
  static constexpr std::int64_t kPanels = 3, kRows = 9;
  static void add(std::int64_t rows, const PairChunk& chunk) {
    constexpr void (*kOf[])(const PairChunk&) = {add_three_panels_5, add_three_panels_6, add_three_panels_7,
                                                 add_three_panels_8, add_three_panels_9};
    kOf[rows - 5](chunk);
  }
};
constexpr std::int64_t kMinTwoPanelRows = 7, kMinThreePanelRows = 64;

// Panels [first, last), a multiple of Panels::kPanels, of all rows: the panels stay in the second-level cache
// while blocks of rows, which stay in the nearest one, pass over them.
template <typename Panels>
void linear_many_pair_rows(const LinearArgs& args, std::int64_t first, std::int64_t last) {
  constexpr std::int64_t kColumns = Panels::kPanels * kPanel;
  alignas(64) float c[Panels::kRows * kColumns];
  const std::int64_t strips = strips_of(args), blocks = (args.rows + Panels::kRows - 1) / Panels::kRows;
  for (std::int64_t panel = first; panel < last; panel += Panels::kPanels) {
    const PanelStrips all = panel_strips(args, panel, 0);
    const std::int64_t first_output = panel * kPanel, left = args.n - first_output;
    // The next panels follow these in memory, all planes of a panel together.
    const std::int64_t bytes = Panels::kPanels * all.next * 2, share = (bytes + blocks - 1) / blocks;
    const char* next = reinterpret_cast<const char*>(all.data) + bytes;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t row = args.rows * block / blocks, end = args.rows * (block + 1) / blocks;
      const std::int64_t pairs = strips * kPairs * args.planes * (args.planes + 1) / 2;
      std::int64_t fetched = block * share;
      const std::int64_t step = (share + pairs - 1) / pairs;
      for_planes(args.planes, [&](int of_x, int of_w, bool is_first) {
        const RowStrips x = row_strips(args, row, of_x);
        const PanelStrips w = panel_strips(args, panel, of_w);
        Panels::add(end - row, {.a = x.data,
                                .a_strip = x.strip * 2,
                                .b = w.data,
                                .b_next = w.next * 2,
                                .strips = strips,
                                .is_first = is_first,
                                .c = c,
                                .ahead = next + fetched,
                                .step = step});
        fetched += step * strips * kPairs;
      });
      epilogue(args, c, kColumns, row, end - row, first_output, left < kColumns ? left : kColumns);
    }
  }
}

void linear_pairs(const LinearArgs& args) noexcept {
  const std::int64_t first = args.first_panel, end = first + args.panels;
  if (args.rows < kMinTwoPanelRows) return linear_few_pair_rows(args, first, end);
  // By sixes: what is left is then even in number, but for a single last one.
  const std::int64_t triples = first + (args.rows >= kMinThreePanelRows ? args.panels / 6 * 6 : 0),
                     pairs = triples + (end - triples) / 2 * 2;
  linear_many_pair_rows<ThreePanels>(args, first, triples);
  linear_many_pair_rows<TwoPanels>(args, triples, pairs);
  linear_few_pair_rows(args, pairs, end);
}
