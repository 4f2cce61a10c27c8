// Rows of int8 inputs times 4-bit weights in blocks, for the ISA files that include it inside their own
// anonymous namespace, after signed_blocks-inl.h. Not a header for others.
#pragma once

#include "assay/backend/cpu/kernels/simd/signed_blocks-inl.h"

// For fewer rows the codes are looked up for each two (measured on Zen 4).
constexpr std::int64_t kMinCodedBlockRows = 3;

static_assert(kSignedInputs % kMaxCodedGroup == 0, "no group is cut");

// At most kSignedPanels panels of at most kSignedPassRows rows: no fewer than kMinSignedRows.
void linear_coded_pass(const Int8ActivationsArgs& args, Dot::Bytes codebook, std::int64_t first_row,
                       std::int64_t rows, std::int64_t panel, std::int64_t panels) {
  const LinearArgs& to = args.to;
  const ExpandArgs& weights = args.weights;
  const std::int64_t groups = (weights.k_padded + weights.group - 1) / weights.group,
                     panel_bytes = weights.k_padded / kCodeInputs * kPanel * 4,
                     blocks = (rows + kSignedRows - 1) / kSignedRows, left = to.n - panel * kPanel,
                     columns = panels * kPanel;
  constexpr std::int64_t kNearBytes = kSignedInputs * kPanel;
  alignas(64) std::int8_t near_weights[kSignedPanels * kNearBytes];
  alignas(64) NearRows near;
  alignas(64) float sums[kSignedPassRows * kSignedColumns];
  alignas(64) float scales[kSignedInputs / kMinCodedGroup * kSignedColumns];
  for (std::int64_t i = 0; i < rows * kSignedColumns; i += Vec::kWidth) Vec::set(0.0F).store(sums + i);
  for (std::int64_t k = 0; k < weights.k_padded; k += kSignedInputs) {
    const std::int64_t inputs = weights.k_padded - k < kSignedInputs ? weights.k_padded - k : kSignedInputs,
                       group = k / weights.group;
    const bool is_last = k + inputs == weights.k_padded;
    const std::uint8_t* codes = weights.codes + panel * panel_bytes + k / kCodeInputs * kPanel * 4;
    for (std::int64_t i = 0; i < inputs; i += kCodeInputs, codes += kPanel * 4)
      for (std::int64_t j = 0; j < panels * kParts; ++j) {
        const std::int64_t part = j % kParts * Vec::kWidth * 4;
        const Vec::Codes eight = Vec::codes(codes + j / kParts * panel_bytes + part);
        std::int8_t* bytes = near_weights + j / kParts * kNearBytes + i * kPanel + part;
        Dot::look_up_low(codebook, eight).store(bytes);
        Dot::look_up_high(codebook, eight).store(bytes + kPanel * 4);
      }
    for (std::int64_t i = 0; i * weights.group < inputs; ++i)
      for (std::int64_t j = 0; j < panels * kParts; ++j)
        load_scales(weights.scales,
                    ((panel + j / kParts) * groups + group + i) * kPanel + j % kParts * Vec::kWidth)
            .store(scales + i * kSignedColumns + j * Vec::kWidth);
    const NextWeights next{
        .first_panel = is_last ? weights.codes + (panel + kSignedPanels) * panel_bytes : codes,
        .panel_bytes = panel_bytes,
        .bytes = kSignedInputs / kCodeInputs * kPanel * 4};
    const std::int64_t step = next.step(blocks);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t row = rows * block / blocks, count = rows * (block + 1) / blocks - row;
      float* of_rows = sums + row * kSignedColumns;
      if (is_last) fetch_outputs(to, first_row + row, count, panel * kPanel);
      set_near_rows(args.x.codes + args.x.offset(first_row + row, k), args.x.strip(), count, inputs, near);
      // Whole groups, and then what is left of the last.
      for (std::int64_t first = 0; first < inputs;) {
        const std::int64_t rest = inputs - first, in_group = rest < weights.group ? rest : weights.group,
                           of_rows_first =
                               (group + first / weights.group) * args.x.capacity + first_row + row;
        for (std::int64_t i = 0; i < blocks_of(panels); ++i)
          add_signed_block(count,
                           {.x = near + first,
                            .w = near_weights + i * kSignedOutputs / kPanel * kNearBytes + first * kPanel,
                            .w_next = has_neighbour(i, panels) ? kNearBytes : 0,
                            .inputs = in_group,
                            .sums = reinterpret_cast<std::byte*>(of_rows + i * kSignedOutputs),
                            .groups = rest / in_group,
                            .x_scales = args.x.scales + of_rows_first,
                            .starts = args.x.starts + of_rows_first,
                            .x_next = args.x.capacity * 4,
                            .w_scales = scales + first / weights.group * kSignedColumns + i * kSignedOutputs,
                            .ahead = next.from(block, blocks, i) + first / 4 * step,
                            .step = step,
                            .ahead_next = panel_bytes});
        first += rest / in_group * in_group;
      }
      if (is_last)
        epilogue(to, of_rows, kSignedColumns, first_row + row, count, panel * kPanel,
                 left < columns ? left : columns);
    }
  }
}

void linear_coded_blocks(const Int8ActivationsArgs& args) {
  const LinearArgs& to = args.to;
  const Dot::Bytes codebook = Dot::byte_codebook(args.codebook);
  const std::int64_t last = to.first_panel + to.panels,
                     passes = (to.rows + kSignedPassRows - 1) / kSignedPassRows;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t row = to.rows * pass / passes, rows = to.rows * (pass + 1) / passes - row;
    for (std::int64_t panel = to.first_panel; panel < last; panel += kSignedPanels)
      linear_coded_pass(args, codebook, row, rows, panel,
                        last - panel < kSignedPanels ? last - panel : kSignedPanels);
  }
}
