// Which kernels multiply many rows, and models that are computed by each.
#include "assay/backend/cuda/run/gemm_choice.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/run/gemm_library.h"
#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/session/load.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"
#include "support/prompt_batch.h"

namespace assay {
namespace {

using cuda::GemmProduct;
using cuda::GemmWays;

struct GpuOfChoice {
  explicit GpuOfChoice(const CudaOptions& options, int major = 9, bool has_library = true)
      : runtime(cuda::make_emulated_runtime(device_of(major, has_library))),
        backend(make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime, options)) {}
  static cuda::EmulatedDevice device_of(int major, bool has_library) {
    cuda::EmulatedDevice device;
    device.facts.major = major;
    device.has_gemm_library = has_library;
    return device;
  }
  std::vector<float> logits(const char* model, const Precision& precision) const {
    const Model loaded =
        Model::load(std::make_shared<const ModelFolder>(test::fixture_model(model)), backend, precision);
    workspace = loaded.program().memory().workspace;
    return logits_of(loaded.program());
  }
  // For four sequences, 176 rows in all.
  static std::vector<float> logits_of(Program& program) {
    const auto cache = program.make_cache();
    constexpr std::int64_t kSequences = 4, kLength = 44;
    cache->reserve(kSequences * ((kLength + kKvBlock - 1) / kKvBlock));
    const auto [batch, rows] = test::prompt_batch(*cache, kSequences, kLength, program.plan().vocab);
    program.run(batch, *cache);
    std::vector<float> logits(rows.size() * static_cast<std::size_t>(program.plan().vocab));
    program.head(rows, LogitsSink{logits});
    return logits;
  }

  std::shared_ptr<cuda::EmulatedRuntime> runtime;
  std::shared_ptr<Backend> backend;
  mutable Bytes workspace;
};

constexpr CudaOptions kAutomatic{.gemm = CudaGemm::automatic};

TEST(CudaGemmChoice, TakesTheLibraryThenWarpgroupsThenOwnKernels) {
  GemmWays ways(CudaGemm::automatic);
  ways.has_warpgroups = ways.has_library = true;
  const GemmProduct halves{.rows = 200,
                           .outputs = 64,
                           .inputs = 64,
                           .format = cuda::MatrixFormat::bfloat16,
                           .arithmetic = cuda::Arithmetic::bfloat16,
                           .takes_halves = true};
  GemmProduct float32 = halves, few = halves, int8 = halves, fewer_than_library = halves;
  float32.format = cuda::MatrixFormat::float32;
  float32.arithmetic = cuda::Arithmetic::float32;
  float32.takes_halves = false;
  few.rows = cuda::kChosenRows - 1;
  int8.format = cuda::MatrixFormat::int8;
  int8.takes_halves = false;
  fewer_than_library.rows = cuda::kLibraryRows - 1;
  EXPECT_EQ(choose_gemm(ways, halves), GemmKernel::cublaslt);
  EXPECT_EQ(choose_gemm(ways, fewer_than_library), GemmKernel::warpgroups);
  EXPECT_EQ(choose_gemm(ways, int8), GemmKernel::warpgroups);
  EXPECT_EQ(choose_gemm(ways, float32), GemmKernel::cublaslt);
  EXPECT_EQ(choose_gemm(ways, few), GemmKernel::own);
  ways.has_warpgroups = false;
  EXPECT_EQ(choose_gemm(ways, halves), GemmKernel::cublaslt);
  EXPECT_EQ(choose_gemm(ways, fewer_than_library), GemmKernel::own);
  EXPECT_EQ(choose_gemm(ways, int8), GemmKernel::own);
  ways.has_library = false;
  EXPECT_EQ(choose_gemm(ways, halves), GemmKernel::own);
  ways.has_warpgroups = true;
  EXPECT_EQ(choose_gemm(ways, halves), GemmKernel::warpgroups);
  ways.has_library = ways.has_warpgroups = true;
  ways.gemm = CudaGemm::own;
  EXPECT_EQ(choose_gemm(ways, halves), GemmKernel::own);
  EXPECT_EQ(choose_gemm(ways, int8), GemmKernel::warpgroups) << "exact sums have the bits of own kernels";
  ways.gemm = CudaGemm::cublaslt;
  EXPECT_EQ(choose_gemm(ways, halves), GemmKernel::cublaslt);
}

TEST(CudaGemmChoice, CanBeForced) {
  GemmWays ways(CudaGemm::automatic);
  ways.has_warpgroups = ways.has_library = true;
  const GemmProduct int8{.rows = 200, .outputs = 64, .inputs = 64, .format = cuda::MatrixFormat::int8};
  GemmProduct halves = int8;
  halves.format = cuda::MatrixFormat::float16;
  halves.takes_halves = true;
  for (const GemmKernel kernel : {GemmKernel::own, GemmKernel::warpgroups, GemmKernel::cublaslt}) {
    ways.forced = kernel;
    EXPECT_EQ(choose_gemm(ways, halves), kernel);
    EXPECT_EQ(choose_gemm(ways, int8), kernel == GemmKernel::cublaslt ? GemmKernel::own : kernel);
  }
}

struct ChoiceCase {
  const char* model;
  const char* precision;
  DType dtype;
  double bound;
};

TEST(CudaGemmChoice, ComputesModelsByWarpgroups) {
  for (const ChoiceCase& c : {ChoiceCase{"base", "bfloat16", DType::bf16, 5e-2},
                              ChoiceCase{"llama_grouped", "float16", DType::f16, 1e-2},
                              ChoiceCase{"base", "nf4", DType::bf16, 1e-1}}) {
    SCOPED_TRACE(c.precision);
    Precision precision = precision_from_name(c.precision);
    if (c.dtype == DType::f16)
      use_float16(precision);
    else if (precision.is_quantized())
      set_dtype(precision, c.dtype);
    // Groups of fewer than 16 codes, as small models have them, are left to the library.
    const GpuOfChoice automatic(kAutomatic, 9, precision.is_quantized()), own(CudaOptions{}),
        forced({.gemm = CudaGemm::automatic, .forced_gemm = GemmKernel::own});
    const std::vector<float> got = automatic.logits(c.model, precision),
                             want = own.logits(c.model, precision);
    EXPECT_LE(test::largest_difference(got, want) / test::standard_deviation_of(want), c.bound);
    if (!precision.is_quantized()) {
      EXPECT_EQ(automatic.runtime->products(), 0);
      EXPECT_EQ(automatic.workspace, own.workspace);
      // They take two launches; own kernels of few blocks add their ranges in a third.
      EXPECT_LT(automatic.runtime->launches(), own.runtime->launches());
    } else {
      EXPECT_NE(got, want) << "weights are rounded behind their scale";
    }
    EXPECT_EQ(forced.logits(c.model, precision), want);
  }
}

TEST(CudaGemmChoice, GivesInt8TheSameBits) {
  const Precision precision = precision_from_name("int8-dynamic");
  const GpuOfChoice hopper(CudaOptions{}), ampere(CudaOptions{}, 8);
  EXPECT_EQ(hopper.logits("base", precision), ampere.logits("base", precision));
}

TEST(CudaGemmChoice, TakesTheLibraryElsewhereAndMissesNone) {
  const Precision precision = precision_from_name("bfloat16");
  const GpuOfChoice ampere(kAutomatic, 8), bare(kAutomatic, 8, false), own(CudaOptions{}, 8),
      hopper(kAutomatic, 9, false);
  const std::vector<float> want = own.logits("base", precision);
  EXPECT_LE(
      test::largest_difference(ampere.logits("base", precision), want) / test::standard_deviation_of(want),
      5e-2);
  EXPECT_GT(ampere.runtime->products(), 0);
  EXPECT_GT(ampere.workspace.value, own.workspace.value);
  EXPECT_EQ(bare.logits("base", precision), want);
  EXPECT_EQ(bare.workspace, own.workspace);
  EXPECT_EQ(hopper.logits("base", precision).size(), want.size());
}

TEST(CudaGemmChoice, IsRefusedOnACpu) {
  BackendOptions options;
  options.cuda_gemm = CudaGemm::automatic;
  try {
    make_backend(Device{}, options);
    FAIL();
  } catch (const FieldError& error) {
    EXPECT_EQ(error.field(), "cuda_gemm");
    EXPECT_EQ(error.problem(), "auto applies to GPUs; the device is a CPU");
  }
}

}  // namespace
}  // namespace assay
