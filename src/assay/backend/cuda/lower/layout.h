// How matrices, keys and values lie in the memory of a GPU. One function for each, for the host that packs,
// for the kernels that read, and for tests.
//
// A matrix is held in the order in which tensor cores take operand A (PTX ISA, "Matrix Fragments for
// mma.m16n8k8 / k16 / k32"): a warp fetches a tile of 16 outputs with one load of 16 bytes a lane, 512 bytes
// in a row, and needs no shared memory for weights. Tiles of one strip of 16 outputs follow one another along
// the inputs; rows and columns are padded with zeros to whole tiles.
#pragma once

#include <cstdint>

#include "assay/backend/common/grouped_layout.h"

namespace assay::cuda {

// What the elements of a matrix are. four_bit: codes 0 to 15 of whatever book. grouped: codes of any width,
// in the spans and planes of common/grouped_layout.h in place of tiles (bit_in_plane).
enum class MatrixFormat : std::int32_t { float32, float16, bfloat16, int8, four_bit, grouped };

inline constexpr std::int64_t kStrip = 16;       // outputs of a tile
inline constexpr std::int64_t kTileBytes = 512;  // in every format
inline constexpr int kLanes = 32;

ASSAY_HOST_DEVICE constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}
// Inputs of a tile.
ASSAY_HOST_DEVICE constexpr std::int64_t tile_inputs(MatrixFormat format) {
  return format == MatrixFormat::float32    ? 8
         : format == MatrixFormat::int8     ? 32
         : format == MatrixFormat::grouped  ? kSpan
         : format == MatrixFormat::four_bit ? 64
                                            : 16;
}
ASSAY_HOST_DEVICE constexpr std::int64_t tiles_of_strip(MatrixFormat format, std::int64_t inputs) {
  return (inputs + tile_inputs(format) - 1) / tile_inputs(format);
}
ASSAY_HOST_DEVICE constexpr std::int64_t strips_of(std::int64_t outputs) {
  return (outputs + kStrip - 1) / kStrip;
}
ASSAY_HOST_DEVICE constexpr std::int64_t matrix_bytes(MatrixFormat format, std::int64_t outputs,
                                                      std::int64_t inputs) {
  return strips_of(outputs) * tiles_of_strip(format, inputs) * kTileBytes;
}

// The first byte of an element within its tile. `row` and `k` count from the tile's first output and input.
//   lane = 4 * (row % 8) + t owns bytes [16 * lane, 16 * lane + 16)
//   float32   t = k / 2:      elements (row, 2t) (row + 8, 2t) (row, 2t + 1) (row + 8, 2t + 1), the A
//             registers of m16n8k8 whose k slots t and t + 4 stand for inputs 2t and 2t + 1
//   float16, bfloat16   t = k % 8 / 2: A registers of m16n8k16
//   int8      t = k % 16 / 4: A registers of m16n8k32
//   four_bit  t = k % 8 / 2: word i is the k16 step i, its byte j the two elements of A register j, the even
//             input in the low nibble
ASSAY_HOST_DEVICE constexpr std::int64_t byte_in_tile(MatrixFormat format, std::int64_t row, std::int64_t k) {
  const std::int64_t half = row / 8, lane = row % 8 * 4;
  switch (format) {
    case MatrixFormat::float32:
      return (lane + k / 2) * 16 + (half + 2 * (k % 2)) * 4;
    case MatrixFormat::float16:
    case MatrixFormat::bfloat16:
      return (lane + k % 8 / 2) * 16 + (k % 2 + 2 * half + 4 * (k / 8)) * 2;
    case MatrixFormat::int8:
      return (lane + k % 16 / 4) * 16 + k % 4 + 4 * half + 8 * (k / 16);
    case MatrixFormat::four_bit:
      return (lane + k % 8 / 2) * 16 + k / 16 * 4 + half + 2 * (k % 16 / 8);
    case MatrixFormat::grouped:
      break;
  }
  return 0;
}
// The first byte of an element of a matrix with this many inputs; of a 4-bit code also how far up it lies.
ASSAY_HOST_DEVICE constexpr std::int64_t byte_of(MatrixFormat format, std::int64_t inputs, std::int64_t row,
                                                 std::int64_t k) {
  const std::int64_t width = tile_inputs(format);
  return (row / kStrip * tiles_of_strip(format, inputs) + k / width) * kTileBytes +
         byte_in_tile(format, row % kStrip, k % width);
}
ASSAY_HOST_DEVICE constexpr int shift_of_code(std::int64_t k) {
  return static_cast<int>(k % 2 * 4);
}

// Where the part of a grouped code that a plane of `width` bits holds lies in the plane of its span: bits
// from its beginning, none of which cross a byte. A lane owns 16 elements, those which it multiplies: bytes
// [2 * width * lane, 2 * width * (lane + 1)). Two inputs of an A register are 16 bits apart, so that a shift
// and a mask yield both; no byte belongs to two outputs, which threads of the host write at the same time.
ASSAY_HOST_DEVICE constexpr std::int64_t bit_in_plane(int width, std::int64_t row, std::int64_t k) {
  const std::int64_t lane = row % 8 * 4 + k % 8 / 2, half = row % kStrip / 8, step = k % kSpan / 16,
                     upper = k % 16 / 8, second = k % 2;
  const std::int64_t bit = width == 8   ? 64 * step + 32 * half + 16 * second + 8 * upper
                           : width == 4 ? 32 * step + 16 * second + 8 * half + 4 * upper
                           : width == 2 ? 16 * second + 8 * half + 4 * step + 2 * upper
                                        : 8 * half + 4 * second + 2 * step + upper;
  return lane * 16 * width + bit;
}

// What kernels of grouped codes are compiled for: groups of 16 inputs, or of 32 and more; numbers as scales
// (none: bits are 0); and the shared memory of a warp and strip, for the scales of 256 inputs twice as they
// are and once in float32, with minima where there may be any.
ASSAY_HOST_DEVICE constexpr bool has_small_groups(int bits) {
  return bits == 2 || bits == 3 || bits == 6;
}
ASSAY_HOST_DEVICE constexpr bool may_have_minima(int bits, bool has_book) {
  return bits == 2 || bits == 5 || (bits == 4 && !has_book);
}
ASSAY_HOST_DEVICE constexpr ScaleRun super_block_of(int bits, bool has_book) {
  if (bits == 8) return {};
  return run_of_super_block(bits, 256, has_small_groups(bits) ? 16 : 8,
                            bits == 2   ? 4
                            : bits == 6 ? 8
                                        : 6,
                            may_have_minima(bits, has_book));
}
inline constexpr std::int64_t kRawScaleBytes = 512;
ASSAY_HOST_DEVICE constexpr std::int64_t grouped_stage_bytes(int bits, bool has_book) {
  return 2 * kRawScaleBytes +
         (has_small_groups(bits) ? 16 : 8) * kStrip * (may_have_minima(bits, has_book) ? 8 : 4);
}

// Scales of 4-bit codes: [strip][group][16], beside the tiles. A group is a power of two of inputs.
ASSAY_HOST_DEVICE constexpr std::int64_t groups_of_strip(std::int64_t inputs, std::int64_t group) {
  return (round_up(inputs, tile_inputs(MatrixFormat::four_bit)) + group - 1) / group;
}
ASSAY_HOST_DEVICE constexpr std::int64_t scale_count(std::int64_t outputs, std::int64_t inputs,
                                                     std::int64_t group) {
  return strips_of(outputs) * groups_of_strip(inputs, group) * kStrip;
}
// The scale of one of the groups of a row, and that of the group which input k is in by its position.
ASSAY_HOST_DEVICE constexpr std::int64_t scale_of_group(std::int64_t inputs, std::int64_t group,
                                                        std::int64_t row, std::int64_t index) {
  return (row / kStrip * groups_of_strip(inputs, group) + index) * kStrip + row % kStrip;
}
ASSAY_HOST_DEVICE constexpr std::int64_t scale_of(std::int64_t inputs, std::int64_t group, std::int64_t row,
                                                  std::int64_t k) {
  return scale_of_group(inputs, group, row, k / group);
}
// With double quantization, elements whose scales share a nested scale (64 weights a scale, 256 scales).
inline constexpr std::int64_t kNestedElements = 64 * 256;

// Keys and values: pages of 64 positions that hold all layers, [layer][kv head][keys, then values]; keys or
// values of a head are [64][head_dim], each row padded to 16 bytes; int8 codes are followed by a float32
// scale for each position, [64].
enum class CacheFormat : std::int32_t { float32, float16, bfloat16, int8 };
inline constexpr std::int64_t kPagePositions = 64;
struct CacheLayout {
  CacheFormat format = CacheFormat::float32;
  std::int32_t layers = 0, kv_heads = 0, head_dim = 0;

  ASSAY_HOST_DEVICE constexpr std::int64_t element_bytes() const {
    return format == CacheFormat::float32 ? 4 : format == CacheFormat::int8 ? 1 : 2;
  }
  ASSAY_HOST_DEVICE constexpr std::int64_t row_bytes() const {
    return round_up(head_dim * element_bytes(), 16);
  }
  // Where the scales of int8 keys lie behind the first of them.
  ASSAY_HOST_DEVICE constexpr std::int64_t scales_at() const { return kPagePositions * row_bytes(); }
  ASSAY_HOST_DEVICE constexpr std::int64_t keys_bytes() const {  // as many as values
    return scales_at() + (format == CacheFormat::int8 ? kPagePositions * 4 : 0);
  }
  ASSAY_HOST_DEVICE constexpr std::int64_t page_bytes() const { return layers * kv_heads * 2 * keys_bytes(); }
  // From the beginning of a page.
  ASSAY_HOST_DEVICE constexpr std::int64_t keys_at(std::int64_t layer, std::int64_t kv_head) const {
    return (layer * kv_heads + kv_head) * 2 * keys_bytes();
  }
  ASSAY_HOST_DEVICE constexpr std::int64_t values_at(std::int64_t layer, std::int64_t kv_head) const {
    return keys_at(layer, kv_head) + keys_bytes();
  }
};

}  // namespace assay::cuda
