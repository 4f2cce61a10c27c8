// Quantizing a model's matrices one at a time, on all threads, some rows of one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "assay/base/thread_pool.h"
#include "assay/checkpoint/source.h"
#include "assay/plan/plan.h"
#include "assay/quant/four_bit.h"
#include "assay/quant/reconstruction.h"
#include "assay/tensor/dtype.h"

namespace assay {

// The number as the type holds it.
float rounded(DType dtype, float x);

// Bytes that a file has for the codes of a matrix: packed, or int8 as two's complement, outputs as rows.
std::int64_t code_bytes(const WeightSpec& weight);

// What quantizing makes of a matrix besides its codes.
struct Quantized {
  std::vector<float> scales;  // the scales of blocks of 64, or of outputs
  std::int64_t non_finite = 0;
  ReconstructionError error;
};

// Holds some rows of a matrix for each thread, and the scales of one matrix: how large the model is does not
// matter.
class MatrixQuantizer {
 public:
  // Takes codes as they are made, with the number of their first byte. Called by all threads.
  using CodeSink = std::function<void(std::uint64_t first, std::span<const std::byte> codes)>;
  // Told how many rows of a matrix are done since the last call; what it throws ends the work. On the
  // caller's thread.
  using OnRows = std::function<void(const WeightSpec& weight, std::int64_t rows)>;

  // `source` and `pool` outlive it.
  MatrixQuantizer(const ModelSource& source, WeightFormat format, DType dtype, bool allows_non_finite,
                  ThreadPool& pool, OnRows on_rows);

  // The scales of a format whose scales are quantized themselves, as it holds them: the second of two passes
  // needs them all. Throws as below.
  NestedScales nest(const WeightSpec& weight);
  // `nested`: of such a format, what nest() gave; else null. Throws Error when the memory cannot be had, the
  // tensor cannot be read, or it holds NaN or infinity that is not allowed; what is allowed becomes 0.
  Quantized operator()(const WeightSpec& weight, const NestedScales* nested, const CodeSink& sink);

 private:
  struct Slab {
    std::vector<float> stored;     // for a matrix that is stored transposed
    std::vector<float> originals;  // [rows][columns]
    std::vector<float> rows;       // what is quantized of them; then what their codes stand for
    std::vector<std::uint8_t> codes;
    std::vector<std::byte> packed;
  };

  // Calls take(slab, first_row) for all rows of the matrix, on all threads.
  template <typename Take>
  void for_slabs(const WeightSpec& weight, const Take& take);
  void read(const WeightSpec& weight, std::int64_t first_row, std::int64_t rows, Slab& slab) const;
  void round_rows(const WeightSpec& weight, Slab& slab) const;
  std::span<const std::byte> packed_pairs(Slab& slab) const;

  const ModelSource& source_;
  WeightFormat format_;
  DType dtype_;
  bool allows_non_finite_;
  ThreadPool& pool_;
  OnRows on_rows_;
  std::vector<Slab> slabs_;  // one for each of the pool's threads
};

}  // namespace assay
