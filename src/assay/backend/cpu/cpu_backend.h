// The CPU backend: checks, splits the work into chunks, and calls the kernel table.
#pragma once

#include "assay/backend/backend.h"
#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/backend/cpu/lower/pack.h"
#include "assay/backend/cpu/memory/kv_cache.h"
#include "assay/base/thread_pool.h"

namespace assay::cpu {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const BackendOptions& options);
  Device device() const override { return {}; }
  std::string kernels() const override { return std::string(name_of(isa_)); }
  // None of scalar kernels, of which nobody waits for speed.
  std::optional<KernelConstants> constants() const override {
    return isa_ == Isa::scalar ? std::nullopt : std::optional(constants_);
  }
  bool multiplies_bfloat16() const override { return table_.uses_tiles; }
  int threads() const override { return pool_->size(); }
  ThreadPool* pool() override { return pool_.get(); }
  std::unique_ptr<Program> prepare(const Plan& plan, const WeightSource& source) override;
  PredictedMemory predict(const Plan& plan, std::int64_t tokens) override;
  void synchronize() override {}  // work is done when a call returns
  Event record() override { return {0, Clock::now()}; }
  Seconds between(const Event& begin, const Event& end) override { return elapsed(begin.host, end.host); }

 private:
  Isa isa_;
  KernelTable table_;
  std::shared_ptr<ThreadPool> pool_;
  KernelConstants constants_;
};

}  // namespace assay::cpu
