// What an NVIDIA driver answers, as data: sentences about it can be tested without one.
#pragma once

#include <string>
#include <string_view>

namespace assay::cuda {

struct DriverAnswers {
  int driver_version =
      0;  // what cudaDriverGetVersion gives: the CUDA it supports, 13000 for 13.0; 0: there is none
  int runtime_version = 0;      // that this program was built with
  int error = 0;                // what cudaGetDeviceCount gives, a cudaError
  std::string error_text = {};  // "out of memory (cudaErrorMemoryAllocation)"
  int count = 0;                // GPUs
};

// Throws Error, one sentence, unless the GPU of this index can be used: no driver, one that is too old, no
// GPU visible, another error, an index out of range.
void check_driver(const DriverAnswers& answers, int index);

// "580.65.06, CUDA 13.0", of what cudaDriverGetVersion gives and the text of /proc/driver/nvidia/version;
// where that names no version, CUDA's alone.
std::string driver_text(int driver_version, std::string_view kernel_module);

// What a GPU must be able to do, and be free for. `error`: of making a stream on it, 0 where that worked.
struct DeviceAnswers {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int error = 0;
  std::string error_text = {};
};
void check_device(const DeviceAnswers& answers, int index);

// Errors behind which every call to the device fails, since a kernel or the device itself has failed.
bool is_fault(int error);

}  // namespace assay::cuda
