// Stands in for the CUDA backend in a program built without it.
#include "assay/backend/cuda/cuda_backend.h"
#include "assay/base/error.h"

namespace assay {
std::shared_ptr<Backend> make_cuda_backend(const Device& device) {
  throw Error("device {}: this program was built without CUDA; use the device cpu", device.text());
}
int usable_cuda_devices() {
  return 0;
}
}  // namespace assay
