// Keys and values into a bfloat16 cache over a `Vec`, for the ISA files that include it inside their own
// anonymous namespace, after float32_kernels-inl.h. Not a header for others.
//
// `Vec` has also: store_bfloat16 (its values, rounded) and store_pairs (pairs of bfloat16).
#pragma once

#include "assay/backend/cpu/kernels/simd/float32_kernels-inl.h"

// A head's row of keys: 32-bit pairs of dimensions, 64 bytes from one pair to the next.
void store_keys(const float* k, const KvShape& shape, std::uint16_t* panel, std::int64_t column) {
  alignas(64) std::uint16_t row[kMaxHeadDim];
  for (std::int64_t i = 0; i < shape.dim_padded(); i += Vec::kWidth) {
    const std::int64_t left = shape.head_dim - i, n = left < 0 ? 0 : left < Vec::kWidth ? left : Vec::kWidth;
    Vec::load_n(k + i, n).store_bfloat16(row + i);
  }
  std::uint32_t pair = 0;
  for (std::int64_t i = 0; i < shape.dim_padded() / 2; ++i) {
    __builtin_memcpy(&pair, row + 2 * i, sizeof(pair));
    __builtin_memcpy(panel + i * 2 * kPanel + 2 * column, &pair, sizeof(pair));
  }
}

// Values of one position, or of an even position and the next (`next` not null).
void store_values(const float* v, const float* next, const KvShape& shape, std::uint16_t* values,
                  std::int64_t at) {
  for (std::int64_t i = 0; i < shape.padded(); i += Vec::kWidth) {
    const std::int64_t left = shape.head_dim - i, n = left < 0 ? 0 : left < Vec::kWidth ? left : Vec::kWidth;
    std::uint16_t* pairs =
        values + i / kPanel * kPanel * kKvBlockPositions + at / 2 * 2 * kPanel + i % kPanel * 2;
    Vec even = Vec::load_n(v + i, n), odd = Vec::set(0.0F);
    if (at % 2 == 1) {
      odd = even;
      Vec none;
      Vec::load_pairs(pairs, even, none);
    } else if (next != nullptr) {
      odd = Vec::load_n(next + i, n);
    }
    Vec::store_pairs(even, odd, pairs);
  }
}

// The values of a block from a pair of positions on.
void clear_values(std::uint16_t* values, const KvShape& shape, std::int64_t first_pair) {
  for (std::int64_t i = 0; i < shape.padded(); i += kPanel)
    for (std::int64_t at = first_pair * 2; at < kKvBlockPositions; at += 2 * Vec::kWidth / kPanel)
      Vec::set(0.0F).store(reinterpret_cast<float*>(values + i * kKvBlockPositions + at * kPanel));
}

// A head's part of the row some rows further on: rows lie too far apart for the processor to see them coming,
// and are often another thread's.
ASSAY_INLINE void fetch_part(const StoreArgs& args, const float* x, std::int64_t row) {
  constexpr std::int64_t kRowsAhead = 6;
  if (row + kRowsAhead < args.rows) fetch_row(x + kRowsAhead * args.stride, args.shape.head_dim);
}

void store_bfloat16(const StoreArgs& args) noexcept {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    fetch_part(args, args.k + row * args.stride, row);
    const std::int64_t position = args.first_position + row, at = position % kKvBlockPositions;
    auto* block = static_cast<std::uint16_t*>(args.blocks[position / kKvBlockPositions]);
    std::uint16_t* panel = block + args.k_offset + at / kPanel * args.shape.dim_padded() * kPanel;
    if (at % kPanel == 0)
      for (std::int64_t i = 0; i < args.shape.dim_padded() / 2; ++i)
        __builtin_prefetch(panel + i * 2 * kPanel, 1);
    store_keys(args.k + row * args.stride, args.shape, panel, at % kPanel);
  }
  for (std::int64_t row = 0; row < args.rows;) {
    const std::int64_t position = args.first_position + row, at = position % kKvBlockPositions;
    const bool has_next = at % 2 == 0 && row + 1 < args.rows;
    const float* v = args.v + row * args.stride;
    fetch_part(args, v, row);
    fetch_part(args, v + args.stride, row + 1);
    auto* values = static_cast<std::uint16_t*>(args.blocks[position / kKvBlockPositions]) + args.v_offset;
    if (at == 0) clear_values(values, args.shape, (args.rows - row + 1) / 2);
    store_values(v, has_next ? v + args.stride : nullptr, args.shape, values, at);
    row += has_next ? 2 : 1;
  }
}
