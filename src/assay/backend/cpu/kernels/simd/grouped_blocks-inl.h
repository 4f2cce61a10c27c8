// Rows of int8 inputs times grouped codes that become bytes near them, on AVX2 with and without AVX-VNNI and
// on AVX-512 without VNNI, for the ISA files that include it inside their own anonymous namespace, after
// signed_blocks-inl.h, whose names of registers and rows it has. Not a header for others.
//
// Without VNNI sums of a group are in 16 bits: one vpmaddubsw and one vpaddw for 32 products instead of
// vpmaddubsw, vpmaddwd and vpaddd, of which the former two wait for the same two units (Zen 4). Bytes of 8
// bits do not fit: they go through add_signed_block.
#pragma once

constexpr std::int64_t kGroupedRows = 6;

// Spans of 32 inputs, one group or two each, of some rows times kSignedOutputs outputs.
struct GroupedBlock {
  const std::int8_t* x;  // the first strip of row 0; rows lie 32 bytes apart
  std::int64_t x_strip;  // bytes to the next strip
  const float* x_scales;
  const std::int32_t *starts, *rests;  // rests: added to sums where the form has any
  std::int64_t x_next;                 // bytes from a group's scales, starts and rests to the next group's
  const std::int8_t* w;                // [inputs / 4][16][4], the next panel w_next bytes on
  std::int64_t w_next;
  const float* w_scales;  // [groups][kSignedColumns]
  std::int64_t spans;
  float* sums;  // [rows][kSignedColumns], added to
};

// clang-format off
#define ASSAY_GROUPED_W0 ASSAY_R("12")
#define ASSAY_GROUPED_W1 ASSAY_R("13")
#define ASSAY_GROUPED_X ASSAY_R("14")
#define ASSAY_GROUPED_T ASSAY_R("15")
// X(at, lower sum, upper sum, row), as ASSAY_SIGNED_ROWS have it.
#define ASSAY_GROUPED_START(at, low, high, row) \
  "vpbroadcastd 4*" row "(%[starts]), " ASSAY_R(low) "\n\tvmovaps " ASSAY_R(low) ", " ASSAY_R(high) "\n\t"
#if defined(ASSAY_VNNI_256)
#define ASSAY_GROUPED_MULTIPLY(at, low, high, row) \
  "vpbroadcastd 32*" row "+4*" at "(%[x]), " ASSAY_GROUPED_X "\n\t" \
  ASSAY_VEX "vpdpbusd " ASSAY_GROUPED_X ", " ASSAY_GROUPED_W0 ", " ASSAY_R(low) "\n\t" \
  ASSAY_VEX "vpdpbusd " ASSAY_GROUPED_X ", " ASSAY_GROUPED_W1 ", " ASSAY_R(high) "\n\t"
#define ASSAY_GROUPED_WIDEN(at, low, high, row) ""
#else
#define ASSAY_GROUPED_MULTIPLY(at, low, high, row) \
  "vpbroadcastd 32*" row "+4*" at "(%[x]), " ASSAY_GROUPED_X "\n\t" \
  "vpmaddubsw " ASSAY_GROUPED_X ", " ASSAY_GROUPED_W0 ", " ASSAY_GROUPED_T "\n\t" \
  "vpmaddubsw " ASSAY_GROUPED_X ", " ASSAY_GROUPED_W1 ", " ASSAY_GROUPED_X "\n\t" \
  "vpaddw " ASSAY_GROUPED_T ", " ASSAY_R(low) ", " ASSAY_R(low) "\n\t" \
  "vpaddw " ASSAY_GROUPED_X ", " ASSAY_R(high) ", " ASSAY_R(high) "\n\t"
#define ASSAY_GROUPED_WIDEN(at, low, high, row) \
  "vpmaddwd " ASSAY_GROUPED_T ", " ASSAY_R(low) ", " ASSAY_R(low) "\n\t" \
  "vpmaddwd " ASSAY_GROUPED_T ", " ASSAY_R(high) ", " ASSAY_R(high) "\n\t"
#endif
#define ASSAY_GROUPED_REST(at, low, high, row) \
  "vpbroadcastd 4*" row "(%[rests]), " ASSAY_GROUPED_X "\n\t" \
  "vpaddd " ASSAY_GROUPED_X ", " ASSAY_R(low) ", " ASSAY_R(low) "\n\t" \
  "vpaddd " ASSAY_GROUPED_X ", " ASSAY_R(high) ", " ASSAY_R(high) "\n\t"
// The registers of weights hold their scales.
#define ASSAY_GROUPED_SCALE(at, low, high, row) \
  "vbroadcastss 4*" row "(%[x_scales]), " ASSAY_GROUPED_X "\n\t" \
  "vcvtdq2ps " ASSAY_R(low) ", " ASSAY_R(low) "\n\tvcvtdq2ps " ASSAY_R(high) ", " ASSAY_R(high) "\n\t" \
  "vmulps " ASSAY_GROUPED_W0 ", " ASSAY_GROUPED_X ", " ASSAY_GROUPED_T "\n\t" \
  "vmulps " ASSAY_GROUPED_W1 ", " ASSAY_GROUPED_X ", " ASSAY_GROUPED_X "\n\t" \
  "vfmadd213ps " ASSAY_SIGNED_LOW(row) ", " ASSAY_GROUPED_T ", " ASSAY_R(low) "\n\t" \
  "vfmadd213ps " ASSAY_SIGNED_HIGH(row) ", " ASSAY_GROUPED_X ", " ASSAY_R(high) "\n\t" \
  ASSAY_SIGNED_STORE(at, low, high, row)
#define ASSAY_GROUPED_FOUR(n, at) \
  "vmovups 64*" at "(%[w]), " ASSAY_GROUPED_W0 "\n\tvmovups " ASSAY_SIGNED_OTHER(at) ", " ASSAY_GROUPED_W1 "\n\t" \
  ASSAY_SIGNED_ROWS_##n(ASSAY_GROUPED_MULTIPLY, at)
#define ASSAY_GROUPED_LOWER(n) \
  ASSAY_GROUPED_FOUR(n, "0") ASSAY_GROUPED_FOUR(n, "1") ASSAY_GROUPED_FOUR(n, "2") ASSAY_GROUPED_FOUR(n, "3")
#define ASSAY_GROUPED_UPPER(n) \
  ASSAY_GROUPED_FOUR(n, "4") ASSAY_GROUPED_FOUR(n, "5") ASSAY_GROUPED_FOUR(n, "6") ASSAY_GROUPED_FOUR(n, "7")
#define ASSAY_GROUPED_NO_REST(n) ""
#define ASSAY_GROUPED_RESTS(n) ASSAY_SIGNED_ROWS_##n(ASSAY_GROUPED_REST, "0") "add %[x_next], %[rests]\n\t"
#define ASSAY_GROUPED_BEGIN(n) ASSAY_SIGNED_ROWS_##n(ASSAY_GROUPED_START, "0")
#define ASSAY_GROUPED_END(n, rest) \
  "vpbroadcastd %[ones], " ASSAY_GROUPED_T "\n\t" ASSAY_SIGNED_ROWS_##n(ASSAY_GROUPED_WIDEN, "0") rest(n) \
  "vmovups (%[w_scales]), " ASSAY_GROUPED_W0 "\n\tvmovups " ASSAY_WIDE "(%[w_scales]), " ASSAY_GROUPED_W1 "\n\t" \
  ASSAY_SIGNED_ROWS_##n(ASSAY_GROUPED_SCALE, "0") \
  "add $256, %[w_scales]\n\tadd %[x_next], %[x_scales]\n\tadd %[x_next], %[starts]\n\t"
#define ASSAY_GROUPED_WHOLE(n) \
  ASSAY_GROUPED_BEGIN(n) ASSAY_GROUPED_LOWER(n) ASSAY_GROUPED_UPPER(n) ASSAY_GROUPED_END(n, ASSAY_GROUPED_NO_REST)
#define ASSAY_GROUPED_WITH_REST(n) \
  ASSAY_GROUPED_BEGIN(n) ASSAY_GROUPED_LOWER(n) ASSAY_GROUPED_UPPER(n) ASSAY_GROUPED_END(n, ASSAY_GROUPED_RESTS)
#define ASSAY_GROUPED_HALVES(n) \
  ASSAY_GROUPED_BEGIN(n) ASSAY_GROUPED_LOWER(n) ASSAY_GROUPED_END(n, ASSAY_GROUPED_NO_REST) \
  ASSAY_GROUPED_BEGIN(n) ASSAY_GROUPED_UPPER(n) ASSAY_GROUPED_END(n, ASSAY_GROUPED_NO_REST)
#define ASSAY_GROUPED_BLOCK(name, n, span) \
  void name(const GroupedBlock& block) { \
    const std::int8_t *x = block.x, *w = block.w; \
    const float *x_scales = block.x_scales, *w_scales = block.w_scales; \
    const std::int32_t *starts = block.starts, *rests = block.rests; \
    std::int64_t spans = block.spans; \
    const std::int64_t x_strip = block.x_strip; \
    __asm__ volatile( \
        ".p2align 5\n2:\n\t" span(n) \
        "add %[x_strip], %[x]\n\tadd $512, %[w]\n\tdec %[spans]\n\tjnz 2b\n\t" \
        : [x] "+r"(x), [w] "+r"(w), [x_scales] "+r"(x_scales), [starts] "+r"(starts), [rests] "+r"(rests), \
          [w_scales] "+r"(w_scales), [spans] "+r"(spans) \
        : [x_strip] "m"(x_strip), [w_next] "r"(block.w_next), [x_next] "r"(block.x_next), \
          [sums] "r"(block.sums), [ones] "m"(kOnes) \
        : ASSAY_SIGNED_USED); \
  }
#define ASSAY_GROUPED_BLOCKS(n) \
  ASSAY_GROUPED_BLOCK(add_grouped_block_##n, n, ASSAY_GROUPED_WHOLE) \
  ASSAY_GROUPED_BLOCK(add_rests_block_##n, n, ASSAY_GROUPED_WITH_REST) \
  ASSAY_GROUPED_BLOCK(add_halved_block_##n, n, ASSAY_GROUPED_HALVES)
// clang-format on
ASSAY_GROUPED_BLOCKS(3)
ASSAY_GROUPED_BLOCKS(4)
ASSAY_GROUPED_BLOCKS(5)
ASSAY_GROUPED_BLOCKS(6)

template <typename Form>
void add_grouped_block(std::int64_t rows, const GroupedBlock& block) {
  constexpr void (*kOf[][4])(const GroupedBlock&) = {
      {add_grouped_block_3, add_grouped_block_4, add_grouped_block_5, add_grouped_block_6},
      {add_rests_block_3, add_rests_block_4, add_rests_block_5, add_rests_block_6},
      {add_halved_block_3, add_halved_block_4, add_halved_block_5, add_halved_block_6}};
  kOf[Form::kIsHalf ? 2 : Form::kHasRest ? 1 : 0][rows - 3](block);
}

// Behind the groups of a block: sums of the inputs times minima of some panels.
ASSAY_INLINE void add_minima(const float* x_sums, std::int64_t x_next, std::int64_t rows, std::int64_t groups,
                             const RunScales* by, std::int64_t vectors, float* sums) {
  for (std::int64_t row = 0; row < rows; ++row, sums += kSignedColumns)
    for (std::int64_t j = 0; j < vectors; j += 2) {  // the last may be beside one that nobody reads
      Vec first = Vec::load(sums + j * Vec::kWidth), second = Vec::load(sums + (j + 1) * Vec::kWidth);
      for (std::int64_t group = 0; group < groups; ++group) {
        const Vec sum = Vec::set(x_sums[group * x_next + row]);
        first = Vec::fma(sum, by[j].offset[group], first);
        second = Vec::fma(sum, by[j + 1].offset[group], second);
      }
      first.store(sums + j * Vec::kWidth);
      second.store(sums + (j + 1) * Vec::kWidth);
    }
}

// Memory near the core, for 256 inputs of kSignedPanels panels.
struct GroupedNear {
  static constexpr std::int64_t kBytes = kInt8Block * kPanel;
  alignas(64) std::int8_t weights[kSignedPanels * kBytes];
  alignas(64) float scales[kMostGroups * kSignedColumns];
  RunScales by[kSignedPanels * kParts];
  alignas(64) NearRows rows;  // where bytes have a sign
};
static_assert(kSignedInputs == kInt8Block);

// Codes of rows, strips of 32 inputs, as add_signed_block has them.
[[maybe_unused]] ASSAY_INLINE void set_near_spans(const GroupedRows& x, std::int64_t first_row,
                                                  std::int64_t rows, std::int64_t k, std::int64_t inputs,
                                                  NearRows& near) {
  alignas(64) std::int8_t codes[kSignedInputs] = {};
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < inputs; i += kSpan)
      __builtin_memcpy(codes + i, x.codes + x.offset(first_row + row, k + i), kSpan);
    std::uint8_t* to = near + row * 2 * kSignedInputs;
    for (std::int64_t i = 0; i < inputs; i += Dot::kBytes)
      Dot::set_near(codes + i, to + i, to + kSignedInputs + i);
  }
}

// The products of 256 inputs, or the rest, from k on: of some rows and panels.
template <typename Form>
ASSAY_INLINE void add_near(const GroupedRows& x, std::int64_t row, std::int64_t rows, std::int64_t k,
                           std::int64_t inputs, std::int64_t panels, GroupedNear& near, float* sums) {
  const std::int64_t group = k / Form::kGroup * x.capacity + row;
  if constexpr (Form::kHasSign) set_near_spans(x, row, rows, k, inputs, near.rows);
  for (std::int64_t i = 0; i < blocks_of(panels); ++i) {
    const std::int8_t* w = near.weights + i * kSignedOutputs / kPanel * GroupedNear::kBytes;
    const std::int64_t w_next = has_neighbour(i, panels) ? GroupedNear::kBytes : 0;
    if constexpr (Form::kHasSign)
      add_signed_block(rows, {.x = near.rows,
                              .w = w,
                              .w_next = w_next,
                              .inputs = kInt8Group,
                              .sums = reinterpret_cast<std::byte*>(sums + i * kSignedOutputs),
                              .groups = inputs / kInt8Group,
                              .x_scales = x.scales + group,
                              .starts = x.own_starts + group,
                              .x_next = x.capacity * 4,
                              .w_scales = near.scales + i * kSignedOutputs,
                              .ahead = reinterpret_cast<const std::byte*>(w),
                              .step = 0,
                              .ahead_next = 0});
    else
      add_grouped_block<Form>(rows, {.x = x.codes + x.offset(row, k),
                                     .x_strip = x.strip(),
                                     .x_scales = x.scales + group,
                                     .starts = (Dot::kHasOffset ? x.starts : x.own_starts) + group,
                                     .rests = x.starts + group,
                                     .x_next = x.capacity * 4,
                                     .w = w,
                                     .w_next = w_next,
                                     .w_scales = near.scales + i * kSignedOutputs,
                                     .spans = inputs / kSpan,
                                     .sums = sums + i * kSignedOutputs});
  }
  if (Form::kHasOffset)
    add_minima(x.sums + group, x.capacity, rows, inputs / Form::kGroup, near.by, panels * kParts, sums);
}

// At most kSignedPanels panels of at most kSignedPassRows rows, no fewer than three.
template <typename Form>
void linear_grouped_pass(const GroupedInt8Args& args, const Dot::Bytes& book, std::int64_t first_row,
                         std::int64_t rows, std::int64_t panel, std::int64_t panels) {
  constexpr std::int64_t kRows = Form::kHasSign ? kSignedRows : kGroupedRows;
  const LinearArgs& to = args.to;
  const GroupedCodes& w = args.weights;
  const std::int64_t blocks = (rows + kRows - 1) / kRows, left = to.n - panel * kPanel,
                     columns = panels * kPanel;
  GroupedNear near;
  alignas(64) float sums[kSignedPassRows * kSignedColumns];
  for (std::int64_t i = 0; i < rows * kSignedColumns; i += Vec::kWidth) Vec::set(0.0F).store(sums + i);
  for (std::int64_t k = 0; k < w.k_padded; k += kInt8Block) {
    const std::int64_t inputs = w.k_padded - k < kInt8Block ? w.k_padded - k : kInt8Block;
    const bool is_last = k + inputs == w.k_padded;
    for (std::int64_t i = 0; i < panels; ++i)
      expand_grouped_bytes<Form>(w, book, panel + i, k, inputs, near.weights + i * GroupedNear::kBytes,
                                 near.by + i * kParts);
    for (std::int64_t j = 0; j < panels * kParts; ++j)
      for (std::int64_t group = 0; group < inputs / Form::kGroup; ++group)
        near.by[j].scale[group].store(near.scales + group * kSignedColumns + j * Vec::kWidth);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t row = rows * block / blocks, count = rows * (block + 1) / blocks - row;
      float* of_rows = sums + row * kSignedColumns;
      if (is_last) fetch_outputs(to, first_row + row, count, panel * kPanel);
      add_near<Form>(args.x, first_row + row, count, k, inputs, panels, near, of_rows);
      if (is_last)
        epilogue(to, of_rows, kSignedColumns, first_row + row, count, panel * kPanel,
                 left < columns ? left : columns);
    }
  }
}

template <typename Form>
void linear_grouped_blocks(const GroupedInt8Args& args, const Dot::Bytes& book) {
  const LinearArgs& to = args.to;
  const std::int64_t last = to.first_panel + to.panels,
                     passes = (to.rows + kSignedPassRows - 1) / kSignedPassRows;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t row = to.rows * pass / passes, rows = to.rows * (pass + 1) / passes - row;
    for (std::int64_t panel = to.first_panel; panel < last; panel += kSignedPanels)
      linear_grouped_pass<Form>(args, book, row, rows, panel,
                                last - panel < kSignedPanels ? last - panel : kSignedPanels);
  }
}
