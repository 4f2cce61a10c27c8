// Which kernels multiply a matrix by many rows: the one place where that is decided.
#pragma once

#include <optional>

#include "assay/backend/cuda/kernels/launch_choice.h"
#include "assay/backend/cuda/kernels/linear_args.h"
#include "assay/base/device.h"
#include "assay/plan/plan.h"

namespace assay {

namespace cuda {

// What was asked for, and what there is.
struct GemmWays {
  GemmWays(CudaGemm asked = CudaGemm::own) : gemm(asked) {}  // NOLINT: it stands for it

  CudaGemm gemm;
  // With CudaGemm::automatic in place of a choice, wherever it takes the product: for tests and measurements.
  std::optional<GemmKernel> forced = {};
  bool has_warpgroups = false, has_library = false;
};
// The library is asked for alone where it may be chosen. It being absent is no error of CudaGemm::automatic.
GemmWays gemm_ways(Runtime& runtime, CudaGemm gemm, std::optional<GemmKernel> forced = {});

// One multiplication. Of int8 codes `arithmetic` says nothing.
struct GemmProduct {
  std::int64_t rows = 0, outputs = 0, inputs = 0;
  MatrixFormat format = MatrixFormat::float32;
  Arithmetic arithmetic = Arithmetic::float32;
  bool takes_halves = false;  // warpgroups multiply it in 16 bits
  Activation activation = Activation::none;
  bool adds = false;
};
// From so many rows on anything else than own kernels is chosen automatically.
inline constexpr std::int64_t kChosenRows = 65;
GemmProduct gemm_product_of(const LinearOp& op, const WeightSpec& weight, std::int64_t rows);
bool takes_kernel(const GemmWays& ways, GemmKernel kernel, const GemmProduct& product);
// Whether CudaGemm::automatic leaves it to what was measured, where that was.
bool leaves_kernel_open(const GemmWays& ways, const GemmProduct& product);
GemmKernel choose_gemm(const GemmWays& ways, const GemmProduct& product, const LaunchChoice& choice = {});
inline ManyRows many_rows_of(GemmKernel kernel) {
  return kernel == GemmKernel::warpgroups ? ManyRows::warpgroups : ManyRows::ranges;
}

}  // namespace cuda
}  // namespace assay
