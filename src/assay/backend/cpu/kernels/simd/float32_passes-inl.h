// Float32 products with many rows: which rows, panels and inputs follow each other, around the loops of
// float32_chunk256-inl.h or float32_chunk512-inl.h. Included by float32_kernels-inl.h.
#pragma once

constexpr std::int64_t kPassRows = 512;  // rows whose sums are held between chunks

// One of `blocks` blocks of rows times some panels, over some of the inputs. Each block has its share of
// `next`, the same inputs' panels that follow, fetched into the second-level cache: memory is asked evenly.
struct BlockOfChunk {
  std::int64_t rows, block, blocks;
  const float* a;
  std::int64_t a_stride;
  const float* b;
  std::int64_t b_stride;  // from a panel to the next
  const char* next;
  std::int64_t next_stride, next_bytes;  // from a panel to the next, and of each
  std::int64_t inputs;
  bool is_first;
  float* c;
};

#if defined(ASSAY_HAS_WIDE_CHUNKS)
// Panels by twos. Two of 256 inputs are 32 KB, which stay in the nearest cache while all rows pass. Few rows
// stay there too: 16 KB of each then.
struct PairsOfPanels {
  static constexpr std::int64_t kRows = kChunkRows, kPanels = 2;
  static constexpr std::int64_t kPassPanels = 8;  // panels that the rows of a chunk serve while they are near
  static constexpr std::int64_t kMaxInputs = 256;
  static std::int64_t inputs(std::int64_t blocks) { return blocks == 1 || blocks > 4 ? kMaxInputs : 128; }
  // One block alone passes each pair once: it goes through all inputs of a pair before the next.
  static std::int64_t pass_panels(std::int64_t rows) { return rows <= kRows ? kPanels : kPassPanels; }
  static void add(const BlockOfChunk& x) {
    const std::int64_t share = (x.next_bytes + x.blocks - 1) / x.blocks;
    add_chunk(x.rows, {.a = x.a,
                       .a_stride = x.a_stride,
                       .b = x.b,
                       .b_second = x.b + x.b_stride,
                       .inputs = x.inputs,
                       .is_first = x.is_first,
                       .c = x.c,
                       .ahead = x.next + x.block * share,
                       .ahead_second = x.next + x.block * share + x.next_stride,
                       .step = (2 * share + x.inputs - 1) / x.inputs});
  }
};
// Panels by threes, for rows so many that the panels alone stay near: 36 KB.
struct TriplesOfPanels {
  static constexpr std::int64_t kRows = kTripleRows, kPanels = 3, kPassPanels = 12;
  static constexpr std::int64_t kMinPassRows = 64;
  static constexpr std::int64_t kMaxInputs = 192;
  static std::int64_t inputs(std::int64_t) { return kMaxInputs; }
  static std::int64_t pass_panels(std::int64_t) { return kPassPanels; }
  static void add(const BlockOfChunk& x) {
    const std::int64_t each = (x.blocks + 2) / 3;  // blocks that fetch one of the three panels
    const std::int64_t share = (x.next_bytes + each - 1) / each;
    add_triple_chunk(x.rows, {.a = x.a,
                              .a_stride = x.a_stride,
                              .b = x.b,
                              .b_stride = x.b_stride,
                              .inputs = x.inputs,
                              .is_first = x.is_first,
                              .c = x.c,
                              .ahead = x.next + x.block / each * x.next_stride + x.block % each * share,
                              .step = (share + x.inputs - 1) / x.inputs});
  }
};
constexpr std::int64_t kMinPassRows = kMinChunkRows, kMinNearRows = TriplesOfPanels::kMinPassRows;
#else
// Panels one by one: 48 KB of each, which come from the second-level cache as fast as they are multiplied.
// Few rows have 16 KB stay nearer.
struct SinglePanels {
  static constexpr std::int64_t kRows = kChunkRows, kPanels = 1, kPassPanels = 4, kMaxInputs = 768;
  static std::int64_t inputs(std::int64_t blocks) { return blocks <= 8 ? 256 : kMaxInputs; }
  static std::int64_t pass_panels(std::int64_t) { return kPassPanels; }
  static void add(const BlockOfChunk& x) {
    const std::int64_t share = (x.next_bytes + x.blocks - 1) / x.blocks;
    add_chunk(x.rows, {.a = x.a,
                       .a_stride = x.a_stride,
                       .b = x.b,
                       .inputs = x.inputs,
                       .is_first = x.is_first,
                       .c = x.c,
                       .ahead = x.next + x.block * share,
                       .step = x.blocks == 1 ? 0 : (2 * share + x.inputs - 1) / x.inputs});
  }
};
constexpr std::int64_t kMinPassRows = 7, kMinNearRows = 24;  // one block alone waits for memory
#endif

// Outputs that are written when all inputs are done, a line for each panel of each row: of each of `parts`
// chunks the rows that are its own, since many lines asked for at once keep a processor waiting.
void fetch_outputs(const LinearArgs& args, std::int64_t first_row, std::int64_t rows, std::int64_t column,
                   std::int64_t panels, std::int64_t part, std::int64_t parts) {
  if (args.y == nullptr) return;
  for (std::int64_t row = part; row < rows; row += parts) {
    const float* y = args.y + (first_row + row) * args.y_stride + column;
    for (std::int64_t i = 0; i < panels; ++i) __builtin_prefetch(y + i * kPanel, 1);
  }
}

// Some panels over some inputs, as the loops read them: floats where they lie; bfloat16, which becomes floats
// in `near` while all rows of a pass meet it.
struct PanelsOfChunk {
  const float* data;
  std::int64_t stride;
};
template <typename Weights, int Panels, std::int64_t Inputs>
struct NearPanels;
template <int Panels, std::int64_t Inputs>
struct NearPanels<Floats, Panels, Inputs> {
  PanelsOfChunk of(const Floats& w, std::int64_t k, std::int64_t) {
    return {w.data + k * kPanel, w.panel_stride};
  }
};
template <int Panels, std::int64_t Inputs>
struct NearPanels<Pairs, Panels, Inputs> {
  static constexpr std::int64_t kStride = Inputs * kPanel;
  alignas(64) float near[Panels * kStride];
  PanelsOfChunk of(const Pairs& w, std::int64_t k, std::int64_t count) {
    for (int panel = 0; panel < Panels; ++panel)
      for (std::int64_t i = 0; i < count; i += 2)
        for (int part = 0; part < kParts; ++part) {
          Vec even, odd;
          Vec::load_pairs(w.data + panel * w.panel_stride + (k + i) * kPanel + part * Vec::kWidth * 2, even,
                          odd);
          float* to = near + panel * kStride + i * kPanel + part * Vec::kWidth;
          even.store(to);
          odd.store(to + kPanel);
        }
    return {near, kStride};
  }
};

// Rows [first_row, first_row + rows), at most kPassRows, times at most Panels::kPassPanels panels, a multiple
// of Panels::kPanels. Between chunks the sums wait in memory: one chain along k still.
template <typename Panels, typename Weights>
void linear_pass(const LinearArgs& args, const Weights& w, std::int64_t first_row, std::int64_t rows,
                 std::int64_t first_panel, std::int64_t panels) {
  constexpr std::int64_t kColumns = Panels::kPanels * kPanel;
  constexpr std::int64_t kSize = sizeof(*w.data);
  alignas(64) float sums[Panels::kPassPanels * kPanel * kPassRows];
  NearPanels<Weights, Panels::kPanels, Panels::kMaxInputs> near;
  const std::int64_t blocks = (rows + Panels::kRows - 1) / Panels::kRows, inputs = Panels::inputs(blocks),
                     chunks = (args.k + inputs - 1) / inputs;
  for (std::int64_t k = 0; k < args.k; k += inputs) {
    const std::int64_t count = args.k - k < inputs ? args.k - k : inputs;
    const bool is_last = k + count == args.k;
    for (std::int64_t i = 0; i < panels; i += Panels::kPanels) {
      const std::int64_t panel = first_panel + i, columns = args.n - panel * kPanel;
      const PanelsOfChunk b = near.of(w.panel(panel), k, count);
      // After the last panels of the pass come the first ones again, for the inputs that follow; then the
      // next pass.
      const auto* next = i + Panels::kPanels < panels ? w.panel(panel + Panels::kPanels).data + k * kPanel
                         : is_last                    ? w.panel(first_panel + panels).data
                                                      : w.panel(first_panel).data + (k + count) * kPanel;
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t row = rows * block / blocks, end = rows * (block + 1) / blocks;
        float* c = sums + (i / Panels::kPanels * kPassRows + row) * kColumns;
        fetch_outputs(args, first_row + row, end - row, panel * kPanel, Panels::kPanels, k / inputs, chunks);
        Panels::add({.rows = end - row,
                     .block = block,
                     .blocks = blocks,
                     .a = args.x + (first_row + row) * args.x_stride + k,
                     .a_stride = args.x_stride,
                     .b = b.data,
                     .b_stride = b.stride,
                     .next = reinterpret_cast<const char*>(next),
                     .next_stride = w.panel_stride * kSize,
                     .next_bytes = count * kPanel * kSize,
                     .inputs = count,
                     .is_first = k == 0,
                     .c = c});
        if (is_last)
          epilogue(args, c, kColumns, first_row + row, end - row, panel * kPanel,
                   columns < kColumns ? columns : kColumns);
      }
    }
  }
}

// Panels [first, last) of some rows.
template <typename Panels, typename Weights>
void linear_passes(const LinearArgs& args, const Weights& w, std::int64_t first_row, std::int64_t rows,
                   std::int64_t first, std::int64_t last) {
  const std::int64_t step = Panels::pass_panels(rows);
  for (std::int64_t panel = first; panel < last; panel += step)
    linear_pass<Panels>(args, w, first_row, rows, panel, last - panel < step ? last - panel : step);
}

// For fewer rows making floats of bfloat16 beforehand costs more than it saves.
std::int64_t fewest_chunk_rows(const Floats&) {
  return kMinPassRows;
}
std::int64_t fewest_chunk_rows(const Pairs&) {
  return kMinNearRows;
}

template <typename Weights>
void linear_many_rows(const LinearArgs& args, const Weights& w) {
  const std::int64_t passes = (args.rows + kPassRows - 1) / kPassRows;
#if defined(ASSAY_HAS_WIDE_CHUNKS)
  const std::int64_t last = args.first_panel + args.panels / 2 * 2;
#else
  const std::int64_t last = args.first_panel + args.panels;
#endif
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t row = args.rows * pass / passes, end = args.rows * (pass + 1) / passes;
#if defined(ASSAY_HAS_WIDE_CHUNKS)
    // By sixes: what is left is then even in number, but for a single last one.
    const std::int64_t triples =
        args.first_panel + (end - row >= TriplesOfPanels::kMinPassRows ? args.panels / 6 * 6 : 0);
    linear_passes<TriplesOfPanels>(args, w, row, end - row, args.first_panel, triples);
    linear_passes<PairsOfPanels>(args, w, row, end - row, triples, last);
#else
    linear_passes<SinglePanels>(args, w, row, end - row, args.first_panel, last);
#endif
  }
#if defined(ASSAY_HAS_WIDE_CHUNKS)
  LinearArgs rest = args;
  rest.first_panel = last;
  rest.panels = args.panels % 2;
  linear_few_rows(rest, w);
#endif
}
