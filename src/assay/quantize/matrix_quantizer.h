// Quantizing a model's matrices one at a time, on all threads.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/base/thread_pool.h"
#include "assay/checkpoint/model_folder.h"
#include "assay/plan/plan.h"
#include "assay/quant/four_bit.h"
#include "assay/quant/reconstruction.h"
#include "assay/tensor/dtype.h"

namespace assay {

// The number as the type holds it.
float rounded(DType dtype, float x);

// What quantizing makes of a matrix. Codes have the outputs as rows.
struct Quantized {
  std::vector<std::uint8_t> codes;  // as the file has them: packed, or int8 as two's complement
  std::vector<float> scales;        // of blocks of 64, or of outputs
  NestedScales nested;              // of double quantization
  std::int64_t non_finite = 0;
  ReconstructionError error;
};

// Quantizes one matrix after the other; the buffers of the largest serve all.
class MatrixQuantizer {
 public:
  // `folder` and `pool` outlive it.
  MatrixQuantizer(const ModelFolder& folder, WeightFormat format, DType dtype, bool allows_non_finite,
                  ThreadPool& pool);

  // Throws Error when the memory cannot be had, the tensor cannot be read, or it holds NaN or infinity that
  // is not allowed; what is allowed becomes 0.
  Quantized operator()(const WeightSpec& weight);

 private:
  void read(const WeightSpec& weight);
  void round_rows(const WeightSpec& weight, std::size_t first, std::size_t size);
  void quantize(const WeightSpec& weight, Quantized& out);
  void pack_pairs(const WeightSpec& weight, Quantized& out);
  void measure(const WeightSpec& weight, Quantized& out);

  const ModelFolder& folder_;
  WeightFormat format_;
  DType dtype_;
  bool allows_non_finite_;
  ThreadPool& pool_;
  std::vector<float> originals_, rows_;
  std::vector<std::uint8_t> codes_;
};

}  // namespace assay
