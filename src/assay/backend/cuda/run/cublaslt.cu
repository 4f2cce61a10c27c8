// cuBLASLt behind dlopen: types and values are those of its header, functions are looked up by name. No test
// sees this file: the emulation has a library of its own.
#include "assay/backend/cuda/run/cublaslt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "assay/base/error.h"

namespace assay::cuda {

namespace {

constexpr const char* kLibraries[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

// The functions of a library that stays loaded.
struct Functions {
  static void* load() {
    for (const char* name : kLibraries)
      if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    throw Error("cuda_gemm: neither {} nor {} can be loaded; install cuBLAS or leave cublaslt out",
                kLibraries[0], kLibraries[1]);
  }
  void* find(const char* name) const {
    if (void* function = dlsym(library, name)) return function;
    throw Error("cuda_gemm: libcublasLt has no {}; install another version", name);
  }
  void* library = load();
#define ASSAY_FUNCTION(member, name) \
  decltype(&(name)) member = reinterpret_cast<decltype(&(name))>(find(#name))
  ASSAY_FUNCTION(create, cublasLtCreate);
  ASSAY_FUNCTION(destroy, cublasLtDestroy);
  ASSAY_FUNCTION(status_text, cublasLtGetStatusString);
  ASSAY_FUNCTION(create_product, cublasLtMatmulDescCreate);
  ASSAY_FUNCTION(set_product, cublasLtMatmulDescSetAttribute);
  ASSAY_FUNCTION(create_layout, cublasLtMatrixLayoutCreate);
  ASSAY_FUNCTION(create_preference, cublasLtMatmulPreferenceCreate);
  ASSAY_FUNCTION(destroy_preference, cublasLtMatmulPreferenceDestroy);
  ASSAY_FUNCTION(set_preference, cublasLtMatmulPreferenceSetAttribute);
  ASSAY_FUNCTION(find_algorithms, cublasLtMatmulAlgoGetHeuristic);
  ASSAY_FUNCTION(multiply, cublasLtMatmul);
#undef ASSAY_FUNCTION
};

class CublasLt final : public GemmLibrary {
 public:
  explicit CublasLt(cudaStream_t stream) : stream_(stream) { check(f_.create(&handle_), "starting"); }
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  ~CublasLt() override { f_.destroy(handle_); }

  // Row by row, out = x * w^T; column by column, as the library has it, out^T = w * x^T with w transposed.
  void multiply(const GemmProblem& p) override {
    const Chosen& chosen = chosen_for(p);
    const float alpha = 1, beta = p.adds ? 1.0F : 0.0F;
    check(f_.multiply(handle_, chosen.product, &alpha, p.w.address, chosen.w, p.x.address, chosen.x, &beta,
                      p.out.address, chosen.out, p.out.address, chosen.out, &chosen.algorithm,
                      p.workspace.data.address, static_cast<std::size_t>(p.workspace.bytes), stream_),
          "multiplying");
  }

 private:
  // Descriptors live as long as the library.
  struct Chosen {
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, out = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };
  using Key = std::array<std::int64_t, 10>;

  void check(cublasStatus_t status, const char* doing) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      throw Error("cuBLASLt failed while {}: {}", doing, f_.status_text(status));
  }
  // Up to what algorithms ask for.
  static std::uint32_t alignment_of(const void* address) {
    return 1U << std::min(8, std::countr_zero(reinterpret_cast<std::uintptr_t>(address) | 256U));
  }

  const Chosen& chosen_for(const GemmProblem& p) {
    const std::uint32_t alignments[] = {alignment_of(p.w.address), alignment_of(p.x.address),
                                        alignment_of(p.out.address)};
    const Key key{
        p.rows,       p.outputs,     p.inputs,      p.x_stride,    p.w_stride,
        p.out_stride, alignments[0], alignments[1], alignments[2], static_cast<std::int64_t>(p.arithmetic)};
    if (const auto found = chosen_.find(key); found != chosen_.end()) return found->second;
    Chosen chosen;
    const cudaDataType type = p.arithmetic == Arithmetic::float16    ? CUDA_R_16F
                              : p.arithmetic == Arithmetic::bfloat16 ? CUDA_R_16BF
                                                                     : CUDA_R_32F;
    const auto layout = [&](cublasLtMatrixLayout_t& to, cudaDataType of, std::int64_t columns,
                            std::int64_t rows, std::int64_t stride) {
      check(f_.create_layout(&to, of, static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows),
                             stride),
            "describing it");
    };
    check(
        f_.create_product(
            &chosen.product,
            p.arithmetic == Arithmetic::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "describing it");
    const auto how = CUBLAS_OP_T;
    check(f_.set_product(chosen.product, CUBLASLT_MATMUL_DESC_TRANSA, &how, sizeof how), "describing it");
    layout(chosen.w, type, p.inputs, p.outputs, p.w_stride);
    layout(chosen.x, type, p.inputs, p.rows, p.x_stride);
    layout(chosen.out, CUDA_R_32F, p.outputs, p.rows, p.out_stride);
    chosen.algorithm = algorithm_for(p, chosen, alignments);
    return chosen_.emplace(key, chosen).first->second;
  }

  cublasLtMatmulAlgo_t algorithm_for(const GemmProblem& p, const Chosen& chosen,
                                     const std::uint32_t (&alignments)[3]) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check(f_.create_preference(&preference), "choosing an algorithm");
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      check(f_.set_preference(preference, what, &value, sizeof value), "choosing an algorithm");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(p.workspace.bytes));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments[0]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments[1]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments[2]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments[2]);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status = f_.find_algorithms(handle_, chosen.product, chosen.w, chosen.x, chosen.out,
                                                     chosen.out, preference, 1, &best, &found);
    f_.destroy_preference(preference);
    check(status, "choosing an algorithm");
    if (found == 0) throw Error("cuBLASLt has no algorithm for {} x {} x {}", p.rows, p.outputs, p.inputs);
    return best.algo;
  }

  Functions f_;
  cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, Chosen> chosen_;
};

}  // namespace

std::unique_ptr<GemmLibrary> open_cublaslt(cudaStream_t stream) {
  return std::make_unique<CublasLt>(stream);
}

}  // namespace assay::cuda
