// Rows of int8 inputs times int8 weights in blocks, for the ISA files that include it inside their own
// anonymous namespace, after signed_blocks-inl.h and int8_kernels-inl.h. Not a header for others.
#pragma once

#include "assay/backend/cpu/kernels/simd/signed_blocks-inl.h"

// For fewer rows some panels are read side by side (measured on Zen 4, for AVX-VNNI with vpdpbusd of AVX-512
// on 256 bits).
#if defined(ASSAY_VNNI_256)
constexpr std::int64_t kMinInt8BlockRows = 5;
#else
constexpr std::int64_t kMinInt8BlockRows = kMinSignedRows;
#endif

// At most kSignedPanels panels of at most kSignedPassRows rows: no fewer than kMinSignedRows.
void linear_int8_pass(const Int8Args& args, std::int64_t first_row, std::int64_t rows, std::int64_t panel,
                      std::int64_t panels, const std::int32_t* starts) {
  const LinearArgs& to = args.to;
  const std::int64_t padded = round_up(to.k, kInt8Columns), strip = to.x_tiles.strip() * 2,
                     panel_bytes = padded * kPanel, blocks = (rows + kSignedRows - 1) / kSignedRows;
  const std::int8_t* x = reinterpret_cast<const std::int8_t*>(to.x_tiles.data) + first_row * kInt8Columns;
  const auto* w = static_cast<const std::int8_t*>(to.w) + panel * panel_bytes;
  alignas(64) NearRows near;
#if defined(ASSAY_VNNI_256)
  constexpr std::int64_t kNearBytes = kSignedInputs * kPanel;
  alignas(64) std::int8_t near_weights[kSignedPanels * kNearBytes];
#endif
  alignas(64) std::int32_t sums[kSignedPassRows * kSignedColumns];
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t j = 0; j < kSignedColumns; j += Vec::kWidth)
      Dot::all(starts[row]).store(sums + row * kSignedColumns + j);
  for (std::int64_t k = 0; k < padded; k += kSignedInputs) {
    const std::int64_t inputs = padded - k < kSignedInputs ? padded - k : kSignedInputs;
    const bool is_last = k + inputs == padded;
    const std::int8_t* chunk = w + k * kPanel;
    const NextWeights next{.first_panel = is_last ? w + kSignedPanels * panel_bytes : chunk + inputs * kPanel,
                           .panel_bytes = panel_bytes,
                           .bytes = kSignedInputs * kPanel};
    const std::int64_t step = next.step(blocks);
#if defined(ASSAY_VNNI_256)
    for (std::int64_t i = 0; i < panels; ++i)
      Dot::copy_for_block(near_weights + i * kNearBytes, chunk + i * panel_bytes, inputs * kPanel);
    const std::int8_t* weights = near_weights;
    const std::int64_t w_next = kNearBytes;
#else
    const std::int8_t* weights = chunk;
    const std::int64_t w_next = panel_bytes;
#endif
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t row = rows * block / blocks, count = rows * (block + 1) / blocks - row;
      std::int32_t* of_rows = sums + row * kSignedColumns;
      if (is_last) fetch_outputs(to, first_row + row, count, panel * kPanel);
      set_near_rows(x + k / kInt8Columns * strip + row * kInt8Columns, strip, count, inputs, near);
      for (std::int64_t i = 0; i < blocks_of(panels); ++i)
        add_signed_block(count, {.x = near,
                                 .w = weights + i * kSignedOutputs / kPanel * w_next,
                                 .w_next = has_neighbour(i, panels) ? w_next : 0,
                                 .inputs = inputs,
                                 .sums = reinterpret_cast<std::byte*>(of_rows + i * kSignedOutputs),
                                 .groups = 1,
                                 .x_scales = nullptr,
                                 .starts = nullptr,
                                 .x_next = 0,
                                 .w_scales = nullptr,
                                 .ahead = next.from(block, blocks, i),
                                 .step = step,
                                 .ahead_next = panel_bytes});
      if (is_last)
        finish_int8(args, {.sums = of_rows,
                           .first_row = first_row + row,
                           .rows = count,
                           .output = panel * kPanel,
                           .columns = panels * kPanel,
                           .stride = kSignedColumns,
                           .offset = 0});
    }
  }
}

void linear_int8_many_rows(const Int8Args& args) {
  const LinearArgs& to = args.to;
  const std::int64_t last = to.first_panel + to.panels,
                     passes = (to.rows + kSignedPassRows - 1) / kSignedPassRows;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t row = to.rows * pass / passes, rows = to.rows * (pass + 1) / passes - row;
    std::int32_t starts[kSignedPassRows];
    for (std::int64_t i = 0; i < rows; ++i) starts[i] = start_of_row(args, row + i);
    for (std::int64_t panel = to.first_panel; panel < last; panel += kSignedPanels)
      linear_int8_pass(args, row, rows, panel, last - panel < kSignedPanels ? last - panel : kSignedPanels,
                       starts);
  }
}
