// AMX kernels: bfloat16 products on tiles; the float32 kernels of AVX-512 with its newer instructions.
// Compiled with its own flags, called only after the CPU check.
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
#include "assay/backend/cpu/simd/store_bfloat16.h"

// Own assembly: g++ 12 declares the operand of its _tile_loadconfig as 8 bytes and drops the stores to the
// rest, and its tile loads do not say that they read memory.
#define ASSAY_TILE_LOAD(tile, address, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(address), "r"(std::int64_t{stride}) : "memory")
#define ASSAY_TILE_STORE(tile, address, stride)                                                     \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(address), "r"(std::int64_t{stride}) \
                   : "memory")
#define ASSAY_TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::)
// sums += rows * pairs, each in bfloat16.
#define ASSAY_TILE_PRODUCT(sums, rows, pairs) \
  __asm__ volatile("tdpbf16ps %%tmm" #pairs ", %%tmm" #rows ", %%tmm" #sums ::)

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[8] = {}, unused_row_bytes[8] = {};
  std::uint8_t rows[8] = {}, unused_rows[8] = {};
};
static_assert(sizeof(TileConfig) == 64);

// Sums in tiles 0 to 3, activations in 4, of `rows` rows each; weights in 5 to 7. Of 32 rows, both halves in
// full tiles, 5 holds the activations of the second.
void configure(std::int64_t rows) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = tile < 5 ? static_cast<std::uint8_t>(rows) : std::uint8_t{16};
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
}
void release() {
  __asm__ volatile("tilerelease" ::: "memory");
}

constexpr std::int64_t kTileBytes = 64;  // from one row of a tile to the next
constexpr std::int64_t kLane = 16;       // floats of a row of sums

// The part of a packed matrix or of tiles that one plane holds, in steps of 32 inputs (1 KB).
struct Steps {
  const std::uint16_t* data;
  std::int64_t next;  // elements to the next panel, or to the next 16 rows
};
std::int64_t steps_of(const LinearArgs& args) {
  return round_up(args.k, kTileColumns) / kTileColumns;
}
Steps weight_steps(const LinearArgs& args, std::int64_t panel, int plane) {
  const std::int64_t per_plane = steps_of(args) * kTileElements;
  return {static_cast<const std::uint16_t*>(args.w) + (panel * args.planes + plane) * per_plane,
          args.planes * per_plane};
}
Steps row_steps(const LinearArgs& args, std::int64_t row, int plane) {
  const std::int64_t per_block = steps_of(args) * kTileElements;
  return {args.x_tiles.data + plane * args.x_tiles.plane_stride + row / kTileRows * per_block, per_block};
}

// The loops over the steps are assembler as a whole: between two statements of it compilers put moves and
// spills that cost as much as the products.

// Up to 16 rows times 4 panels: four streams of weights.
void add_one_by_four(const Steps& x, const Steps& w, std::int64_t steps) {
  const std::uint16_t *a = x.data, *b0 = w.data, *b1 = b0 + w.next, *b2 = b1 + w.next, *b3 = b2 + w.next;
  __asm__ volatile(
      "1:\n\t"
      "tileloadd (%[a],%[row],1), %%tmm4\n\t"
      "tileloadd (%[b0],%[row],1), %%tmm5\n\t"
      "tileloadd (%[b1],%[row],1), %%tmm6\n\t"
      "tdpbf16ps %%tmm5, %%tmm4, %%tmm0\n\t"
      "tileloadd (%[b2],%[row],1), %%tmm7\n\t"
      "tdpbf16ps %%tmm6, %%tmm4, %%tmm1\n\t"
      "tileloadd (%[b3],%[row],1), %%tmm5\n\t"
      "tdpbf16ps %%tmm7, %%tmm4, %%tmm2\n\t"
      "tdpbf16ps %%tmm5, %%tmm4, %%tmm3\n\t"
      "add $1024, %[a]\n\tadd $1024, %[b0]\n\tadd $1024, %[b1]\n\tadd $1024, %[b2]\n\tadd $1024, %[b3]\n\t"
      "dec %[steps]\n\t"
      "jnz 1b"
      : [a] "+r"(a), [b0] "+r"(b0), [b1] "+r"(b1), [b2] "+r"(b2), [b3] "+r"(b3), [steps] "+r"(steps)
      : [row] "r"(kTileBytes)
      : "cc", "memory");
}
// Up to 16 rows times 1 panel: what is left of a group.
void add_one_by_one(const Steps& x, const Steps& w, std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step) {
    ASSAY_TILE_LOAD(4, x.data + step * kTileElements, kTileBytes);
    ASSAY_TILE_LOAD(5, w.data + step * kTileElements, kTileBytes);
    ASSAY_TILE_PRODUCT(0, 4, 5);
  }
}
// 32 rows times 2 panels: each tile loaded serves two products. `ahead` is fetched into the second-level
// cache meanwhile, 128 bytes a step.
void add_two_by_two(const Steps& x, const Steps& w, std::int64_t steps, const std::uint16_t* ahead) {
  const std::uint16_t *a0 = x.data, *a1 = a0 + x.next, *b0 = w.data, *b1 = b0 + w.next;
  __asm__ volatile(
      "1:\n\t"
      "tileloadd (%[a0],%[row],1), %%tmm4\n\t"
      "tileloadd (%[b0],%[row],1), %%tmm6\n\t"
      "tileloadd (%[b1],%[row],1), %%tmm7\n\t"
      "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
      "tileloadd (%[a1],%[row],1), %%tmm5\n\t"
      "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
      "prefetcht1 (%[ahead])\n\tprefetcht1 64(%[ahead])\n\t"
      "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
      "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
      "add $1024, %[a0]\n\tadd $1024, %[a1]\n\tadd $1024, %[b0]\n\tadd $1024, %[b1]\n\t"
      "add $128, %[ahead]\n\t"
      "dec %[steps]\n\t"
      "jnz 1b"
      : [a0] "+r"(a0), [a1] "+r"(a1), [b0] "+r"(b0), [b1] "+r"(b1), [ahead] "+r"(ahead), [steps] "+r"(steps)
      : [row] "r"(kTileBytes)
      : "cc", "memory");
}
void add_two_by_one(const Steps& x, const Steps& w, std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step) {
    ASSAY_TILE_LOAD(4, x.data + step * kTileElements, kTileBytes);
    ASSAY_TILE_LOAD(5, x.data + x.next + step * kTileElements, kTileBytes);
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

using AddProducts = void (*)(const Steps& x, const Steps& w, std::int64_t steps);

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

// A pair of panels times this many steps of 32 inputs is 24 KB: half of the nearest cache, so that it stays
// there while all rows pass over it, and the rows alone stream from the next one.
constexpr std::int64_t kChunkSteps = 12;
constexpr std::int64_t kSums = kTileRows * kPanel;

// Some panels and some inputs of one product of planes: what all rows go through before the next.
struct Segment {
  int x_plane, w_plane;
  std::int64_t first_step, steps;
  bool is_first;
};

// Sums of 32 rows and two panels, as four tiles.
float* sums_at(float* sums, std::int64_t row, std::int64_t pair) {
  return sums + (row / (2 * kTileRows) * (kPassPanels / 2) + pair) * 4 * kSums;
}

// The segment for 32 rows and one or two panels: sums are loaded (unless it is the first), added to, stored.
void add_segment(const Segment& segment, const Steps& x, const Steps& w, bool has_two, float* sums,
                 const std::uint16_t* ahead) {
  if (segment.is_first) {
    clear_sums();
  } else {
    ASSAY_TILE_LOAD(0, sums, kTileBytes);
    ASSAY_TILE_LOAD(1, sums + kSums, kTileBytes);
    ASSAY_TILE_LOAD(2, sums + 2 * kSums, kTileBytes);
    ASSAY_TILE_LOAD(3, sums + 3 * kSums, kTileBytes);
  }
  if (has_two)
    add_two_by_two(x, w, segment.steps, ahead);
  else
    add_two_by_one(x, w, segment.steps);
  ASSAY_TILE_STORE(0, sums, kTileBytes);
  ASSAY_TILE_STORE(1, sums + kSums, kTileBytes);
  ASSAY_TILE_STORE(2, sums + 2 * kSums, kTileBytes);
  ASSAY_TILE_STORE(3, sums + 3 * kSums, kTileBytes);
}

// Row by row over all panels of the pass: neighbours in memory are written together. Inlined with an
// activation that the compiler knows.
ASSAY_INLINE void finish_rows_as(Activation activation, LinearArgs args, float* sums, std::int64_t first_row,
                                 std::int64_t rows, std::int64_t first_panel, std::int64_t panels) {
  args.activation = activation;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < panels; ++i) {
      const std::int64_t first_output = (first_panel + i) * kPanel, left = args.n - first_output;
      const float* tile = sums_at(sums, row, i / 2) + (row / kTileRows % 2 * 2 + i % 2) * kSums;
      finish_vector(args, Vec::load(tile + row % kTileRows * kPanel), first_row + row, first_output,
                    left < kPanel ? left : kPanel);
    }
}

void finish_rows(const LinearArgs& args, float* sums, std::int64_t first_row, std::int64_t rows,
                 std::int64_t first_panel, std::int64_t panels) {
  switch (args.activation) {
    case Activation::none:
      return finish_rows_as(Activation::none, args, sums, first_row, rows, first_panel, panels);
    case Activation::gelu_tanh:
      return finish_rows_as(Activation::gelu_tanh, args, sums, first_row, rows, first_panel, panels);
    default:
      return finish_rows_as(args.activation, args, sums, first_row, rows, first_panel, panels);
  }
}

void run_segment(const LinearArgs& args, const Segment& segment, std::int64_t first_row, std::int64_t rows,
                 std::int64_t first_panel, std::int64_t panels, float* sums) {
  for (std::int64_t i = 0; i < panels; i += 2) {
    Steps w = weight_steps(args, first_panel + i, segment.w_plane);
    w.data += segment.first_step * kTileElements;
    // The two panels that come next, a share of them with each block of rows; after the last the first two
    // again, for the inputs that follow.
    const std::uint16_t* ahead =
        i + 2 < panels ? w.data + 2 * w.next : w.data - i * w.next + segment.steps * kTileElements;
    for (std::int64_t row = 0; row < rows; row += 2 * kTileRows) {
      Steps x = row_steps(args, first_row + row, segment.x_plane);
      x.data += segment.first_step * kTileElements;
      const std::int64_t part = row / (2 * kTileRows) * segment.steps * 64;
      const std::int64_t half = segment.steps * kTileElements;
      add_segment(segment, x, w, i + 1 < panels, sums_at(sums, row, i / 2),
                  part < half ? ahead + part : ahead + w.next + (part - half) % half);
    }
  }
}

// Rows [first_row, first_row + rows), a multiple of 32, at most kPassRows; at most kPassPanels panels.
void linear_many_rows(const LinearArgs& args, std::int64_t first_row, std::int64_t rows,
                      std::int64_t first_panel, std::int64_t panels) {
  alignas(64) float sums[kPassRows * kPassPanels * kPanel];
  const std::int64_t steps = steps_of(args);
  configure(kTileRows);
  for (int order = args.planes - 1; order >= 0; --order)
    for (int i = 0; i <= order; ++i)
      for (std::int64_t step = 0; step < steps; step += kChunkSteps)
        run_segment(args,
                    {i, order - i, step, steps - step < kChunkSteps ? steps - step : kChunkSteps,
                     order == args.planes - 1 && i == 0 && step == 0},
                    first_row, rows, first_panel, panels, sums);
  release();
  finish_rows(args, sums, first_row, rows, first_panel, panels);
}

void linear_tiles(const LinearArgs& args) noexcept {
  const std::int64_t whole = args.rows / (2 * kTileRows) * (2 * kTileRows);
  const std::int64_t last = args.first_panel + args.panels;
  for (std::int64_t row = 0; row < whole; row += kPassRows)
    for (std::int64_t panel = args.first_panel; panel < last; panel += kPassPanels)
      linear_many_rows(args, row, whole - row < kPassRows ? whole - row : kPassRows, panel,
                       last - panel < kPassPanels ? last - panel : kPassPanels);
  for (std::int64_t row = whole; row < args.rows; row += kTileRows)
    linear_few_rows(args, row, args.rows - row < kTileRows ? args.rows - row : kTileRows);
}

// 2^x to about 3e-7, by rounding and the Taylor series of degree 6 over [-1/2, 1/2]; 0 for -infinity.
Vec power_of_two(Vec x) {
  const Vec n = Vec::round(Vec::max(x, Vec::set(-1000.0F)));
  const Vec r = Vec::sub(Vec::max(x, Vec::set(-1000.0F)), n);
  Vec p = Vec::set(1.540353e-4F);
  p = Vec::fma(p, r, Vec::set(1.333356e-3F));
  p = Vec::fma(p, r, Vec::set(9.618129e-3F));
  p = Vec::fma(p, r, Vec::set(5.550411e-2F));
  p = Vec::fma(p, r, Vec::set(2.402265e-1F));
  p = Vec::fma(p, r, Vec::set(6.931472e-1F));
  p = Vec::fma(p, r, Vec::set(1.0F));
  return Vec::nan_from(x, Vec::scale_by_power(p, n));
}

constexpr float kMasked = -__builtin_huge_valf();

// Queries of up to 16 rows, scaled, in tiles: [dim_padded / 32][16][32].
void stage_queries(const AttendArgs& args, std::int64_t first_row, std::int64_t rows,
                   std::uint16_t* queries) {
  const Vec scale = Vec::set(args.scale * 1.44269504088896341F);  // scores are then exponents of two
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < args.shape.dim_padded(); i += kPanel) {
      const std::int64_t left = args.shape.head_dim - i, n = left < 0 ? 0 : left < kPanel ? left : kPanel;
      const Vec q = Vec::mul(Vec::load_n(args.q + (first_row + row) * args.q_stride + i, n), scale);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(queries + tile_offset(row, i, args.shape.dim_padded())),
                          q.narrow());
    }
}

// scores[rows, 64] = queries * keys of one block.
void score_block(const std::uint16_t* queries, const std::uint16_t* keys, const KvShape& shape,
                 float* scores) {
  const std::int64_t panel = shape.dim_padded() * kPanel, steps = shape.dim_padded() / kTileColumns;
  clear_sums();
  add_one_by_four({queries, 0}, {keys, panel}, steps);
  ASSAY_TILE_STORE(0, scores, 256);
  ASSAY_TILE_STORE(1, scores + kLane, 256);
  ASSAY_TILE_STORE(2, scores + 2 * kLane, 256);
  ASSAY_TILE_STORE(3, scores + 3 * kLane, 256);
}

// One row of scores to weights in bfloat16; returns what earlier sums are multiplied with.
float weigh_scores(const float* scores, std::int64_t first, std::int64_t last, std::uint16_t* weights,
                   float& highest, float& total) {
  Vec s[4];
  for (int i = 0; i < 4; ++i) s[i] = Vec::load(scores + i * kLane);
  if (first > 0 || last < kKvBlockPositions - 1) {
    const __m512i index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const auto low = static_cast<int>(first < 0 ? 0 : first), high = static_cast<int>(last);
    for (int i = 0; i < 4; ++i) {
      const __m512i at = _mm512_add_epi32(index, _mm512_set1_epi32(i * 16));
      const __mmask16 seen = _mm512_cmpge_epi32_mask(at, _mm512_set1_epi32(low)) &
                             _mm512_cmple_epi32_mask(at, _mm512_set1_epi32(high));
      s[i].v = _mm512_mask_blend_ps(seen, _mm512_set1_ps(kMasked), s[i].v);
    }
  }
  const float best = _mm512_reduce_max_ps(Vec::max(Vec::max(s[0], s[1]), Vec::max(s[2], s[3])).v);
  const float top = best > highest ? best : highest;
  if (top == kMasked) {
    for (int i = 0; i < 2; ++i) _mm512_storeu_si512(weights + i * kTileElements, _mm512_setzero_si512());
    return 1;
  }
  for (Vec& x : s) x = power_of_two(Vec::sub(x, Vec::set(top)));
  const float factor = _mm512_cvtss_f32(power_of_two(Vec::set(highest - top)).v);
  total = total * factor + _mm512_reduce_add_ps(Vec::add(Vec::add(s[0], s[1]), Vec::add(s[2], s[3])).v);
  highest = top;
  for (int i = 0; i < 2; ++i)
    _mm512_storeu_si512(weights + i * kTileElements,
                        reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(s[2 * i + 1].v, s[2 * i].v)));
  return factor;
}

// out[rows, padded] = out * factor + weights[rows, 64] * values of one block.
void add_values(const std::uint16_t* weights, const std::uint16_t* values, std::int64_t padded,
                const float* factors, std::int64_t rows, float* out) {
  alignas(64) float block[kTileRows * kGroup * kPanel];
  constexpr std::int64_t kStride = kGroup * kPanel, kPanelElements = kKvBlockPositions * kPanel;
  for (std::int64_t panel = 0; panel < padded / kPanel;) {
    const std::int64_t panels = padded / kPanel - panel >= kGroup ? kGroup : 1;
    clear_sums();
    if (panels == kGroup) {
      add_one_by_four({weights, 0}, {values + panel * kPanelElements, kPanelElements}, 2);
      ASSAY_TILE_STORE(1, block + kLane, 256);
      ASSAY_TILE_STORE(2, block + 2 * kLane, 256);
      ASSAY_TILE_STORE(3, block + 3 * kLane, 256);
    } else {
      add_one_by_one({weights, 0}, {values + panel * kPanelElements, 0}, 2);
    }
    ASSAY_TILE_STORE(0, block, 256);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < panels * kPanel; i += kLane) {
        float* sum = out + row * padded + panel * kPanel + i;
        Vec::fma(Vec::load(sum), Vec::set(factors[row]), Vec::load(block + row * kStride + i)).store(sum);
      }
    panel += panels;
  }
}

// Softmax over blocks of 64 keys, as float32_kernels.h does it, with both products on tiles.
void attend_tiles(const AttendArgs& args, std::int64_t first_row, std::int64_t rows) {
  constexpr std::int64_t kBlock = kKvBlockPositions;
  alignas(64) std::uint16_t queries[kTileRows * kMaxHeadDim];
  alignas(64) std::uint16_t weights[2 * kTileElements];
  alignas(64) float scores[kTileRows * kBlock];
  alignas(64) float out[kTileRows * kMaxHeadDim];
  const std::int64_t padded = args.shape.padded(), first_position = args.first_position + first_row;
  float highest[kTileRows], total[kTileRows], factors[kTileRows];
  for (std::int64_t row = 0; row < rows; ++row) {
    highest[row] = kMasked;
    total[row] = 0;
    for (std::int64_t i = 0; i < padded; i += kLane) Vec::set(0.0F).store(out + row * padded + i);
  }
  stage_queries(args, first_row, rows, queries);
  const std::int64_t last_position = first_position + rows - 1;
  const std::int64_t oldest = args.window > 0 ? first_position - args.window + 1 : 0;
  const std::int64_t first_key = oldest > args.first_key ? oldest : args.first_key;
  configure(rows);
  for (std::int64_t block = first_key / kBlock; block <= last_position / kBlock; ++block) {
    const auto* base = static_cast<const std::uint16_t*>(args.blocks[block]);
    score_block(queries, base + args.k_offset, args.shape, scores);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t last = first_position + row;
      const std::int64_t in_window = args.window > 0 ? last - args.window + 1 : 0;
      const std::int64_t first = in_window > args.first_key ? in_window : args.first_key;
      factors[row] = weigh_scores(scores + row * kBlock, first - block * kBlock, last - block * kBlock,
                                  weights + row * kTileColumns, highest[row], total[row]);
    }
    add_values(weights, base + args.v_offset, padded, factors, rows, out);
  }
  release();
  for (std::int64_t row = 0; row < rows; ++row)
    store_attended(args, first_row + row, out + row * padded, total[row]);
}

void attend_bfloat16_tiles(const AttendArgs& args) noexcept {
  for (std::int64_t row = 0; row < args.rows; row += kTileRows)
    attend_tiles(args, row, args.rows - row < kTileRows ? args.rows - row : kTileRows);
}

}  // namespace

void fill(KernelTable& table) {
  constexpr const char* kHere = "amx";
  constexpr const char* kVectors = "avx512";
  table = {linear,         linear_tiles, norm,        attend,   attend_bfloat16_tiles,
           store_bfloat16, argmax,       log_sum_exp, kVectors, kHere,
           kVectors,       kVectors,     kHere,       kVectors, kVectors,
           kVectors,       true,         true};
}

}  // namespace assay::cpu::amx
