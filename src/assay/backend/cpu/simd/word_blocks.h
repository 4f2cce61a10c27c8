// Blocks of rows times int8 or 4-bit weights where no instruction multiplies bytes (AVX2, AVX-512 without
// VNNI), for the ISA files that include it inside their own anonymous namespace, after float32_kernels.h. Not
// a header for others.
//
// `Dot` has also: bytes (kWidth fours), store_pairs (the first and the second pair of fours, as 16-bit
// integers) and store_widened (16 bytes as 16-bit integers).
//
// Inputs and weights become 16-bit integers near the rows: vpmaddwd adds two products exactly. To multiply
// bytes by vpmaddubsw, which saturates, takes vpsignb and vpmaddwd too, all on the same two units: that ends
// at 0.62 of the processor's peak (Zen 4), this at 0.82. Assembler: what a compiler makes of the loop is a
// fifth slower.

#define ASSAY_HAS_WORD_BLOCKS

// Up to six rows times two vectors of outputs: 12 sums, 2 of weights, an input and a product.
constexpr std::int64_t kWordRows = 6, kFewestWordRows = 3, kWordOutputs = 2 * Vec::kWidth;
// Inputs of some panels that are words at a time (32 KB, read once per block of rows): whole groups of
// weights, which have at most 128.
constexpr std::int64_t kWordInputs = 256, kWordPanels = 4, kWordColumns = kWordPanels * kPanel;
constexpr std::int64_t kWordPassRows = 256;  // whose sums wait in memory

// Some rows times kWordOutputs outputs: for each of some groups of inputs an exact sum, which is added to
// sums of float32, times scale of the row * scale of the output; or to those of int32, where there are no
// scales.
struct WordBlock {
  const std::int16_t* x;  // rows lie kWordInputs apart
  const std::int16_t* w;  // [inputs / 2][kWordOutputs][2]
  std::int64_t inputs;    // of a group, a multiple of 8
  std::byte* sums;        // [rows][kWordColumns], added to
  std::int64_t groups;    // 1 where there are no scales
  const float* x_scales;  // of the first row; of the next group x_next bytes on
  std::int64_t x_next;
  const float* w_scales;  // [groups][kWordColumns]
  // Fetched into the second-level cache meanwhile, of each panel of the block: `step` bytes per 8 inputs.
  const std::byte* ahead;
  std::int64_t step, panel_bytes;
};

// clang-format off
#if defined(__AVX512F__)
#define ASSAY_R(n) "%%zmm" n
#define ASSAY_WIDE "64"
#define ASSAY_WORDS_FETCH "prefetcht1 (%[ahead])\n\tprefetcht1 (%[ahead],%[panel])\n\tadd %[step], %[ahead]\n\t"
#else
#define ASSAY_R(n) "%%ymm" n
#define ASSAY_WIDE "32"
#define ASSAY_WORDS_FETCH "prefetcht1 (%[ahead])\n\tadd %[step], %[ahead]\n\t"
#endif
// X(at, lower sum, upper sum, row)
#define ASSAY_WORDS_ROWS_3(X, at) X(at, "0", "1", "0") X(at, "2", "3", "1") X(at, "4", "5", "2")
#define ASSAY_WORDS_ROWS_4(X, at) ASSAY_WORDS_ROWS_3(X, at) X(at, "6", "7", "3")
#define ASSAY_WORDS_ROWS_5(X, at) ASSAY_WORDS_ROWS_4(X, at) X(at, "8", "9", "4")
#define ASSAY_WORDS_ROWS_6(X, at) ASSAY_WORDS_ROWS_5(X, at) X(at, "10", "11", "5")
#define ASSAY_WORDS_LOW(row) "256*" row "(%[sums])"
#define ASSAY_WORDS_HIGH(row) ASSAY_WIDE "+256*" row "(%[sums])"
#define ASSAY_WORDS_CLEAR(at, low, high, row) \
  "vxorps " ASSAY_R(low) ", " ASSAY_R(low) ", " ASSAY_R(low) "\n\t" \
  "vxorps " ASSAY_R(high) ", " ASSAY_R(high) ", " ASSAY_R(high) "\n\t"
// An input pair of a row, which lies 512 bytes from the next.
#define ASSAY_WORDS_MULTIPLY(at, low, high, row) \
  "vpbroadcastd 512*" row "+4*" at "(%[x]), " ASSAY_R("15") "\n\t" \
  "vpmaddwd " ASSAY_R("15") ", " ASSAY_R("12") ", " ASSAY_R("14") "\n\t" \
  "vpmaddwd " ASSAY_R("15") ", " ASSAY_R("13") ", " ASSAY_R("15") "\n\t" \
  "vpaddd " ASSAY_R("14") ", " ASSAY_R(low) ", " ASSAY_R(low) "\n\t" \
  "vpaddd " ASSAY_R("15") ", " ASSAY_R(high) ", " ASSAY_R(high) "\n\t"
#define ASSAY_WORDS_PAIR(n, at) \
  "vmovaps 2*" at "*" ASSAY_WIDE "(%[w]), " ASSAY_R("12") "\n\t" \
  "vmovaps (2*" at "+1)*" ASSAY_WIDE "(%[w]), " ASSAY_R("13") "\n\t" \
  ASSAY_WORDS_ROWS_##n(ASSAY_WORDS_MULTIPLY, at)
#define ASSAY_WORDS_EIGHTS(n) \
  ".p2align 5\n3:\n\t" ASSAY_WORDS_FETCH \
  ASSAY_WORDS_PAIR(n, "0") ASSAY_WORDS_PAIR(n, "1") ASSAY_WORDS_PAIR(n, "2") ASSAY_WORDS_PAIR(n, "3") \
  "add $16, %[x]\n\tadd $8*" ASSAY_WIDE ", %[w]\n\tdec %[eights]\n\tjnz 3b\n\t"
#define ASSAY_WORDS_ADD(at, low, high, row) \
  "vpaddd " ASSAY_WORDS_LOW(row) ", " ASSAY_R(low) ", " ASSAY_R(low) "\n\t" \
  "vpaddd " ASSAY_WORDS_HIGH(row) ", " ASSAY_R(high) ", " ASSAY_R(high) "\n\t" \
  ASSAY_WORDS_STORE(low, high, row)
#define ASSAY_WORDS_STORE(low, high, row) \
  "vmovups " ASSAY_R(low) ", " ASSAY_WORDS_LOW(row) "\n\tvmovups " ASSAY_R(high) ", " ASSAY_WORDS_HIGH(row) "\n\t"
// In registers 12 and 13: the scales of outputs.
#define ASSAY_WORDS_SCALE(at, low, high, row) \
  "vbroadcastss 4*" row "(%[x_scales]), " ASSAY_R("15") "\n\t" \
  "vcvtdq2ps " ASSAY_R(low) ", " ASSAY_R(low) "\n\tvcvtdq2ps " ASSAY_R(high) ", " ASSAY_R(high) "\n\t" \
  "vmulps " ASSAY_R("12") ", " ASSAY_R("15") ", " ASSAY_R("14") "\n\t" \
  "vmulps " ASSAY_R("13") ", " ASSAY_R("15") ", " ASSAY_R("15") "\n\t" \
  "vfmadd213ps " ASSAY_WORDS_LOW(row) ", " ASSAY_R("14") ", " ASSAY_R(low) "\n\t" \
  "vfmadd213ps " ASSAY_WORDS_HIGH(row) ", " ASSAY_R("15") ", " ASSAY_R(high) "\n\t" \
  ASSAY_WORDS_STORE(low, high, row)
#define ASSAY_WORDS_USED "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
// clang-format on

#define ASSAY_WORD_BLOCK(n)                                                                                  \
  void add_word_block_##n(const WordBlock& block) {                                                          \
    const std::int16_t *x = block.x, *w = block.w;                                                           \
    const std::byte* ahead = block.ahead;                                                                    \
    std::int64_t eights = block.inputs / 8;                                                                  \
    __asm__ volatile(ASSAY_WORDS_ROWS_##n(ASSAY_WORDS_CLEAR, "0") ASSAY_WORDS_EIGHTS(n)                      \
                         ASSAY_WORDS_ROWS_##n(ASSAY_WORDS_ADD, "0")                                          \
                     : [x] "+r"(x), [w] "+r"(w), [eights] "+r"(eights), [ahead] "+r"(ahead)                  \
                     : [sums] "r"(block.sums), [step] "r"(block.step), [panel] "r"(block.panel_bytes)        \
                     : ASSAY_WORDS_USED);                                                                    \
  }                                                                                                          \
  void add_word_groups_##n(const WordBlock& block) {                                                         \
    const std::int16_t *x = block.x, *w = block.w;                                                           \
    const float *x_scales = block.x_scales, *w_scales = block.w_scales;                                      \
    const std::byte* ahead = block.ahead;                                                                    \
    std::int64_t eights = 0, groups = block.groups;                                                          \
    const std::int64_t eights_of_group = block.inputs / 8;                                                   \
    __asm__ volatile(                                                                                      \
        ".p2align 5\n2:\n\tmov %[of_group], %[eights]\n\t" ASSAY_WORDS_ROWS_##n(ASSAY_WORDS_CLEAR, "0")     \
            ASSAY_WORDS_EIGHTS(n) "vmovups (%[w_scales]), " ASSAY_R("12") "\n\tvmovups " ASSAY_WIDE         \
        "(%[w_scales]), " ASSAY_R("13") "\n\t" ASSAY_WORDS_ROWS_##n(ASSAY_WORDS_SCALE, "0")                \
        "add $256, %[w_scales]\n\tadd %[x_next], %[x_scales]\n\tdec %[groups]\n\tjnz 2b\n\t"               \
        : [x] "+r"(x), [w] "+r"(w), [eights] "+r"(eights), [groups] "+r"(groups),                          \
          [x_scales] "+r"(x_scales), [w_scales] "+r"(w_scales), [ahead] "+r"(ahead)                                            \
        : [sums] "r"(block.sums), [x_next] "r"(block.x_next), [of_group] "m"(eights_of_group), [step] "r"(block.step), [panel] "r"(block.panel_bytes)             \
        : ASSAY_WORDS_USED); \
  }
ASSAY_WORD_BLOCK(3)
ASSAY_WORD_BLOCK(4)
ASSAY_WORD_BLOCK(5)
ASSAY_WORD_BLOCK(6)

void add_word_block(std::int64_t rows, const WordBlock& block) {
  constexpr void (*kOf[])(const WordBlock&) = {add_word_block_3, add_word_block_4, add_word_block_5,
                                               add_word_block_6};
  constexpr void (*kOfGroups[])(const WordBlock&) = {add_word_groups_3, add_word_groups_4, add_word_groups_5,
                                                     add_word_groups_6};
  (block.w_scales == nullptr ? kOf : kOfGroups)[rows - kFewestWordRows](block);
}

// Weights of kWordPanels panels as words: [blocks][kWordInputs / 2][kWordOutputs][2].
struct NearWords {
  static constexpr std::int64_t kBlock = kWordInputs * kWordOutputs, kBlocks = kWordColumns / kWordOutputs;
  alignas(64) std::int16_t words[kBlocks * kBlock];
  static std::int64_t blocks_of(std::int64_t panels) {
    return (panels * kPanel + kWordOutputs - 1) / kWordOutputs;
  }
  const std::int16_t* of_block(std::int64_t block) const { return words + block * kBlock; }
  // Of a vector of outputs, four inputs from `input` on.
  ASSAY_INLINE void set(std::int64_t vector, std::int64_t input, Dot::Bytes four) {
    std::int16_t* to = words + vector / 2 * kBlock + input * kWordOutputs + vector % 2 * 2 * Vec::kWidth;
    Dot::store_pairs(four, to, to + 2 * kWordOutputs);
  }
};

// Whose outputs a vector has; of fewer than kWordPanels panels the last is its own neighbour.
ASSAY_INLINE std::int64_t panel_of_vector(std::int64_t vector, std::int64_t panels) {
  return vector / kParts < panels ? vector / kParts : panels - 1;
}

// Codes of rows, strips of 64 inputs, as words.
ASSAY_INLINE void widen_rows(const std::int8_t* x, std::int64_t strip, std::int64_t rows, std::int64_t inputs,
                             std::int16_t* to) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < inputs; i += 16)
      Dot::store_widened(x + row * kInt8Columns + i / kInt8Columns * strip + i % kInt8Columns,
                         to + row * kWordInputs + i);
}

// The weights that come next, of which each block of rows fetches its share. (To fetch some while those at
// hand become words makes batches 2 to 7 % slower: the stores wait.)
struct WordFetch {
  const void* next;          // of the first panel
  std::int64_t panel_bytes;  // to the next
  std::int64_t bytes;        // of each
  // Where a block of rows and of outputs begins, and how much it fetches for 8 inputs.
  ASSAY_INLINE const std::byte* from(std::int64_t block, std::int64_t blocks, std::int64_t outputs) const {
    return static_cast<const std::byte*>(next) + outputs * kWordOutputs / kPanel * panel_bytes +
           bytes * block / blocks;
  }
  ASSAY_INLINE std::int64_t step(std::int64_t blocks) const {
    constexpr std::int64_t kSteps = kWordInputs / 8;
    return (bytes + blocks * kSteps - 1) / (blocks * kSteps);
  }
};
// Where the outputs of a block of rows go.
ASSAY_INLINE void fetch_outputs(const LinearArgs& to, std::int64_t row, std::int64_t rows,
                                std::int64_t output) {
  if (to.y == nullptr) return;
  for (std::int64_t i = row; i < row + rows; ++i)
    for (std::int64_t j = 0; j < kWordColumns; j += kPanel)
      __builtin_prefetch(to.y + i * to.y_stride + output + j, 1);
}
