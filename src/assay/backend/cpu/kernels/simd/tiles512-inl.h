// Activations that are tiles of bfloat16, stored into the cache and quantized, for the ISA files that include
// it inside their own anonymous namespace, after all_kernels-inl.h. Not a header for others.
#pragma once

#include "assay/backend/cpu/kernels/simd/all_kernels-inl.h"

// 16 rows of 16 elements of 32 bits each, transposed.
void transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// Keys of up to 16 positions of one panel: pairs of dimensions change places with positions.
void store_key_tiles(const Tiles& tiles, std::int64_t row, std::int64_t rows, std::int64_t k_column,
                     const KvShape& shape, std::uint16_t* panel, std::int64_t column) {
  const auto lanes = static_cast<__mmask16>(Vec::mask(rows) << column);
  for (std::int64_t i = 0; i < shape.dim_padded(); i += kTileColumns) {
    const std::uint16_t* strip = tiles.data + tiles.offset(row, k_column + i);
    __m512i r[16];
    for (int j = 0; j < 16; ++j)
      r[j] = j < column || j >= column + rows ? _mm512_setzero_si512()
                                              : _mm512_loadu_si512(strip + (j - column) * kTileColumns);
    transpose(r);
    for (int pair = 0; pair < 16; ++pair)
      _mm512_mask_storeu_epi32(panel + (i / 2 + pair) * 2 * kPanel, lanes, r[pair]);
  }
}

// Values of one position, or of an even position and the next: pairs of positions side by side.
void store_value_tiles(const Tiles& tiles, std::int64_t row, bool has_next, std::int64_t v_column,
                       const KvShape& shape, std::uint16_t* values, std::int64_t at) {
  for (std::int64_t i = 0; i < shape.padded(); i += kPanel) {
    const std::uint16_t* v = tiles.data + tiles.offset(row, v_column + i);
    std::uint16_t* pairs = values + i * kKvBlockPositions + at / 2 * 2 * kPanel;
    const auto load = [](const std::uint16_t* from) {
      return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    };
    __m512i bits = load(v);
    if (at % 2 == 1)
      bits = _mm512_or_si512(_mm512_slli_epi32(bits, 16),
                             _mm512_and_si512(_mm512_loadu_si512(pairs), _mm512_set1_epi32(0xffff)));
    else if (has_next)
      bits = _mm512_or_si512(bits, _mm512_slli_epi32(load(v + kTileColumns), 16));
    _mm512_storeu_si512(pairs, bits);
  }
}

void store_bfloat16_tiles(const StoreArgs& args) noexcept {
  if (args.k != nullptr) return store_bfloat16(args);
  for (std::int64_t row = 0; row < args.rows;) {
    const std::int64_t position = args.first_position + row, at = position % kKvBlockPositions;
    const std::int64_t in_panel = kPanel - at % kPanel, left = args.rows - row;
    const std::int64_t rows = left < in_panel ? left : in_panel;
    auto* block = static_cast<std::uint16_t*>(args.blocks[position / kKvBlockPositions]);
    store_key_tiles(args.tiles, args.first_tile_row + row, rows, args.k_column, args.shape,
                    block + args.k_offset + at / kPanel * args.shape.dim_padded() * kPanel, at % kPanel);
    row += rows;
  }
  for (std::int64_t row = 0; row < args.rows;) {
    const std::int64_t position = args.first_position + row, at = position % kKvBlockPositions;
    const bool has_next = at % 2 == 0 && row + 1 < args.rows;
    auto* values = static_cast<std::uint16_t*>(args.blocks[position / kKvBlockPositions]) + args.v_offset;
    if (at == 0) clear_values(values, args.shape, (args.rows - row + 1) / 2);
    store_value_tiles(args.tiles, args.first_tile_row + row, has_next, args.v_column, args.shape, values, at);
    row += has_next ? 2 : 1;
  }
}

// Rows of tiles become floats one at a time, in the nearest cache.
void quantize_tiles(const QuantizeArgs& args) noexcept {
  if (args.x != nullptr) return quantize(args);
  alignas(64) float row_floats[kMaxTileInputs];
  QuantizeArgs one = args;
  one.x = row_floats;
  one.x_stride = 0;  // the same for every row
  one.rows = 1;
  for (std::int64_t row = args.first_row; row < args.first_row + args.rows; ++row) {
    for (std::int64_t i = 0; i < args.k; i += kTileColumns) {
      const __m512i pair = _mm512_loadu_si512(args.x_tiles.data + args.x_tiles.offset(row, i));
      const auto floats = [](__m256i bits) {
        return Vec{_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
      };
      floats(_mm512_castsi512_si256(pair)).store(row_floats + i);
      floats(_mm512_extracti64x4_epi64(pair, 1)).store(row_floats + i + kPanel);
    }
    one.first_row = row;
    quantize(one);
  }
}
