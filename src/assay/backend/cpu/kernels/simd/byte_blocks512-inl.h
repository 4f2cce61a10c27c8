// Rows of int8 inputs times 4-bit weights that become bytes near them, by vpdpbusd, for the ISA file that
// includes it inside its own anonymous namespace. Not a header for others.
//
// The sums of a group of inputs and those of all groups are both in registers, up to 14 each: to keep the
// latter in memory costs a tenth (Zen 4). The bits are those of few rows.
#pragma once

// Groups of some rows times two panels.
struct ByteBlock {
  const std::int8_t* x;  // the first strip of row 0; rows lie 64 bytes apart
  std::int64_t x_strip;  // bytes to the next strip
  const float* x_scales;
  const std::int32_t* starts;
  std::int64_t x_next;    // bytes from a group's scales, and starts, to the next group's
  const std::uint8_t* w;  // bytes that are 128 too large: 1 KB a strip
  std::int64_t w_next;    // bytes to the other panel
  const float* w_scales;  // 16 a group
  std::int64_t scales_next;
  std::int64_t groups, strips;  // strips of a group
  const float* from;            // [rows][32]: what is added to
  float* c;                     // the same, written
};

// clang-format off
// X(at, two sums of a group, two of all groups, row, register of the input), at: a place in a strip of 64
// bytes. zmm28 and zmm29 hold weights, or their scales.
#define ASSAY_BYTES_ROWS_3(X, at) \
  X(at, "0", "1", "14", "15", "0", "30") X(at, "2", "3", "16", "17", "1", "31") \
  X(at, "4", "5", "18", "19", "2", "30")
#define ASSAY_BYTES_ROWS_4(X, at) ASSAY_BYTES_ROWS_3(X, at) X(at, "6", "7", "20", "21", "3", "31")
#define ASSAY_BYTES_ROWS_5(X, at) ASSAY_BYTES_ROWS_4(X, at) X(at, "8", "9", "22", "23", "4", "30")
#define ASSAY_BYTES_ROWS_6(X, at) ASSAY_BYTES_ROWS_5(X, at) X(at, "10", "11", "24", "25", "5", "31")
#define ASSAY_BYTES_ROWS_7(X, at) ASSAY_BYTES_ROWS_6(X, at) X(at, "12", "13", "26", "27", "6", "30")
#define ASSAY_BYTES_LOAD(at, low, high, all_low, all_high, row, x) \
  "vmovups 128*" row "(%[from]), %%zmm" all_low "\n\tvmovups 64+128*" row "(%[from]), %%zmm" all_high "\n\t"
#define ASSAY_BYTES_STORE(at, low, high, all_low, all_high, row, x) \
  "vmovups %%zmm" all_low ", 128*" row "(%[c])\n\tvmovups %%zmm" all_high ", 64+128*" row "(%[c])\n\t"
#define ASSAY_BYTES_START(at, low, high, all_low, all_high, row, x) \
  "vpbroadcastd 4*" row "(%[starts]), %%zmm" low "\n\tvmovdqa64 %%zmm" low ", %%zmm" high "\n\t"
#define ASSAY_BYTES_MULTIPLY(at, low, high, all_low, all_high, row, x) \
  "vpbroadcastd 64*" row "+4*" at "(%[x]), %%zmm" x "\n\t" \
  "vpdpbusd %%zmm" x ", %%zmm28, %%zmm" low "\n\t" \
  "vpdpbusd %%zmm" x ", %%zmm29, %%zmm" high "\n\t"
#define ASSAY_BYTES_FOUR(n, at) \
  "vmovdqa64 64*" at "(%[w]), %%zmm28\n\tvmovdqa64 64*" at "(%[w],%[next]), %%zmm29\n\t" \
  ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_MULTIPLY, at)
#define ASSAY_BYTES_STRIP(n) \
  ASSAY_BYTES_FOUR(n, "0") ASSAY_BYTES_FOUR(n, "1") ASSAY_BYTES_FOUR(n, "2") ASSAY_BYTES_FOUR(n, "3") \
  ASSAY_BYTES_FOUR(n, "4") ASSAY_BYTES_FOUR(n, "5") ASSAY_BYTES_FOUR(n, "6") ASSAY_BYTES_FOUR(n, "7") \
  ASSAY_BYTES_FOUR(n, "8") ASSAY_BYTES_FOUR(n, "9") ASSAY_BYTES_FOUR(n, "10") ASSAY_BYTES_FOUR(n, "11") \
  ASSAY_BYTES_FOUR(n, "12") ASSAY_BYTES_FOUR(n, "13") ASSAY_BYTES_FOUR(n, "14") ASSAY_BYTES_FOUR(n, "15")
#define ASSAY_BYTES_FINISH(at, low, high, all_low, all_high, row, x) \
  "vbroadcastss 4*" row "(%[scales]), %%zmm30\n\t" \
  "vcvtdq2ps %%zmm" low ", %%zmm" low "\n\tvcvtdq2ps %%zmm" high ", %%zmm" high "\n\t" \
  "vmulps %%zmm28, %%zmm30, %%zmm31\n\tvmulps %%zmm29, %%zmm30, %%zmm30\n\t" \
  "vfmadd231ps %%zmm" low ", %%zmm31, %%zmm" all_low "\n\t" \
  "vfmadd231ps %%zmm" high ", %%zmm30, %%zmm" all_high "\n\t"
// clang-format on

#define ASSAY_BYTE_BLOCK(n)                                                                                   \
  void add_byte_block_##n(const ByteBlock& block) {                                                           \
    const std::int8_t* x = block.x;                                                                           \
    const std::uint8_t* w = block.w;                                                                          \
    const float *scales = block.x_scales, *of_panel = block.w_scales;                                         \
    const std::int32_t* starts = block.starts;                                                                \
    std::int64_t groups = block.groups, strips = 0;                                                           \
    const std::int64_t strips_of_group = block.strips;                                                        \
    __asm__ volatile(                                                                                       \
        ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_LOAD, "0")                                                         \
        ".p2align 5\n2:\n\t" ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_START, "0")                                   \
        "mov %[of_group], %[strips]\n.p2align 5\n3:\n\t" ASSAY_BYTES_STRIP(n)                               \
        "add %[x_strip], %[x]\n\tadd $1024, %[w]\n\tdec %[strips]\n\tjnz 3b\n\t"                            \
        "vmovups (%[of_panel]), %%zmm28\n\tvmovups (%[of_panel],%[scales_next]), %%zmm29\n\t"              \
        ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_FINISH, "0")                                                       \
        "add $64, %[of_panel]\n\tadd %[x_next], %[scales]\n\tadd %[x_next], %[starts]\n\t"                 \
        "dec %[groups]\n\tjnz 2b\n\t" ASSAY_BYTES_ROWS_##n(ASSAY_BYTES_STORE, "0")                         \
        : [x] "+r"(x), [w] "+r"(w), [scales] "+r"(scales), [starts] "+r"(starts), [of_panel] "+r"(of_panel), \
          [groups] "+r"(groups), [strips] "+r"(strips)                                                      \
        : [x_strip] "r"(block.x_strip), [next] "r"(block.w_next), [scales_next] "r"(block.scales_next),     \
          [x_next] "r"(block.x_next), [c] "r"(block.c), [from] "r"(block.from), [of_group] "m"(strips_of_group)                     \
        : ASSAY_USED); \
  }
ASSAY_BYTE_BLOCK(3)
ASSAY_BYTE_BLOCK(4)
ASSAY_BYTE_BLOCK(5)
ASSAY_BYTE_BLOCK(6)
ASSAY_BYTE_BLOCK(7)

constexpr std::int64_t kByteBlockRows = 7;
void add_byte_block(std::int64_t rows, const ByteBlock& block) {
  constexpr void (*kOf[])(const ByteBlock&) = {add_byte_block_3, add_byte_block_4, add_byte_block_5,
                                               add_byte_block_6, add_byte_block_7};
  kOf[rows - 3](block);
}

// The weights of `inputs` inputs from k on as bytes that are 128 too large: to + panel * size, all panels
// side by side.
void expand_bytes(const Int8ActivationsArgs& args, Dot::Bytes codebook, std::int64_t first_panel,
                  std::int64_t panels, std::int64_t k, std::int64_t inputs, std::uint8_t* to,
                  std::int64_t size) {
  const std::int64_t panel_bytes = args.weights.k_padded / kCodeInputs * kPanel * 4;
  const std::uint8_t* codes = args.weights.codes + first_panel * panel_bytes + k / kCodeInputs * kPanel * 4;
  for (std::int64_t i = 0; i < inputs; i += kCodeInputs, codes += kPanel * 4, to += 2 * kPanel * 4)
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const std::uint8_t* eight = codes + panel * panel_bytes;
      fetch_ahead(eight, distance_of<kGroup>(args.weights.fetch), args.weights.fetch);
      const __m512i some = _mm512_loadu_si512(eight);
      _mm512_store_si512(to + panel * size, Dot::look_up_low(codebook, some).v);
      _mm512_store_si512(to + panel * size + kPanel * 4, Dot::look_up_high(codebook, some).v);
    }
}

// At most kCodedPanels panels of all rows.
void linear_coded_panels(const Int8ActivationsArgs& args, Dot::Bytes codebook, std::int64_t first_panel,
                         std::int64_t panels) {
  const LinearArgs& to = args.to;
  const ExpandArgs& weights = args.weights;
  const std::int64_t groups = (weights.k_padded + weights.group - 1) / weights.group,
                     blocks = (to.rows + kByteBlockRows - 1) / kByteBlockRows, pairs = (panels + 1) / 2;
  constexpr std::int64_t kColumns = 2 * kPanel;
  static_assert(kCodedInputs % kMaxCodedGroup == 0, "no group is cut");
  auto* bytes = reinterpret_cast<std::uint8_t*>(args.scratch);
  auto* sums = reinterpret_cast<float*>(args.scratch + kCodedPanels * kPanel * kCodedInputs);
  alignas(64) float scales[kCodedPanels][kCodedInputs / kInt8Columns * kPanel];
  alignas(64) static constexpr float kZeros[kByteBlockRows * kColumns] = {};
  const bool is_one_pass = weights.k_padded <= kCodedInputs;  // sums need not wait in memory
  for (std::int64_t k = 0; k < weights.k_padded; k += kCodedInputs) {
    const std::int64_t inputs = weights.k_padded - k < kCodedInputs ? weights.k_padded - k : kCodedInputs,
                       group = k / weights.group;
    const bool is_last = k + inputs == weights.k_padded;
    expand_bytes(args, codebook, first_panel, panels, k, inputs, bytes, kCodedInputs * kPanel);
    for (std::int64_t panel = 0; panel < panels; ++panel)
      for (std::int64_t i = 0; i * weights.group < inputs; ++i)
        load_scales(weights.scales, ((first_panel + panel) * groups + group + i) * kPanel)
            .store(scales[panel] + i * kPanel);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const std::int64_t panel = first_panel + 2 * pair, left = to.n - panel * kPanel;
      const bool is_whole = 2 * pair + 1 < panels;  // else the panel is its own neighbour
      const std::int64_t columns = is_whole ? kColumns : kPanel;
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t row = to.rows * block / blocks, rows = to.rows * (block + 1) / blocks - row;
        float* c = is_one_pass ? sums : sums + (pair * to.rows + row) * kColumns;
        if (is_last && to.y != nullptr)
          for (std::int64_t i = row; i < row + rows; ++i)
            for (std::int64_t j = 0; j < columns; j += kPanel)
              __builtin_prefetch(to.y + i * to.y_stride + panel * kPanel + j, 1);
        // Whole groups, and then what is left of the last.
        for (std::int64_t first = group; first * weights.group < k + inputs;) {
          const std::int64_t rest = k + inputs - first * weights.group,
                             in_group = rest < weights.group ? rest : weights.group, count = rest / in_group;
          add_byte_block(
              rows, {.x = args.x.codes + args.x.offset(row, first * weights.group),
                     .x_strip = args.x.strip(),
                     .x_scales = args.x.scales + first * args.x.capacity + row,
                     .starts = args.x.starts + first * args.x.capacity + row,
                     .x_next = args.x.capacity * 4,
                     .w = bytes + 2 * pair * kCodedInputs * kPanel + (first - group) * weights.group * kPanel,
                     .w_next = is_whole ? kCodedInputs * kPanel : 0,
                     .w_scales = scales[2 * pair] + (first - group) * kPanel,
                     .scales_next = is_whole ? static_cast<std::int64_t>(sizeof(scales[0])) : 0,
                     .groups = count,
                     .strips = (in_group + kInt8Columns - 1) / kInt8Columns,
                     .from = first == 0 ? kZeros : c,
                     .c = c});
          first += count;
        }
        if (is_last) epilogue(to, c, kColumns, row, rows, panel * kPanel, left < columns ? left : columns);
      }
    }
  }
}

void linear_coded_blocks(const Int8ActivationsArgs& args) {
  const Dot::Bytes codebook = Dot::byte_codebook(args.codebook);
  const std::int64_t last = args.to.first_panel + args.to.panels;
  for (std::int64_t panel = args.to.first_panel; panel < last; panel += kCodedPanels)
    linear_coded_panels(args, codebook, panel, last - panel < kCodedPanels ? last - panel : kCodedPanels);
}
