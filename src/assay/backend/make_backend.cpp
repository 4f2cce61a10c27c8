// Chooses a backend by its device; what a source without codes, and a program of the host, answer.
#include <stdexcept>

#include "assay/backend/cpu/cpu_backend.h"
#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/devices.h"
#include "assay/base/error.h"
#include "assay/base/memory.h"
#include "assay/quant/code_values.h"

namespace assay {

void WeightSource::read_codes(const WeightSpec& weight, std::int64_t /*first*/, std::int64_t /*count*/,
                              std::uint8_t* /*out*/) const {
  throw Error("tensor '{}': this source holds no codes", weight.name);
}

std::vector<float> WeightSource::read_scales(const WeightSpec& weight) const {
  throw Error("tensor '{}': this source holds no scales", weight.name);
}

std::vector<float> WeightSource::read_offsets(const WeightSpec& weight) const {
  throw Error("tensor '{}': this source holds no zero points and no minima", weight.name);
}

std::vector<std::int32_t> WeightSource::read_input_groups(const WeightSpec& weight) const {
  throw Error("tensor '{}': this source holds no groups of inputs", weight.name);
}

SuperBlocks WeightSource::read_super_blocks(const WeightSpec& weight) const {
  throw Error("tensor '{}': this source holds no super-blocks", weight.name);
}

void Program::run_greedily(const Batch& /*batch*/, KvCache& /*cache*/, std::int64_t /*steps*/,
                           std::span<TokenId> /*chosen*/, const std::function<void()>& /*after_each*/) {
  throw std::logic_error("this device does not choose tokens");
}

void Program::head_slice(std::span<const std::int64_t> /*rows*/, const LogitSlice& /*slice*/) {
  throw std::logic_error("this device has no slices of the LM head");
}

void Program::require_memory(Bytes needed, std::string_view purpose) const {
  assay::require_memory(needed, purpose);
}

Device chosen_device(const Device& device) {
  if (device.kind != Device::Kind::automatic) return device;
  return usable_cuda_devices() > 0 ? Device{Device::Kind::cuda} : Device{};
}

std::shared_ptr<Backend> make_backend(const Device& asked, const BackendOptions& options) {
  if (const Device device = chosen_device(asked); device.kind == Device::Kind::cuda) {
    if (options.is_isa_forced)
      throw FieldError("isa", "{} applies to CPUs; the device is {}", name_of(options.isa), device.text());
    return make_cuda_backend(device, options);
  }
  if (options.cuda_gemm != CudaGemm::own)
    throw FieldError("cuda_gemm", "{} applies to GPUs; the device is a CPU",
                     options.cuda_gemm == CudaGemm::cublaslt ? "cublaslt" : "auto");
  return std::make_shared<cpu::CpuBackend>(options);
}

}  // namespace assay
