// Weights as the CPU kernels read them: matrices in panels of 16 outputs, tables and vectors in rows.
#pragma once

#include <algorithm>
#include <array>
#include <functional>

#include "assay/backend/backend.h"
#include "assay/backend/common/grouped_codes.h"
#include "assay/backend/cpu/kernels/grouped_codes.h"
#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/base/aligned.h"
#include "assay/base/thread_pool.h"
#include "assay/quant/quantizer.h"

namespace assay::cpu {

// The values of 4-bit codes as whole numbers of at most 127 times a unit: the unit with which they differ
// least, by the sum of squares.
struct ByteCodebook {
  std::array<std::int8_t, 16> values;
  float unit;
};
ByteCodebook byte_codebook_of(const std::array<float, 16>& codebook);

// Inputs that share a scale as a weight is packed. Where inputs may be int8, a larger group has its scale
// several times.
inline std::int64_t packed_group(const WeightSpec& spec) {
  const std::int64_t group = ScaleLayout(spec.format, spec.rows, spec.columns).group;
  return has_offsets(spec.format) ? group : std::min(group, kMaxCodedGroup);
}

struct PackedWeight {
  WeightSpec spec;
  Packing packing = Packing::float32;  // by the format; asked for each operation of a step
  // A matrix is packed as kernels.h says. A table holds rows [rows][columns] of float or bfloat16, a vector
  // [columns] of float.
  AlignedBuffer data;
  std::int64_t bytes = 0;  // the size of data
  std::int64_t panels = 0;
  // For quantized formats: behind the codes in `data`.
  //   int8:  absmax [panels][16], then the sum of each output's codes, as int32
  //   4-bit: BlockScales
  //   grouped: the runs of each panel (common/grouped_layout.h)
  //   with zero points, minima or permuted inputs: behind the scales offsets in float32, which lie alike,
  //   then the group of each input, as int32 [k_padded]
  std::int64_t scales_at = 0, offsets_at = 0, input_groups_at = 0;  // bytes
  std::int64_t group = 0;     // inputs that share a scale of every output
  std::vector<float> values;  // what grouped codes stand for

  bool is_float() const { return packing == Packing::float32 || packing == Packing::bfloat16; }
  std::int64_t k_padded() const;
  std::int64_t panel_bytes() const;  // that codes or elements take
  const float* scales() const { return reinterpret_cast<const float*>(data.data() + scales_at); }
  bool has_bfloat16_scales() const { return spec.format.scale == ScaleType::bfloat16; }
  BlockScales block_scales() const { return {data.data() + scales_at, has_bfloat16_scales()}; }
  // Null where the format has none.
  const float* offsets() const {
    return spec.format.offset == Offset::none ? nullptr
                                              : reinterpret_cast<const float*>(data.data() + offsets_at);
  }
  const std::int32_t* input_groups() const {
    return spec.format.has_input_groups ? reinterpret_cast<const std::int32_t*>(data.data() + input_groups_at)
                                        : nullptr;
  }
  std::int64_t groups() const { return (k_padded() + group - 1) / group; }  // per output
  const std::int32_t* sums() const {
    return reinterpret_cast<const std::int32_t*>(scales() + panels * kPanel);
  }
  GroupedCodes grouped() const;
  GroupedPlace grouped_place();
  const std::array<float, 16>& codebook() const;  // for 4-bit codes
  const ByteCodebook& byte_codebook() const;      // the same, nearly
  int planes() const { return spec.planes(); }
  Bytes weight_bytes() const;  // the weight's own elements
  Bytes slack() const;         // padding beyond them
  // Row `row` of a table, or of a matrix that serves as one, widened to float: out[columns].
  void copy_row(std::int64_t row, float* out) const;
  // The same, added to out.
  void add_row(std::int64_t row, float* out) const;
};

// How the weights will lie, without their data: for predicting memory.
std::vector<PackedWeight> lay_out_weights(const std::vector<WeightSpec>& specs);

// Reads, converts and packs all weights (common/weight_stream.h). `place` is called with each weight, and its
// number, when its memory is there and nothing is written yet. Throws what the source throws.
using PlaceWeight = std::function<void(std::size_t, PackedWeight&)>;
std::vector<PackedWeight> pack_weights(const std::vector<WeightSpec>& specs, const WeightSource& source,
                                       ThreadPool& pool, const PlaceWeight& place = {});

}  // namespace assay::cpu
