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
  ASSAY_GROUPED_FOUR(n, "0") ASSAY_GROUPED_FOUR(n, "1") ASSAY_GROUPED_FOUR(n, "2") ASSAY_GROUPED_FOUR(n, "3")
#define ASSAY_GROUPED_UPPER(n) \
  ASSAY_GROUPED_FOUR(n, "4") ASSAY_GROUPED_FOUR(n, "5") ASSAY_GROUPED_FOUR(n, "6") ASSAY_GROUPED_FOUR(n, "7")
#define ASSAY_GROUPED_BEGIN(n) ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_START, "0")
#define ASSAY_GROUPED_END(n) \
  "vmovups (%[of_panel]), %%zmm28\n\tvmovups (%[of_panel],%[scales_next]), %%zmm29\n\t" \
  ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_FINISH, "0") \
  "add $64, %[of_panel]\n\tadd %[x_next], %[scales]\n\tadd %[x_next], %[starts]\n\t"
#define ASSAY_GROUPED_WHOLE(n) \
  ASSAY_GROUPED_BEGIN(n) ASSAY_GROUPED_LOWER(n) ASSAY_GROUPED_UPPER(n) ASSAY_GROUPED_END(n)
#define ASSAY_GROUPED_HALVES(n) \
  ASSAY_GROUPED_BEGIN(n) ASSAY_GROUPED_LOWER(n) ASSAY_GROUPED_END(n) \
  ASSAY_GROUPED_BEGIN(n) ASSAY_GROUPED_UPPER(n) ASSAY_GROUPED_END(n)
#define ASSAY_GROUPED_BLOCK(name, n, span) \
  void name(const GroupedBlock& block) { \
    const std::int8_t* x = block.x; \
    const std::uint8_t* w = block.w; \
    const float *scales = block.x_scales, *of_panel = block.w_scales; \
    const std::int32_t* starts = block.starts; \
    std::int64_t spans = block.spans; \
    __asm__ volatile( \
        ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_LOAD, "0") ".p2align 5\n2:\n\t" span(n) \
        "add %[x_strip], %[x]\n\tadd $512, %[w]\n\tdec %[spans]\n\tjnz 2b\n\t" \
        ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_STORE, "0") \
        : [x] "+r"(x), [w] "+r"(w), [scales] "+r"(scales), [starts] "+r"(starts), [of_panel] "+r"(of_panel), \
          [spans] "+r"(spans) \
        : [x_strip] "r"(block.x_strip), [next] "r"(block.w_next), [scales_next] "r"(block.scales_next), \
          [x_next] "r"(block.x_next), [c] "r"(block.c), [from] "r"(block.from) \
        : ASSAY_USED); \
  }
#define ASSAY_GROUPED_BLOCKS(n) \
  ASSAY_GROUPED_BLOCK(add_grouped_block_##n, n, ASSAY_GROUPED_WHOLE) \
  ASSAY_GROUPED_BLOCK(add_halved_block_##n, n, ASSAY_GROUPED_HALVES)
// clang-format on
ASSAY_GROUPED_BLOCKS(3)
ASSAY_GROUPED_BLOCKS(4)
ASSAY_GROUPED_BLOCKS(5)
ASSAY_GROUPED_BLOCKS(6)
ASSAY_GROUPED_BLOCKS(7)

void add_grouped_block(bool is_half, std::int64_t rows, const GroupedBlock& block) {
  constexpr void (*kOf[][5])(const GroupedBlock&) = {
      {add_grouped_block_3, add_grouped_block_4, add_grouped_block_5, add_grouped_block_6,
       add_grouped_block_7},
      {add_halved_block_3, add_halved_block_4, add_halved_block_5, add_halved_block_6, add_halved_block_7}};
  kOf[is_half ? 1 : 0][rows - 3](block);
}

// Behind the groups of a block: sums of the inputs times minima of two panels.
ASSAY_INLINE void add_minima(const float* x_sums, std::int64_t x_next, std::int64_t rows, std::int64_t groups,
                             const Vec* low, const Vec* high, float* c) {
  for (std::int64_t row = 0; row < rows; ++row, c += 2 * kPanel) {
    Vec first = Vec::load(c), second = Vec::load(c + kPanel);
    for (std::int64_t group = 0; group < groups; ++group) {
      const Vec sum = Vec::set(x_sums[group * x_next + row]);
      first = Vec::fma(sum, low[group], first);
      second = Vec::fma(sum, high[group], second);
    }
    first.store(c);
    second.store(c + kPanel);
  }
}

// At most kCodedPanels panels of all rows, a block of 256 inputs after the other.
template <typename Form>
void linear_grouped_panels(const GroupedInt8Args& args, std::byte* scratch, const Dot::Bytes& book,
                           std::int64_t first_panel, std::int64_t panels) {
  constexpr std::int64_t kColumns = 2 * kPanel, kPanelBytes = kInt8Block * kPanel, kOwnGroup = Form::kGroup;
  const LinearArgs& to = args.to;
  const GroupedCodes& w = args.weights;
  const std::int64_t blocks = (to.rows + kByteBlockRows - 1) / kByteBlockRows, pairs = (panels + 1) / 2;
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
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const std::int64_t panel = first_panel + 2 * pair, left = to.n - panel * kPanel;
      const bool is_whole = 2 * pair + 1 < panels;  // else the panel is its own neighbour
      const std::int64_t columns = is_whole ? kColumns : kPanel;
      const RunScales &low = by[2 * pair], &high = by[2 * pair + (is_whole ? 1 : 0)];
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t row = to.rows * block / blocks, rows = to.rows * (block + 1) / blocks - row;
        float* c = sums + (pair * to.rows + row) * kColumns;
        add_grouped_block(Form::kIsHalf, rows,
                          {.x = args.x.codes + args.x.offset(row, k),
                           .x_strip = args.x.strip(),
                           .x_scales = args.x.scales + group + row,
                           .starts = args.x.starts + group + row,
                           .x_next = args.x.capacity * 4,
                           .w = bytes + 2 * pair * kPanelBytes,
                           .w_next = is_whole ? kPanelBytes : 0,
                           .w_scales = reinterpret_cast<const float*>(low.scale),
                           .scales_next = is_whole ? static_cast<std::int64_t>(sizeof(RunScales)) : 0,
                           .spans = inputs / kSpan,
                           .from = k == 0 ? kZeros : c,
                           .c = c});
        if (Form::kHasOffset)
          add_minima(args.x.sums + group + row, args.x.capacity, rows, inputs / kOwnGroup, low.offset,
                     high.offset, c);
        if (k + inputs == w.k_padded)
          epilogue(to, c, kColumns, row, rows, panel * kPanel, left < columns ? left : columns);
      }
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
