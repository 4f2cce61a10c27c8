// Many rows of int8 inputs times int8 weights as 16-bit integers, for the ISA files that include it inside
// their own anonymous namespace, after word_blocks.h and int8_kernels.h. Not a header for others.

// Of fewer rows the weights are multiplied as bytes (measured on Zen 4).
constexpr std::int64_t kFewestInt8WordRows = 8;

// At most kWordPanels panels of at most kWordPassRows rows: no fewer than kFewestWordRows.
void linear_int8_words(const Int8Args& args, std::int64_t first_row, std::int64_t rows, std::int64_t panel,
                       std::int64_t panels) {
  const LinearArgs& to = args.to;
  const std::int64_t padded = round_up(to.k, kInt8Columns), strip = to.x_tiles.strip() * 2,
                     panel_bytes = padded * kPanel, blocks = (rows + kWordRows - 1) / kWordRows;
  const std::int8_t* x = reinterpret_cast<const std::int8_t*>(to.x_tiles.data) + first_row * kInt8Columns;
  const auto* w = static_cast<const std::int8_t*>(to.w) + panel * panel_bytes;
  NearWords near;
  alignas(64) std::int16_t x_words[kWordRows * kWordInputs];
  alignas(64) std::int32_t sums[kWordPassRows * kWordColumns];
  for (std::int64_t i = 0; i < rows * kWordColumns; i += Vec::kWidth) Dot::zero().store(sums + i);
  for (std::int64_t k = 0; k < padded; k += kWordInputs) {
    const std::int64_t inputs = padded - k < kWordInputs ? padded - k : kWordInputs;
    const bool is_last = k + inputs == padded;
    const std::int8_t* chunk = w + k * kPanel;
    const WordFetch fetch{.next = is_last ? w + kWordPanels * panel_bytes : chunk + inputs * kPanel,
                          .panel_bytes = panel_bytes,
                          .bytes = kWordInputs * kPanel};
    for (std::int64_t i = 0; i < inputs; i += 4) {
      for (std::int64_t j = 0; j < kWordPanels * kParts; ++j)
        near.set(j, i,
                 Dot::bytes(chunk + panel_of_vector(j, panels) * panel_bytes +
                            (i * kParts + j % kParts * 4) * Vec::kWidth));
    }
    const std::int64_t step = fetch.step(blocks);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t row = rows * block / blocks, count = rows * (block + 1) / blocks - row;
      std::int32_t* of_rows = sums + row * kWordColumns;
      if (is_last) fetch_outputs(to, first_row + row, count, panel * kPanel);
      widen_rows(x + k / kInt8Columns * strip + row * kInt8Columns, strip, count, inputs, x_words);
      for (std::int64_t i = 0; i < NearWords::blocks_of(panels); ++i)
        add_word_block(count, {.x = x_words,
                               .w = near.of_block(i),
                               .inputs = inputs,
                               .sums = reinterpret_cast<std::byte*>(of_rows + i * kWordOutputs),
                               .groups = 1,
                               .x_scales = nullptr,
                               .x_next = 0,
                               .w_scales = nullptr,
                               .ahead = fetch.from(block, blocks, i),
                               .step = step,
                               .panel_bytes = panel_bytes});
      if (is_last)
        finish_int8(args, {.sums = of_rows,
                           .first_row = first_row + row,
                           .rows = count,
                           .output = panel * kPanel,
                           .columns = panels * kPanel,
                           .stride = kWordColumns,
                           .offset = 0});
    }
  }
}

void linear_int8_many_rows(const Int8Args& args) {
  const LinearArgs& to = args.to;
  const std::int64_t last = to.first_panel + to.panels,
                     passes = (to.rows + kWordPassRows - 1) / kWordPassRows;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t row = to.rows * pass / passes, rows = to.rows * (pass + 1) / passes - row;
    for (std::int64_t panel = to.first_panel; panel < last; panel += kWordPanels)
      linear_int8_words(args, row, rows, panel, last - panel < kWordPanels ? last - panel : kWordPanels);
  }
}
