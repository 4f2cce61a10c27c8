// Rows of int8 inputs times 4-bit weights as 16-bit integers, for the ISA files that include it inside their
// own anonymous namespace, after word_blocks.h. Not a header for others.

// Of fewer rows the codes are looked up for each two (measured on Zen 4).
constexpr std::int64_t kFewestCodedWordRows = 5;

// At most kWordPanels panels of at most kWordPassRows rows: no fewer than kFewestWordRows.
void linear_coded_words(const CodedInputsArgs& args, Dot::Bytes book, std::int64_t first_row,
                        std::int64_t rows, std::int64_t panel, std::int64_t panels) {
  const LinearArgs& to = args.to;
  const ExpandArgs& weights = args.weights;
  const std::int64_t groups = (weights.k_padded + weights.group - 1) / weights.group,
                     panel_bytes = weights.k_padded / kCodeInputs * kPanel * 4,
                     blocks = (rows + kWordRows - 1) / kWordRows, left = to.n - panel * kPanel,
                     columns = panels * kPanel;
  NearWords near;
  alignas(64) std::int16_t x_words[kWordRows * kWordInputs];
  alignas(64) float sums[kWordPassRows * kWordColumns];
  alignas(64) float scales[kWordInputs / kSmallestCodedGroup * kWordColumns];
  for (std::int64_t i = 0; i < rows * kWordColumns; i += Vec::kWidth) Vec::set(0.0F).store(sums + i);
  for (std::int64_t k = 0; k < weights.k_padded; k += kWordInputs) {
    const std::int64_t inputs = weights.k_padded - k < kWordInputs ? weights.k_padded - k : kWordInputs,
                       group = k / weights.group;
    const bool is_last = k + inputs == weights.k_padded;
    const std::uint8_t* codes = weights.codes + panel * panel_bytes + k / kCodeInputs * kPanel * 4;
    const WordFetch fetch{.next = is_last ? weights.codes + (panel + kWordPanels) * panel_bytes
                                          : codes + inputs / kCodeInputs * kPanel * 4,
                          .panel_bytes = panel_bytes,
                          .bytes = kWordInputs / kCodeInputs * kPanel * 4};
    for (std::int64_t i = 0; i < inputs; i += kCodeInputs, codes += kPanel * 4) {
      for (std::int64_t j = 0; j < kWordPanels * kParts; ++j) {
        const Vec::Codes eight =
            Vec::codes(codes + panel_of_vector(j, panels) * panel_bytes + j % kParts * Vec::kWidth * 4);
        near.set(j, i, Dot::look_up_low(book, eight));
        near.set(j, i + 4, Dot::look_up_high(book, eight));
      }
    }
    for (std::int64_t i = 0; i * weights.group < inputs; ++i)
      for (std::int64_t j = 0; j < kWordPanels * kParts; ++j)
        load_scales(weights.scales, ((panel + panel_of_vector(j, panels)) * groups + group + i) * kPanel +
                                        j % kParts * Vec::kWidth)
            .store(scales + i * kWordColumns + j * Vec::kWidth);
    const std::int64_t step = fetch.step(blocks);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t row = rows * block / blocks, count = rows * (block + 1) / blocks - row;
      float* of_rows = sums + row * kWordColumns;
      if (is_last) fetch_outputs(to, first_row + row, count, panel * kPanel);
      widen_rows(args.x.codes + args.x.offset(first_row + row, k), args.x.strip(), count, inputs, x_words);
      // Whole groups, and then what is left of the last.
      for (std::int64_t first = 0; first < inputs;) {
        const std::int64_t rest = inputs - first, in_group = rest < weights.group ? rest : weights.group,
                           of_first = group + first / weights.group;
        for (std::int64_t i = 0; i < NearWords::blocks_of(panels); ++i)
          add_word_block(count, {.x = x_words + first,
                                 .w = near.of_block(i) + first * kWordOutputs,
                                 .inputs = in_group,
                                 .sums = reinterpret_cast<std::byte*>(of_rows + i * kWordOutputs),
                                 .groups = rest / in_group,
                                 .x_scales = args.x.scales + of_first * args.x.capacity + first_row + row,
                                 .x_next = args.x.capacity * 4,
                                 .w_scales = scales + first / weights.group * kWordColumns + i * kWordOutputs,
                                 .ahead = fetch.from(block, blocks, i) + first / 8 * step,
                                 .step = step,
                                 .panel_bytes = panel_bytes});
        first += rest / in_group * in_group;
      }
      if (is_last)
        epilogue(to, of_rows, kWordColumns, first_row + row, count, panel * kPanel,
                 left < columns ? left : columns);
    }
  }
}

void linear_coded_words(const CodedInputsArgs& args) {
  const LinearArgs& to = args.to;
  const Dot::Bytes book = Dot::byte_book(args.book);
  const std::int64_t last = to.first_panel + to.panels,
                     passes = (to.rows + kWordPassRows - 1) / kWordPassRows;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t row = to.rows * pass / passes, rows = to.rows * (pass + 1) / passes - row;
    for (std::int64_t panel = to.first_panel; panel < last; panel += kWordPanels)
      linear_coded_words(args, book, row, rows, panel,
                         last - panel < kWordPanels ? last - panel : kWordPanels);
  }
}
