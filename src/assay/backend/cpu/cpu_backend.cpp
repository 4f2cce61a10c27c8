#include "assay/backend/cpu/cpu_backend.h"

#include <algorithm>

#include "assay/backend/cpu/executor.h"
#include "assay/backend/cpu/select.h"
#include "assay/backend/cpu/supported.h"
#include "assay/backend/cpu/tuning.h"
#include "assay/base/error.h"

namespace assay::cpu {

namespace {

int threads_of(const BackendOptions& options) {
  return options.threads != 0 ? options.threads : default_thread_count(options.processors);
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
