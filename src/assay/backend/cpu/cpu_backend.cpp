#include "assay/backend/cpu/cpu_backend.h"

#include "assay/backend/cpu/kernels/select.h"
#include "assay/backend/cpu/lower/supported.h"
#include "assay/backend/cpu/run/executor.h"
#include "assay/backend/cpu/run/tuning.h"

namespace assay::cpu {

namespace {

int threads_of(const BackendOptions& options) {
  return options.threads != 0 ? options.threads : default_thread_count(options.processors);
}

}  // namespace

CpuBackend::CpuBackend(const BackendOptions& options)
    : isa_(options.is_isa_forced ? options.isa : best_usable_isa()),
      table_(select_kernels(isa_)),
      pool_(std::make_shared<ThreadPool>(threads_of(options), options.processors, options.pins_caller)),
      constants_(options.constants ? *options.constants
                                   : find_tuning(options.tune, isa_, table_, *pool_).constants) {}

std::unique_ptr<Program> CpuBackend::prepare(const Plan& plan, const WeightSource& source) {
  check_formats(plan);
  check_planes(plan, table_, name_of(isa_));
  return std::make_unique<Executor>(plan, source, table_, pool_, constants_);
}

PredictedMemory CpuBackend::predict(const Plan& plan, std::int64_t tokens) {
  check_formats(plan);
  return predicted_memory(plan, table_, pool_->size(), tokens);
}

}  // namespace assay::cpu
