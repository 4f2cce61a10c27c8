// The CUDA backend over any runtime.
#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/probes.h"
#include "assay/backend/cuda/run/executor.h"
#include "assay/backend/cuda/run/gemm_library.h"
#include "assay/base/format.h"

namespace assay {

namespace cuda {

namespace {

class CudaBackend : public Backend {
 public:
  CudaBackend(const Device& device, std::shared_ptr<Runtime> runtime, const CudaOptions& options)
      : device_(device),
        runtime_(std::move(runtime)),
        options_(options),
        ways_(gemm_ways(*runtime_, options.gemm, options.forced_gemm)),
        probes_(runtime_) {}
  Device device() const override { return device_; }
  std::string kernels() const override {
    return fmt::format("sm_{}{}", runtime_->facts().major, runtime_->facts().minor);
  }
  std::string tuning() const override { return launches_->text(); }
  bool multiplies_bfloat16() const override { return true; }
  int threads() const override { return 1; }
  std::unique_ptr<Program> prepare(const Plan& plan, const WeightSource& source) override {
    return std::make_unique<CudaProgram>(plan, source, runtime_, options_, launches_);
  }
  PredictedMemory predict(const Plan& plan, std::int64_t tokens) override {
    return predicted_memory(plan, runtime_->facts(), tokens, ways_);
  }
  std::string bus_id() const override { return runtime_->facts().bus_id; }
  std::optional<DeviceMemory> memory() override {
    const Runtime::MemoryInfo info = runtime_->memory_info();
    return DeviceMemory{info.free, info.total, info.allocated, info.peak};
  }
  void reset_peak_memory() override { runtime_->reset_peak(); }
  std::optional<DeviceRates> measure_rates(Bytes working_set, Multiply multiply, Seconds each) override {
    return DeviceRates{probes_.bytes_per_second(working_set, each),
                       probes_.operations_per_second(product_of(multiply), each)};
  }
  void synchronize() override { runtime_->synchronize(); }
  Event record() override { return {runtime_->record(), Clock::now()}; }
  Seconds between(const Event& begin, const Event& end) override {
    return runtime_->between(begin.id, end.id);
  }

 private:
  Device device_;
  std::shared_ptr<Runtime> runtime_;
  CudaOptions options_;
  // All its programs share them.
  std::shared_ptr<LaunchChoices> launches_ = std::make_shared<LaunchChoices>();
  GemmWays ways_;
  Probes probes_;
};

}  // namespace

}  // namespace cuda

std::shared_ptr<Backend> make_cuda_backend(const Device& device, std::shared_ptr<cuda::Runtime> runtime,
                                           const CudaOptions& options) {
  return std::make_shared<cuda::CudaBackend>(device, std::move(runtime), options);
}

}  // namespace assay
