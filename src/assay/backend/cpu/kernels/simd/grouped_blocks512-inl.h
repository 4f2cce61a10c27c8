// Rows of int8 inputs times grouped codes that become bytes near them, by vpdpbusd, for the ISA file that
// includes it inside its own anonymous namespace, after byte_blocks512-inl.h, whose registers it has. Not a
// header for others.
#pragma once

// Spans of 32 inputs, one group or two each, of some rows times two panels.
struct GroupedBlock {
  const std::int8_t* x;  // the first strip of row 0; rows lie 32 bytes apart
  std::int64_t x_strip;  // bytes to the next strip
  const float* x_scales;
  const std::int32_t* starts;
  std::int64_t x_next;    // bytes from a group's scales, and starts, to the next group's
  const std::uint8_t* w;  // 512 bytes a span
  std::int64_t w_next;    // bytes to the other panel
  const float* w_scales;  // 16 a group
  std::int64_t scales_next;
  std::int64_t spans;
  // Where weights have minima, whose bytes are their codes, so that sums start at zero: sums of the inputs,
  // which lie like their scales, and minima, which lie like those of the weights. Added behind all spans.
  const float *x_sums, *minima;
  std::int64_t groups;
  const float* from;  // [rows][32]: what is added to
  float* c;           // the same, written
};

// clang-format off
#define ASSAY_GROUPED_MULTIPLY(at, low, high, all_low, all_high, row, x) \
  "vpbroadcastd 32*" row "+4*" at "(%[x]), %%zmm" x "\n\t" \
  "vpdpbusd %%zmm" x ", %%zmm28, %%zmm" low "\n\t" \
  "vpdpbusd %%zmm" x ", %%zmm29, %%zmm" high "\n\t"
#define ASSAY_GROUPED_FOUR(n, at) \
  "vmovdqa64 64*" at "(%[w]), %%zmm28\n\tvmovdqa64 64*" at "(%[w],%[next]), %%zmm29\n\t" \
  ASSAY_BYTES_ROWS_##n(ASSAY_GROUPED_MULTIPLY, at)
#define ASSAY_GROUPED_LOWER(n) \
  ASSAY_GROUPED_FOUR(n, "0") ASSAY_GROUPED_FOUR(n, "1") ASSAY_GROUPED_FOUR(n, "2")
#define ASSAY_GROUPED_MIDDLE(n) \
  ASSAY_GROUPED_FOUR(n, "4") ASSAY_GROUPED_FOUR(n, "5") ASSAY_GROUPED_FOUR(n, "6")
// The last four inputs of a group of 32, each row's sums of which are converted and added to those of all
// groups at once: the units that convert, which multiply nothing, work beside those that do (Zen 5: 4 %).
#define ASSAY_GROUPED_MULTIPLY_LAST(at, low, high, all_low, all_high, row, x) \
  ASSAY_GROUPED_MULTIPLY(at, low, high, all_low, all_high, row, x) \
  "vbroadcastss 4*" row "(%[scales]), %%zmm30\n\t" \
  "vcvtdq2ps %%zmm" low ", %%zmm" low "\n\tvcvtdq2ps %%zmm" high ", %%zmm" high "\n\t" \
  "vmulps (%[of_panel]), %%zmm30, %%zmm31\n\tvmulps (%[of_panel],%[scales_next]), %%zmm30, %%zmm30\n\t" \
  "vfmadd231ps %%zmm" low ", %%zmm31, %%zmm" all_low "\n\t" \
  "vfmadd231ps %%zmm" high ", %%zmm30, %%zmm" all_high "\n\t"
#define ASSAY_GROUPED_LAST_FOUR(n, at) \
  "vmovdqa64 64*" at "(%[w]), %%zmm28\n\tvmovdqa64 64*" at "(%[w],%[next]), %%zmm29\n\t" \
  ASSAY_BYTES_ROWS_##n(ASSAY_GROUPED_MULTIPLY_LAST, at)
#define ASSAY_GROUPED_NEXT "add $64, %[of_panel]\n\tadd %[x_next], %[scales]\n\tadd %[x_next], %[starts]\n\t"
#define ASSAY_GROUPED_ZERO(at, low, high, all_low, all_high, row, x) \
  "vpxor %%xmm" low ", %%xmm" low ", %%xmm" low "\n\tvpxor %%xmm" high ", %%xmm" high ", %%xmm" high "\n\t"
#define ASSAY_GROUPED_END(n) \
  "vmovups (%[of_panel]), %%zmm28\n\tvmovups (%[of_panel],%[scales_next]), %%zmm29\n\t" \
  ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_FINISH, "0") ASSAY_GROUPED_NEXT
#define ASSAY_GROUPED_WHOLE(n, start) \
  ASSAY_BYTES_ROWS_##n(start, "0") ASSAY_GROUPED_LOWER(n) ASSAY_GROUPED_FOUR(n, "3") \
  ASSAY_GROUPED_MIDDLE(n) ASSAY_GROUPED_LAST_FOUR(n, "7") ASSAY_GROUPED_NEXT
#define ASSAY_GROUPED_HALVES(n, start) \
  ASSAY_BYTES_ROWS_##n(start, "0") ASSAY_GROUPED_LOWER(n) ASSAY_GROUPED_LAST_FOUR(n, "3") ASSAY_GROUPED_NEXT \
  ASSAY_BYTES_ROWS_##n(start, "0") ASSAY_GROUPED_MIDDLE(n) ASSAY_GROUPED_LAST_FOUR(n, "7") ASSAY_GROUPED_NEXT
#define ASSAY_GROUPED_MINIMUM(at, low, high, all_low, all_high, row, x) \
  "vbroadcastss 4*" row "(%[x]), %%zmm" x "\n\t" \
  "vfmadd231ps %%zmm28, %%zmm" x ", %%zmm" all_low "\n\t" \
  "vfmadd231ps %%zmm29, %%zmm" x ", %%zmm" all_high "\n\t"
#define ASSAY_GROUPED_MINIMA(n) \
  "mov %[sums], %[x]\n\tmov %[minima], %[w]\n\tmov %[groups], %[spans]\n.p2align 5\n3:\n\t" \
  "vmovups (%[w]), %%zmm28\n\tvmovups (%[w],%[scales_next]), %%zmm29\n\t" \
  ASSAY_BYTES_ROWS_##n(ASSAY_GROUPED_MINIMUM, "0") \
  "add %[x_next], %[x]\n\tadd $64, %[w]\n\tdec %[spans]\n\tjnz 3b\n\t"
#define ASSAY_GROUPED_NO_MINIMA(n)
#define ASSAY_GROUPED_BLOCK(name, n, span, start, behind) \
  void name(const GroupedBlock& block) { \
    const std::int8_t* x = block.x; \
    const std::uint8_t* w = block.w; \
    const float *scales = block.x_scales, *of_panel = block.w_scales; \
    const std::int32_t* starts = block.starts; \
    std::int64_t spans = block.spans; \
    __asm__ volatile( \
        ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_LOAD, "0") ".p2align 5\n2:\n\t" span(n, start) \
        "add %[x_strip], %[x]\n\tadd $512, %[w]\n\tdec %[spans]\n\tjnz 2b\n\t" behind(n) \
        ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_STORE, "0") \
        : [x] "+r"(x), [w] "+r"(w), [scales] "+r"(scales), [starts] "+r"(starts), [of_panel] "+r"(of_panel), \
          [spans] "+r"(spans) \
        : [x_strip] "r"(block.x_strip), [next] "r"(block.w_next), [scales_next] "r"(block.scales_next), \
          [x_next] "r"(block.x_next), [c] "r"(block.c), [from] "r"(block.from), \
          [sums] "m"(block.x_sums), [minima] "m"(block.minima), [groups] "m"(block.groups) \
        : ASSAY_USED); \
  }
#define ASSAY_GROUPED_BLOCKS(n) \
  ASSAY_GROUPED_BLOCK(add_grouped_block_##n, n, ASSAY_GROUPED_WHOLE, ASSAY_BYTES_START, ASSAY_GROUPED_NO_MINIMA) \
  ASSAY_GROUPED_BLOCK(add_halved_block_##n, n, ASSAY_GROUPED_HALVES, ASSAY_BYTES_START, ASSAY_GROUPED_NO_MINIMA) \
  ASSAY_GROUPED_BLOCK(add_block_with_minima_##n, n, ASSAY_GROUPED_WHOLE, ASSAY_GROUPED_ZERO, ASSAY_GROUPED_MINIMA) \
  ASSAY_GROUPED_BLOCK(add_halved_with_minima_##n, n, ASSAY_GROUPED_HALVES, ASSAY_GROUPED_ZERO, ASSAY_GROUPED_MINIMA)
// clang-format on
ASSAY_GROUPED_BLOCKS(3)
ASSAY_GROUPED_BLOCKS(4)
ASSAY_GROUPED_BLOCKS(5)
ASSAY_GROUPED_BLOCKS(6)
ASSAY_GROUPED_BLOCKS(7)

template <bool kIsHalf, bool kHasMinima>
void add_grouped_block(std::int64_t rows, const GroupedBlock& block) {
  constexpr void (*kOf[][5])(const GroupedBlock&) = {
      {add_grouped_block_3, add_grouped_block_4, add_grouped_block_5, add_grouped_block_6,
       add_grouped_block_7},
      {add_halved_block_3, add_halved_block_4, add_halved_block_5, add_halved_block_6, add_halved_block_7},
      {add_block_with_minima_3, add_block_with_minima_4, add_block_with_minima_5, add_block_with_minima_6,
       add_block_with_minima_7},
      {add_halved_with_minima_3, add_halved_with_minima_4, add_halved_with_minima_5, add_halved_with_minima_6,
       add_halved_with_minima_7}};
  kOf[(kHasMinima ? 2 : 0) + (kIsHalf ? 1 : 0)][rows - 3](block);
}

// At most kCodedPanels panels of all rows, a block of 256 inputs after the other.
template <typename Form>
void linear_grouped_panels(const GroupedInt8Args& args, std::byte* scratch, const Dot::Bytes& book,
                           std::int64_t first_panel, std::int64_t panels) {
  constexpr std::int64_t kColumns = 2 * kPanel, kPanelBytes = kInt8Block * kPanel, kOwnGroup = Form::kGroup,
                         kPairScales = 2 * sizeof(RunScales) / sizeof(float);
  const LinearArgs& to = args.to;
  const GroupedCodes& w = args.weights;
  const std::int64_t blocks = (to.rows + kByteBlockRows - 1) / kByteBlockRows, pairs = (panels + 1) / 2,
                     least_rows = to.rows / blocks, with_one_more = to.rows % blocks;
  auto* bytes = reinterpret_cast<std::uint8_t*>(scratch);
  auto* sums = reinterpret_cast<float*>(scratch + kCodedPanels * kPanel * kCodedInputs);
  alignas(64) static constexpr float kZeros[kByteBlockRows * kColumns] = {};
  alignas(64) RunScales by[kCodedPanels];
  for (std::int64_t k = 0; k < w.k_padded; k += kInt8Block) {
    const std::int64_t inputs = w.k_padded - k < kInt8Block ? w.k_padded - k : kInt8Block,
                       group = k / kOwnGroup * args.x.capacity;
    for (std::int64_t panel = 0; panel < panels; ++panel)
      expand_grouped_bytes<Form>(w, book, first_panel + panel, k, inputs,
                                 reinterpret_cast<std::int8_t*>(bytes + panel * kPanelBytes), &by[panel]);
    GroupedBlock block{.x = args.x.codes + args.x.offset(0, k),
                       .x_strip = args.x.strip(),
                       .x_scales = args.x.scales + group,
                       .starts = args.x.starts + group,
                       .x_next = args.x.capacity * 4,
                       .w = bytes,
                       .w_next = kPanelBytes,
                       .w_scales = reinterpret_cast<const float*>(by[0].scale),
                       .scales_next = sizeof(RunScales),
                       .spans = inputs / kSpan,
                       .x_sums = args.x.sums + group,
                       .minima = reinterpret_cast<const float*>(by[0].offset),
                       .groups = inputs / kOwnGroup,
                       .from = kZeros,
                       .c = sums};
    const bool is_last = k + inputs == w.k_padded;
    // All panels of some rows one after the other: their inputs, which come from farther away, serve them
    // all.
    for (std::int64_t row = 0, rows = 0, i = 0; i < blocks; ++i, row += rows) {
      rows = least_rows + (i < with_one_more ? 1 : 0);
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        const bool is_whole = 2 * pair + 1 < panels;
        GroupedBlock own = block;
        own.w += 2 * pair * kPanelBytes;
        own.w_scales += pair * kPairScales;
        own.minima += pair * kPairScales;
        own.c += (pair * to.rows + row) * kColumns;
        if (k > 0) own.from = own.c;
        if (!is_whole) own.w_next = own.scales_next = 0;  // the panel is its own neighbour
        add_grouped_block<Form::kIsHalf, Form::kHasOffset>(rows, own);
        if (!is_last) continue;
        const std::int64_t columns = is_whole ? kColumns : kPanel, first = (first_panel + 2 * pair) * kPanel;
        epilogue(to, own.c, kColumns, row, rows, first, to.n - first < columns ? to.n - first : columns);
      }
      block.x += rows * kInt8Group;
      block.x_scales += rows;
      block.starts += rows;
      block.x_sums += rows;
    }
  }
}

template <typename Form>
void linear_grouped_blocks(const GroupedInt8Args& args, const Dot::Bytes& book) {
  constexpr std::int64_t kRows = 16;  // without scratch memory at most
  alignas(64) std::byte own[coded_scratch_bytes(kRows)];
  const std::int64_t last = args.to.first_panel + args.to.panels;
  for (std::int64_t panel = args.to.first_panel; panel < last; panel += kCodedPanels)
    linear_grouped_panels<Form>(args, args.to.rows <= kRows ? own : args.scratch, book, panel,
                                last - panel < kCodedPanels ? last - panel : kCodedPanels);
}
