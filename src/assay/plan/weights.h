// The weights of a plan as the model means them, apart from how a file stores them and how a backend packs
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/units.h"
#include "assay/quant/precision.h"

namespace assay {

using WeightId = int;

// Consecutive output features of a matrix, rows of a table or elements of a vector, and the tensor that holds
// them.
struct WeightSlice {
  std::string tensor;       // as the file names it; empty: zeros, of a bias that only some slices have
  std::int64_t count = 0;   // output features, rows or elements
  std::int64_t first = 0;   // where they begin among the tensor's own
  std::int64_t stored = 0;  // how many the tensor has; 0: `count`, the slice is the whole tensor
};

struct WeightSpec {
  std::string name;          // the tensor's; of several, what the product of all of them is called
  std::int64_t rows = 0;     // output features of a matrix, entries of a table; 1 for a vector
  std::int64_t columns = 0;  // input features of a matrix, width of a table, length of a vector
  enum class Kind { vector, table, matrix } kind = Kind::vector;
  bool stored_transposed = false;  // the file holds [columns, rows] (GPT-2's Conv1D)
  // A matrix whose rows are looked up too (a tied embedding), or alone (an embedding that is stored in
  // codes).
  bool is_table_too = false;
  // What it is made of, in order: query, key and value projections are one matrix, of one tensor each or of a
  // fused one. Empty: of the one tensor `name`.
  std::vector<WeightSlice> slices = {};
  WeightFormat format = formats::kFloat32;
  MatmulArithmetic arithmetic = {};  // what a matrix is multiplied in
  // The file holds codes of `format` and their scales, [rows, columns]: they are taken as they are.
  bool is_stored_quantized = false;
  bool allows_non_finite = false;           // NaN and infinity are quantized as 0
  std::string_view why_not_quantized = {};  // for a matrix that a quantized precision leaves: a constant text
  // Added to each element of a vector when it is read: 1 for norms that multiply by 1 + weight.
  float offset = 0;
  // What each column of a matrix, or element of a vector, is multiplied by when it is read; empty: 1.
  std::vector<float> column_factors = {};

  // Where the tensor has its outputs in another order: each `run_rows` rows of it are the outputs that begin
  // at the run's entry. Not of transposed tensors, nor of slices. Empty: in order.
  std::int64_t run_rows = 0;
  std::vector<std::int64_t> run_outputs = {};

  // For a slice taken by itself: where it begins in its tensor, and how many output features that has; 0:
  // `rows` (of a vector `columns`), all of it.
  std::int64_t tensor_first = 0, tensor_count = 0;

  std::int64_t elements() const { return rows * columns; }
  // The bfloat16 parts that a matrix in float32 is packed as; 1 where it is packed as it is.
  int planes() const { return format == formats::kFloat32 ? planes_of(arithmetic.multiply) : 1; }
  // The output that a row, or element of a vector, of the tensor is.
  std::int64_t output_of(std::int64_t row) const {
    return run_outputs.empty() ? row : run_outputs[static_cast<std::size_t>(row / run_rows)] + row % run_rows;
  }
  // Output features of a matrix, rows of a table, elements of a vector: what slices cut.
  std::int64_t outputs() const { return kind == Kind::vector ? columns : rows; }
};

// A tensor of a weight as a weight of its own, and where it begins among the whole's outputs. Quantization
// sees these: blocks and scales of a tensor do not depend on what it is packed with.
struct TensorPart {
  WeightSpec spec;
  std::int64_t first_output = 0;
};
// In order; slices of zeros are left out.
std::vector<TensorPart> tensors_of(const WeightSpec& weight);

// Bytes of a weight in its format, with the scales of quantized ones; vectors are float32.
Bytes stored_bytes(const WeightSpec& weight);

}  // namespace assay
