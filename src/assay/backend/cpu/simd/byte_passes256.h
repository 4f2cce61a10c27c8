// Many rows of int8 inputs times int8 weights by AVX-VNNI, for the ISA file that includes it inside its own
// anonymous namespace, after int8_kernels.h. Not a header for others.

// Rows go through the inputs in chunks, of which the weights of a panel, 128 too large because one side has
// to be unsigned, stay in the nearest cache while all rows pass; sums start at what makes up for it, and wait
// in memory between chunks.
//
// `Dot` has also: copy_for_block (weights that are 128 too large), start_of_codes, kBlockRows, and of a block
// block_inputs, block_weights and add_in_block.
constexpr std::int64_t kInt8ChunkInputs = 12 * kInt8Columns, kInt8PassRows = 256;
constexpr std::int64_t kInt8BlockRows = Dot::kBlockRows, kFewestInt8BlockRows = (kInt8BlockRows + 1) / 2;
constexpr std::int64_t kInt8BlockColumns = kPanel;

struct Int8Chunk {
  const std::int8_t* x;  // the first strip, from the first row on
  std::int64_t strip, strips;
  const std::int8_t* w;      // a panel that is 128 too large, [inputs / 4][16][4]
  std::int32_t* sums;        // [rows][kInt8BlockColumns], added to
  const std::int8_t* ahead;  // fetched into the second-level cache meanwhile, so many bytes a strip
  std::int64_t share;
  const float* outputs;  // of the block, fetched too; or null
  std::int64_t output_rows, output_stride;
};

// What a chunk fetches while its strip i is multiplied. Nothing is divided here: it would wait for that.
ASSAY_INLINE void fetch_beside(const Int8Chunk& chunk, std::int64_t i) {
  const std::int8_t* ahead = chunk.ahead + chunk.share * i;
  for (const std::int8_t* end = ahead + chunk.share; ahead < end; ahead += 64)
    __builtin_prefetch(ahead, 0, 2);
  if (chunk.outputs == nullptr) return;
  for (std::int64_t row = i; row < chunk.output_rows; row += chunk.strips)
    __builtin_prefetch(chunk.outputs + row * chunk.output_stride, 1);
}

template <int Rows>
void add_int8_chunk(const Int8Chunk& chunk) {
  constexpr int kVectors = kParts;
  Dot dots[Rows][kVectors];
  for (int row = 0; row < Rows; ++row)
    for (int j = 0; j < kVectors; ++j)
      dots[row][j] = Dot::load(chunk.sums + row * kInt8BlockColumns + j * Vec::kWidth);
  const std::int8_t *x = chunk.x, *w = chunk.w;
  for (std::int64_t strip = 0; strip < chunk.strips; ++strip, x += chunk.strip) {
    fetch_beside(chunk, strip);
    for (std::int64_t k = 0; k < kInt8Columns; k += 4, w += kPanel * 4) {
      Dot::BlockWeights weights[kVectors];
      for (int j = 0; j < kVectors; ++j) weights[j] = Dot::block_weights(w + j * Vec::kWidth * 4);
      for (int row = 0; row < Rows; ++row) {
        const Dot::BlockInputs inputs = Dot::block_inputs(x + row * kInt8Columns + k);
        for (int j = 0; j < kVectors; ++j) dots[row][j].add_in_block(inputs, weights[j]);
      }
    }
  }
  for (int row = 0; row < Rows; ++row)
    for (int j = 0; j < kVectors; ++j)
      dots[row][j].store(chunk.sums + row * kInt8BlockColumns + j * Vec::kWidth);
}

// kFewestInt8BlockRows to Rows rows.
template <int Rows>
void add_int8_rows(std::int64_t rows, const Int8Chunk& chunk) {
  if constexpr (Rows > kFewestInt8BlockRows)
    if (rows < Rows) return add_int8_rows<Rows - 1>(rows, chunk);
  add_int8_chunk<Rows>(chunk);
}

// A panel of at most kInt8PassRows rows.
void linear_int8_pass(const Int8Args& args, std::int64_t first_row, std::int64_t rows, std::int64_t panel,
                      const std::int32_t* starts) {
  const LinearArgs& to = args.to;
  const std::int64_t padded = round_up(to.k, kInt8Columns), strip = to.x_tiles.strip() * 2;
  const std::int8_t* x = reinterpret_cast<const std::int8_t*>(to.x_tiles.data) + first_row * kInt8Columns;
  const std::int8_t* w = static_cast<const std::int8_t*>(to.w) + panel * padded * kPanel;
  alignas(64) std::int32_t sums[kInt8PassRows * kInt8BlockColumns];
  alignas(64) std::int8_t near[kInt8ChunkInputs * kPanel];
  const std::int64_t blocks = (rows + kInt8BlockRows - 1) / kInt8BlockRows;
  for (std::int64_t k = 0; k < padded; k += kInt8ChunkInputs) {
    const std::int64_t inputs = padded - k < kInt8ChunkInputs ? padded - k : kInt8ChunkInputs,
                       bytes = inputs * kPanel;
    const bool is_last = k + inputs == padded;
    const std::int8_t* chunk_w = w + k * kPanel;
    // Each block fetches its share of what follows: the next inputs, or the first of the next panels.
    const std::int8_t* next = is_last ? w + padded * kPanel : chunk_w + bytes;
    const std::int64_t strips = inputs / kInt8Columns, share = bytes / blocks;
    Dot::copy_for_block(near, chunk_w, bytes);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t row = rows * block / blocks, end = rows * (block + 1) / blocks;
      std::int32_t* c = sums + row * kInt8BlockColumns;
      if (k == 0)
        for (std::int64_t i = row; i < end; ++i)
          for (std::int64_t j = 0; j < kInt8BlockColumns; j += Vec::kWidth)
            Dot::all(starts[i]).store(sums + i * kInt8BlockColumns + j);
      add_int8_rows<kInt8BlockRows>(
          end - row,
          {.x = x + k / kInt8Columns * strip + row * kInt8Columns,
           .strip = strip,
           .strips = strips,
           .w = near,
           .sums = c,
           .ahead = next + block * share,
           .share = (share + strips - 1) / strips,
           .outputs =
               is_last && to.y != nullptr ? to.y + (first_row + row) * to.y_stride + panel * kPanel : nullptr,
           .output_rows = end - row,
           .output_stride = to.y_stride});
      if (is_last)
        finish_int8(args, {.sums = c,
                           .first_row = first_row + row,
                           .rows = end - row,
                           .output = panel * kPanel,
                           .columns = kPanel,
                           .stride = kPanel,
                           .offset = 0});
    }
  }
}

void linear_int8_many_rows(const Int8Args& args) {
  const LinearArgs& to = args.to;
  const std::int64_t last = to.first_panel + to.panels,
                     passes = (to.rows + kInt8PassRows - 1) / kInt8PassRows;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t row = to.rows * pass / passes, rows = to.rows * (pass + 1) / passes - row;
    std::int32_t starts[kInt8PassRows];
    for (std::int64_t i = 0; i < rows; ++i) starts[i] = start_of_row(args, row + i);
    for (std::int64_t panel = to.first_panel; panel < last; ++panel)
      linear_int8_pass(args, row, rows, panel, starts);
  }
}
