// The GPUs of this machine, where the program was built with CUDA.
#include "assay/backend/cuda/cuda_backend.h"
#if defined(ASSAY_HAS_CUDA)
#include "assay/backend/cuda/cuda_runtime.h"
#else
#include "assay/base/error.h"
#endif

namespace assay {

#if defined(ASSAY_HAS_CUDA)
std::shared_ptr<Backend> make_cuda_backend(const Device& device) {
  return make_cuda_backend(device, cuda::make_cuda_runtime(device.index));
}
int usable_cuda_devices() {
  return cuda::usable_devices();
}
#else
std::shared_ptr<Backend> make_cuda_backend(const Device& device) {
  throw Error("device {}: this program was built without CUDA; use the device cpu", device.text());
}
int usable_cuda_devices() {
  return 0;
}
#endif

}  // namespace assay
