// How weights come from a source to a device: read in slabs by several threads, with their factors and
// offsets, quantized where their format asks for it, and handed to the device, which only has to place what
// it gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/base/thread_pool.h"
#include "assay/quant/code_values.h"

namespace assay {

// Some elements of a weight: that of input k and output i is values[k * input_stride + i * output_stride].
struct FloatBlock {
  std::int64_t first_output, outputs, first_input, inputs;
  const float* values;
  std::int64_t input_stride, output_stride;
};

// Where a device places weights, by their number in the call. Threads call it at the same time, each for
// other outputs or inputs: of a transposed matrix for a multiple of 64 inputs, of another for its own
// outputs.
class WeightSink {
 public:
  virtual ~WeightSink() = default;
  // Elements of a vector.
  virtual void put_vector(std::size_t weight, std::int64_t first, std::span<const float> values) = 0;
  // Elements of a matrix that is not quantized, or of a table.
  virtual void put_floats(std::size_t weight, const FloatBlock& block) = 0;
  // The codes of one output, one in a byte; of int8 with the largest magnitude that they stand for.
  virtual void put_codes(std::size_t weight, std::int64_t output, const std::uint8_t* codes,
                         float absmax) = 0;
  // The scales of all blocks of a tensor of grouped codes, as ScaleLayout has them; of formats with
  // super-blocks these instead.
  virtual void put_block_scales(std::size_t weight, const TensorPart& tensor,
                                std::span<const float> scales) = 0;
  virtual void put_super_blocks(std::size_t weight, const TensorPart& tensor, const SuperBlocks& blocks);
  // Beside them, of formats that have them: zero points or minima as scales are, and the group of each input.
  // Those of the source come before any code of any tensor. A device without such formats refuses them
  // before.
  virtual void put_offsets(std::size_t weight, const TensorPart& tensor, std::span<const float> offsets);
  virtual void put_input_groups(std::size_t weight, const TensorPart& tensor,
                                std::span<const std::int32_t> groups);
};

// Each slab goes through one thread of the pool from file to device: 1 MB, or 64 rows where those are more;
// of transposed matrices that are quantized 12 MB, of all threads together 128 MB, or 64 outputs where those
// are more. Throws what the source throws.
void stream_weights(std::span<const WeightSpec> specs, const WeightSource& source, ThreadPool& pool,
                    WeightSink& sink);

}  // namespace assay
