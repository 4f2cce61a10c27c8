#include "assay/backend/cuda/driver.h"

#include <algorithm>
#include <iterator>

#include "assay/base/error.h"

namespace assay::cuda {

namespace {

// Values of cudaError, which do not change.
constexpr int kMemoryAllocation = 2, kInsufficientDriver = 35, kDevicesUnavailable = 46, kNoDevice = 100;
constexpr int kFaults[] = {
    214,  // ECC uncorrectable
    220,  // NVLink uncorrectable
    226,  // contained by ECC
    700,  // illegal address
    702,  // launch timeout
    710,  // assert
    714,  // hardware stack error
    715,  // illegal instruction
    716,  // misaligned address
    717,  // invalid address space
    718,  // invalid pc
    719,  // launch failure
    721,  // contained
    999,  // unknown
};

// "13.0" of 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

std::string driver_text(int driver_version, std::string_view kernel_module) {
  const std::string cuda = "CUDA " + version_text(driver_version);
  constexpr std::string_view kSpaces = " \t\n";
  for (std::size_t at = kernel_module.find_first_not_of(kSpaces); at != std::string_view::npos;) {
    const std::size_t end = std::min(kernel_module.find_first_of(kSpaces, at), kernel_module.size());
    const std::string_view word = kernel_module.substr(at, end - at);
    if (word.find_first_not_of("0123456789.") == std::string_view::npos && word.find('.') != word.npos)
      return std::string(word) + ", " + cuda;
    at = kernel_module.find_first_not_of(kSpaces, end);
  }
  return cuda;
}

void check_driver(const DriverAnswers& answers, int index) {
  if (answers.driver_version == 0)
    throw Error("device cuda:{}: this machine has no NVIDIA driver; use the device cpu", index);
  if (answers.error == kInsufficientDriver)
    throw Error(
        "device cuda:{}: the NVIDIA driver supports CUDA {} and this program needs {}; update the driver or "
        "use the "
        "device cpu",
        index, version_text(answers.driver_version), version_text(answers.runtime_version));
  if (answers.error == kNoDevice || (answers.error == 0 && answers.count == 0))
    throw Error(
        "device cuda:{}: the NVIDIA driver shows no GPU (see nvidia-smi and CUDA_VISIBLE_DEVICES); use the "
        "device "
        "cpu",
        index);
  if (answers.error != 0) throw Error("device cuda:{}: {}", index, answers.error_text);
  if (index < 0 || index >= answers.count)
    throw Error("device cuda:{}: this machine has {} {}, counted from 0", index, answers.count,
                answers.count == 1 ? "GPU" : "GPUs");
}

void check_device(const DeviceAnswers& answers, int index) {
  if (answers.major * 10 + answers.minor < 75)
    throw Error(
        "device cuda:{}: {} has compute capability {}.{}; at least 7.5 is needed (Turing); use the device "
        "cpu",
        index, answers.name, answers.major, answers.minor);
  if (answers.error == kDevicesUnavailable)
    throw Error(
        "device cuda:{}: {} is reserved by another program (compute mode exclusive); wait for that program "
        "or "
        "use another GPU",
        index, answers.name);
  if (answers.error == kMemoryAllocation)
    throw Error(
        "device cuda:{}: {} has no memory left for this program; end the programs that hold it (see "
        "nvidia-smi) or "
        "use another GPU",
        index, answers.name);
  if (answers.error != 0) throw Error("device cuda:{}: {}: {}", index, answers.name, answers.error_text);
}

bool is_fault(int error) {
  return std::find(std::begin(kFaults), std::end(kFaults), error) != std::end(kFaults);
}

}  // namespace assay::cuda
