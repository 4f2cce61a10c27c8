// Weights as the CPU kernels read them: matrices in panels of 16 outputs, tables and vectors in rows.
#pragma once

#include "assay/backend/backend.h"
#include "assay/base/aligned.h"
#include "assay/base/thread_pool.h"

namespace assay::cpu {

struct PackedWeight {
  WeightSpec spec;
  // matrix: [panels][columns][16]; table: [rows][columns]; elements float or bfloat16. vector: [columns]
  // float.
  AlignedBuffer data;
  std::int64_t panels = 0;

  std::int64_t element_bytes() const;
  Bytes slack() const;  // padding beyond the weight's own elements
  // Row `row` of a table, or of a matrix that serves as one, widened to float: out[columns].
  void copy_row(std::int64_t row, float* out) const;
  // The same, added to out.
  void add_row(std::int64_t row, float* out) const;
};

// Reads the weight in slabs of at most 16 MB and packs each on the pool's threads.
PackedWeight pack_weight(const WeightSpec& spec, const WeightSource& source, ThreadPool& pool);

}  // namespace assay::cpu
