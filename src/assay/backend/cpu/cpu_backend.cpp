#include "assay/backend/cpu/cpu_backend.h"

#include <algorithm>

#include "assay/backend/cpu/executor.h"
#include "assay/backend/cpu/select.h"
#include "assay/backend/cpu/tuning.h"
#include "assay/base/error.h"

namespace assay::cpu {

namespace {

int threads_of(const BackendOptions& options) {
  return options.threads != 0 ? options.threads : default_thread_count(options.processors);
}

// Formats of GPUs, as an error: whoever chooses a precision for a CPU chooses float32 instead.
void check_formats(const Plan& plan) {
  for (const WeightSpec& w : plan.weights) {
    if (w.arithmetic.multiply == Multiply::tf32)
      throw FieldError("float32_matmul", "expected float32, bf16x3 or bf16x6 on a CPU, found tf32");
    if (w.format == formats::kFloat16 || w.arithmetic.multiply == Multiply::float16)
      throw Error("weight '{}': expected a format that a CPU multiplies, found float16", w.name);
  }
  if (plan.kv_format == KvFormat::float16)
    throw Error("the KV cache: expected a format that a CPU multiplies, found float16");
}

}  // namespace

CpuBackend::CpuBackend(const BackendOptions& options)
    : isa_(options.is_isa_forced ? options.isa : best_usable_isa()),
      table_(select_kernels(isa_)),
      pool_(std::make_shared<ThreadPool>(threads_of(options), options.processors, options.pins_caller)) {
  use_tuning(options.tune, isa_, table_, *pool_);
}

std::string CpuBackend::tuning() const {
  return isa_ == Isa::scalar ? std::string() : text_of(constants());
}

std::unique_ptr<Program> CpuBackend::prepare(const Plan& plan, const WeightSource& source) {
  check_formats(plan);
  for (const WeightSpec& w : plan.weights)
    if (w.planes() > 1 && !table_.uses_tiles)
      throw FieldError(
          "float32_matmul",
          "matrix multiplications of bfloat16 parts need AMX or AVX-512 BF16, and the kernels here are those "
          "of {}",
          name_of(isa_));
  return std::make_unique<Executor>(plan, source, table_, pool_);
}

PredictedMemory CpuBackend::predict(const Plan& plan, std::int64_t tokens) {
  check_formats(plan);
  return predicted_memory(plan, table_, pool_->size(), tokens);
}

}  // namespace assay::cpu
