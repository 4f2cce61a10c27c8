// Matrix multiplications of many rows by a library that takes matrices row by row: what is asked of it, and
// the way from a product of the plan to it. Opt-in: a row's bits then depend on how many rows there are.
#pragma once

#include <optional>

#include "assay/backend/cuda/kernels/kernels.h"

namespace assay::cuda {

// out = x * w^T, or +=, in float32: x [rows][x_stride], w [outputs][w_stride], of which `inputs` elements
// count; out [rows][out_stride]. Elements of x and w are float32 (arithmetic float32 and tf32), float16 or
// bfloat16; memory is aligned to an element. Strides count elements.
struct GemmProblem {
  DevicePointer<const std::byte> x = {}, w = {};
  std::int64_t rows = 0, outputs = 0, inputs = 0, x_stride = 0, w_stride = 0;
  Arithmetic arithmetic = Arithmetic::bfloat16;
  bool adds = false;
  DevicePointer<float> out = {};
  std::int64_t out_stride = 0;
  Scratch workspace = {};  // library_workspace_bytes()
};

// In the stream of its runtime, and part of a graph that is recorded. Throws Error.
class GemmLibrary {
 public:
  virtual ~GemmLibrary() = default;
  virtual void multiply(const GemmProblem& problem) = 0;
};

// From so many rows on a product is the library's: expanding the matrix costs as much for one row as for all.
inline constexpr std::int64_t kLibraryRows = 128;

constexpr std::int64_t element_bytes(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::float32 || arithmetic == Arithmetic::tf32 ? 4 : 2;
}
// The row of an expanded matrix, in elements: of whole tiles.
constexpr std::int64_t expanded_stride(std::int64_t inputs) {
  return round_up(inputs, 64);
}
constexpr std::int64_t expanded_matrix_bytes(std::int64_t outputs, std::int64_t inputs,
                                             Arithmetic arithmetic) {
  return outputs * expanded_stride(inputs) * element_bytes(arithmetic);
}
// As NVIDIA recommends: 32 MiB on Hopper and later, else 4.
constexpr std::int64_t library_workspace_bytes(const DeviceFacts& facts) {
  return std::int64_t{facts.major >= 9 ? 32 : 4} << 20;
}

// What the library computes such a product in; nothing: it is not the library's. `chosen`: of matrices that
// leave a choice.
std::optional<Arithmetic> library_arithmetic(MatrixFormat format, Arithmetic chosen, Activation activation,
                                             bool adds);

// The expanded matrix, and what the library works in.
struct LibraryScratch {
  Scratch matrix = {}, workspace = {};
};
// Expands the matrix, rounds the rows where they are of 16 bits, multiplies by the runtime's library, and
// adds bias and activation behind it. False, and nothing is done, for what is left to the kernels: few rows,
// an int8 matrix, an activation before an addition, scratch that is too small.
bool multiply_by_library(Runtime& runtime, const LinearArgs& args, const LibraryScratch& scratch);

void run(Runtime& runtime, const ExpandArgs& args);
void run(Runtime& runtime, const FinishArgs& args);

}  // namespace assay::cuda
