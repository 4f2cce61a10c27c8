// Names a device that models run on.
#pragma once

#include <string>
#include <string_view>

namespace assay {

struct Device {
  // automatic: a GPU if this program can use one, else the CPU; chosen_device() says which.
  enum class Kind { cpu, cuda, automatic } kind = Kind::cpu;
  int index = 0;

  bool operator==(const Device&) const = default;
  std::string text() const {
    return kind == Kind::cpu ? "cpu" : kind == Kind::automatic ? "auto" : "cuda:" + std::to_string(index);
  }
};
// What multiplies matrices by many rows on a GPU: kernels of this program whose bits do not depend on the
// batch, NVIDIA's library cuBLASLt, or for each matrix what is expected to be the fastest of these and
// Hopper's warpgroups.
enum class CudaGemm { own, cublaslt, automatic };

// "cpu", "cuda", "cuda:1" or "auto". Throws FieldError for another name; whether the
// device is there shows when a backend is made for it.
Device device_from_name(std::string_view text);

}  // namespace assay
