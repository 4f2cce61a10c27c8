// The weights of a plan in the memory of a GPU: matrices and tables in fragment order (layout.h), vectors in
// float32, and what operations need beside them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/cuda/kernels/kernels.h"
#include "assay/backend/cuda/memory/device_memory.h"

namespace assay::cuda {

// Static codes go from 0 to 255, those of the kernels from -128 on.
inline constexpr int kCodeOffset = 128;

// How a weight is packed, and what its products are computed in where it leaves a choice.
MatrixFormat format_of(const WeightSpec& spec);
Arithmetic arithmetic_of(const WeightSpec& spec);
bool takes_ordered_inputs(const WeightSpec& spec);
// Whether it norms one or two rows itself, where those are ordered and their moments are there.
bool norms_ordered_inputs(const WeightSpec& spec);

// The codes of one output of a grouped matrix, which was zero; threads put outputs of their own at once.
void put_grouped_codes(std::byte* matrix, int bits, std::int64_t columns, std::int64_t output,
                       const std::uint8_t* codes);

struct PackedWeight {
  WeightSpec spec;
  MatrixFormat format = MatrixFormat::float32;
  std::int64_t group = 0;  // for 4-bit codes the inputs that share a scale
  // From the beginning of the allocation; 0 of what there is not. scales: of int8 [outputs], of 4-bit codes
  // scale_count(), and as many offsets; input_groups [inputs padded to a tile], int32; sums of int8 codes
  // [outputs], int32.
  std::int64_t at = 0, scales_at = 0, offsets_at = 0, input_groups_at = 0, sums_at = 0;
  std::int64_t bytes = 0;  // that all take
  bool is_vector() const { return spec.kind == WeightSpec::Kind::vector; }
  Bytes weight_bytes() const;  // the weight's own elements and scales, without padding
};

// Numbers of one operation, float32; -1: none.
struct OpConstants {
  std::int64_t static_bias_at = -1;  // [outputs]: bias less what a static zero point adds
  std::int64_t factors_at = -1;      // [inputs]
  std::int64_t slopes_at = -1;       // [heads]
};

// Where everything will lie. Takes no memory.
struct WeightLayout {
  explicit WeightLayout(const Plan& plan);
  std::vector<PackedWeight> weights;   // the plan's
  std::vector<OpConstants> constants;  // for its operations, then for the LM head
  std::int64_t bytes = 0;
  Bytes weight_bytes;
};

class Weights {
 public:
  // Reads, quantizes, packs and uploads; one packed weight at a time is held on the host. Throws Error.
  Weights(const Plan& plan, const WeightSource& source, const std::shared_ptr<Runtime>& runtime);

  // In its place where it fits there, else in memory of its own. Throws Error, and changes nothing.
  void exchange(WeightId id, const WeightSpec& spec, const WeightSource& source,
                const std::shared_ptr<Runtime>& runtime);

  const WeightLayout& layout() const { return layout_; }  // as it is now
  const WeightSpec& spec(WeightId id) const { return packed(id).spec; }
  Matrix matrix(WeightId id) const;  // without data for kNone
  std::int64_t group(WeightId id) const { return packed(id).group; }
  std::int64_t bytes(WeightId id) const { return packed(id).bytes; }
  DevicePointer<const std::int32_t> sums(WeightId id) const;
  DevicePointer<const float> vector(WeightId id) const;        // null for kNone
  DevicePointer<const float> constant(std::int64_t at) const;  // null for -1
  const OpConstants& constants(std::size_t op) const { return layout_.constants[op]; }

 private:
  const PackedWeight& packed(WeightId id) const { return layout_.weights[static_cast<std::size_t>(id)]; }

  template <typename T>
  DevicePointer<T> at(WeightId id, std::int64_t offset) const {
    const auto own = own_.find(id);
    return (own == own_.end() ? memory_ : own->second).template at<T>(offset);
  }

  WeightLayout layout_;
  OwnedMemory memory_;
  std::vector<PackedWeight> places_;     // where weights were laid out in it
  std::map<WeightId, OwnedMemory> own_;  // the memory of those that were exchanged and are larger now
};

}  // namespace assay::cuda
