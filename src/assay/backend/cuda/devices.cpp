// The GPUs of this machine, where the program was built with CUDA.
#include "assay/backend/cuda/cuda_backend.h"
#include "assay/base/error.h"
#if defined(ASSAY_HAS_CUDA)
#include "assay/backend/cuda/cuda_runtime.h"
#endif

namespace assay {

#if defined(ASSAY_HAS_CUDA)
std::shared_ptr<Backend> make_cuda_backend(const Device& device, const BackendOptions& options) {
  return make_cuda_backend(device, cuda::make_cuda_runtime(device.index),
                           {.gemm = options.cuda_gemm, .tune = options.tune});
}
int usable_cuda_devices() {
  return cuda::usable_devices();
}
std::optional<std::string> why_no_gpu() {
  try {
    cuda::require_device(0);
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}
std::vector<GpuRooflines> measure_gpu_rooflines(Seconds each,
                                                const std::function<void(const std::string&)>& on_progress) {
  std::vector<GpuRooflines> all;
  for (int i = 0; i < usable_cuda_devices(); ++i) {
    const Device device{Device::Kind::cuda, i};
    if (on_progress) on_progress(device.text());
    all.push_back(measure_gpu_rooflines(device, cuda::make_cuda_runtime(i), each));
  }
  return all;
}
#else
namespace {

std::string not_built(const Device& device) {
  return fmt::format("device {}: this program was built without CUDA; use the device cpu", device.text());
}

}  // namespace

std::shared_ptr<Backend> make_cuda_backend(const Device& device, const BackendOptions& /*options*/) {
  throw Error("{}", not_built(device));
}
int usable_cuda_devices() {
  return 0;
}
std::optional<std::string> why_no_gpu() {
  return not_built({Device::Kind::cuda, 0});
}
std::vector<GpuRooflines> measure_gpu_rooflines(
    Seconds /*each*/, const std::function<void(const std::string&)>& /*on_progress*/) {
  return {};
}
#endif

}  // namespace assay
