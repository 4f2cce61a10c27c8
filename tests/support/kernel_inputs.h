// What kernels read, as tests of kernels make it: rows in tiles, rows as int8 codes, a cache in blocks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/quant/precision.h"
#include "assay/tensor/half.h"

namespace assay::test {

inline float& at(std::vector<float>& x, std::int64_t i) {
  return x[static_cast<std::size_t>(i)];
}
inline float at(const std::vector<float>& x, std::int64_t i) {
  return x[static_cast<std::size_t>(i)];
}

inline bool are_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Rows of `columns` floats as bfloat16 in tiles from a row and a column on; `rest` is what lies around them.
struct TiledRows {
  std::int64_t first_row, first_column;
  std::vector<std::uint16_t> data;
  cpu::Tiles tiles;

  TiledRows(const std::vector<float>& x, std::int64_t columns, std::int64_t row = 0, std::int64_t column = 0,
            std::uint16_t rest = 0)
      : first_row(row), first_column(column), tiles(cpu::kNoTiles) {
    const auto rows = static_cast<std::int64_t>(x.size()) / columns;
    tiles = {nullptr, cpu::round_up(rows + first_row, cpu::kTileRows) + cpu::kTileRows,
             first_column + cpu::round_up(columns, cpu::kTileColumns), 1};
    data.assign(static_cast<std::size_t>(tiles.rows * tiles.columns), rest);
    tiles.data = data.data();
    for (std::int64_t i = 0; i < rows * columns; ++i)
      tiles.data[tiles.offset(first_row + i / columns, first_column + i % columns)] = float_to_bf16(at(x, i));
  }
  TiledRows(const TiledRows&) = delete;
  TiledRows& operator=(const TiledRows&) = delete;
};

// Rows [first, first + rows) of int8 codes, by table.quantize(); what it leaves alone is 0x55.
struct Int8Rows {
  struct Options {
    float threshold = 0;          // those of outliers; negative counts as 0
    bool marks_outliers = false;  // columns that reach the threshold in any row
    bool has_ranges = false;      // a zero point for each row
    float fixed_scale = 0;
    std::int32_t fixed_zero_point = 0;
    const std::vector<float>* factors = nullptr;
    bool has_tiles = false;  // reads bfloat16 in tiles, which the table must use, in place of floats
    std::int64_t first = 0;
  };
  std::vector<std::uint16_t> data;
  cpu::Tiles tiles;
  std::vector<float> absmax;
  std::vector<std::int32_t> outliers, zero_points;

  // `x`: [first + rows, k].
  Int8Rows(const cpu::KernelTable& table, const std::vector<float>& x, std::int64_t rows, std::int64_t k,
           const Options& options)
      : tiles{nullptr, options.first + rows + cpu::kTileRows, cpu::round_up(k, cpu::kInt8Columns) / 2, 1},
        absmax(static_cast<std::size_t>(options.first + rows)) {
    if (options.has_ranges) zero_points.resize(absmax.size());
    data.assign(static_cast<std::size_t>(tiles.rows * tiles.columns), 0x5555);
    tiles.data = data.data();
    std::vector<std::uint8_t> is_outlier(static_cast<std::size_t>(k));
    if (options.marks_outliers)
      for (std::size_t i = 0; i < x.size(); ++i)
        if (std::fabs(x[i]) >= options.threshold) is_outlier[i % is_outlier.size()] = 1;
    for (std::size_t i = 0; i < is_outlier.size(); ++i)
      if (is_outlier[i] != 0) outliers.push_back(static_cast<std::int32_t>(i));
    constexpr std::uint16_t kNaN = 0x7fc0;
    const TiledRows held(options.has_tiles ? x : std::vector<float>(), k, 0, 0, kNaN);
    table.quantize({.x = options.has_tiles ? nullptr : x.data(),
                    .x_stride = k,
                    .codes = tiles,
                    .first_row = options.first,
                    .rows = rows,
                    .k = k,
                    .absmax = absmax.data(),
                    .threshold = options.threshold,
                    .is_outlier = outliers.empty() ? nullptr : is_outlier.data(),
                    .factors = options.factors == nullptr ? nullptr : options.factors->data(),
                    .zero_points = options.has_ranges ? zero_points.data() : nullptr,
                    .fixed_scale = options.fixed_scale,
                    .fixed_zero_point = options.fixed_zero_point,
                    .x_tiles = options.has_tiles ? held.tiles : cpu::kNoTiles});
  }
  Int8Rows(const Int8Rows&) = delete;
  Int8Rows& operator=(const Int8Rows&) = delete;

  // For a row, with the columns that fill the last group.
  std::vector<std::int8_t> codes_of(std::int64_t row, std::int64_t k) const {
    std::vector<std::int8_t> codes;
    const auto* bytes = reinterpret_cast<const std::int8_t*>(data.data());
    for (std::int64_t i = 0; i < cpu::round_up(k, cpu::kInt8Columns); ++i)
      codes.push_back(
          bytes[i / cpu::kInt8Columns * tiles.strip() * 2 + row * cpu::kInt8Columns + i % cpu::kInt8Columns]);
    return codes;
  }
};

// Keys and values of one head in blocks, as the cache lays them out. What is not written has all bits set,
// which are NaN in every format and as a scale: earlier use may have left anything there.
struct KvBlocks {
  cpu::KvShape shape;
  KvFormat format;
  std::int64_t v_offset;
  std::vector<std::vector<float>> blocks;  // as bytes; floats for their alignment
  std::vector<void*> pointers;

  // `k` and `v` [length, dim]. `from_tiles`: they are stored from tiles, which the table must use.
  KvBlocks(const cpu::KernelTable& table, const std::vector<float>& k, const std::vector<float>& v,
           std::int64_t dim, KvFormat kv_format, bool from_tiles = false)
      : shape{dim}, format(kv_format) {
    using cpu::kKvBlockPositions;
    const auto length = static_cast<std::int64_t>(k.size()) / dim;
    const bool is_int8 = format == KvFormat::int8;
    v_offset = (format == KvFormat::bfloat16 ? shape.dim_padded() : dim) * kKvBlockPositions +
               (is_int8 ? cpu::kInt8ScaleBytes : 0);
    const std::int64_t elements =
        v_offset + shape.padded() * kKvBlockPositions + (is_int8 ? cpu::kInt8ScaleBytes : 0);
    for (std::int64_t b = 0; b <= (length - 1) / kKvBlockPositions; ++b) {
      std::vector<float>& block = blocks.emplace_back(static_cast<std::size_t>(elements));
      std::memset(block.data(), 0xff, block.size() * sizeof(float));
    }
    for (auto& block : blocks) pointers.push_back(block.data());
    if (format == KvFormat::float32) {
      for (std::int64_t p = 0; p < length; ++p)
        for (std::int64_t i = 0; i < dim; ++i) {
          std::vector<float>& block = blocks[static_cast<std::size_t>(p / kKvBlockPositions)];
          at(block, i * kKvBlockPositions + p % kKvBlockPositions) = at(k, p * dim + i);
          at(block, v_offset + p % kKvBlockPositions * shape.padded() + i) = at(v, p * dim + i);
        }
      return;
    }
    std::vector<float> both;
    for (std::int64_t p = 0; from_tiles && p < length; ++p)
      for (const auto* from : {&k, &v})
        both.insert(both.end(), from->begin() + p * dim, from->begin() + (p + 1) * dim);
    const TiledRows held(both, 2 * dim, 3, 32);
    // In two calls, so that a pair of positions comes in parts.
    const std::int64_t first = std::min<std::int64_t>(length, 7);
    for (const auto& [begin, count] : {std::pair{std::int64_t{0}, first}, {first, length - first}})
      (is_int8 ? table.store_int8 : table.store_bfloat16)({.k = from_tiles ? nullptr : k.data() + begin * dim,
                                                           .v = from_tiles ? nullptr : v.data() + begin * dim,
                                                           .stride = dim,
                                                           .tiles = from_tiles ? held.tiles : cpu::kNoTiles,
                                                           .first_tile_row = held.first_row + begin,
                                                           .k_column = held.first_column,
                                                           .v_column = held.first_column + dim,
                                                           .rows = count,
                                                           .first_position = begin,
                                                           .shape = shape,
                                                           .blocks = pointers.data(),
                                                           .k_offset = 0,
                                                           .v_offset = v_offset});
  }
  KvBlocks(const KvBlocks&) = delete;
  KvBlocks& operator=(const KvBlocks&) = delete;

  auto attend_of(const cpu::KernelTable& table) const {
    return format == KvFormat::int8       ? table.attend_int8
           : format == KvFormat::bfloat16 ? table.attend_bfloat16
                                          : table.attend;
  }
  // To the bit, unwritten positions too.
  bool is_same(const KvBlocks& other) const {
    if (blocks.size() != other.blocks.size()) return false;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (!are_same_bits(blocks[i], other.blocks[i])) return false;
    return true;
  }
};

// Activations of `inputs`, as one row of outputs of one input.
inline std::vector<float> activations_of(const cpu::KernelTable& table, Activation activation,
                                         bool is_rounded, const std::vector<float>& inputs) {
  const auto n = static_cast<std::int64_t>(inputs.size());
  std::vector<float> w(static_cast<std::size_t>(cpu::round_up(n, cpu::kPanel))), y(inputs.size());
  std::copy(inputs.begin(), inputs.end(), w.begin());
  const float one = 1;
  table.linear({.x = &one,
                .x_stride = 1,
                .x_tiles = cpu::kNoTiles,
                .rows = 1,
                .k = 1,
                .w = w.data(),
                .packing = cpu::Packing::float32,
                .planes = 1,
                .bias = nullptr,
                .activation = activation,
                .adds = false,
                .is_rounded = is_rounded,
                .y = y.data(),
                .y_stride = n,
                .y_tiles = cpu::kNoTiles,
                .n = n,
                .first_panel = 0,
                .panels = cpu::round_up(n, cpu::kPanel) / cpu::kPanel});
  return y;
}

}  // namespace assay::test
