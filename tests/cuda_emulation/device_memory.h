// Vectors to and from the memory of a device, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda_emulation/emulated_runtime.h"

namespace assay::cuda {

class DeviceMemory {
 public:
  explicit DeviceMemory(Runtime& runtime) : runtime_(runtime) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    for (const DevicePointer<std::byte> one : all_) runtime_.free(one);
  }

  // Memory of exactly so many elements, so that an access beyond them is seen.
  template <typename T>
  DevicePointer<T> of(std::size_t count) {
    all_.push_back(runtime_.allocate(static_cast<std::int64_t>(count * sizeof(T))));
    return all_.back().as<T>();
  }
  template <typename T>
  DevicePointer<T> put(const std::vector<T>& values) {
    const DevicePointer<T> to = of<T>(values.size());
    runtime_.upload(to.template as<std::byte>(), std::as_bytes(std::span(values)));
    return to;
  }
  template <typename T>
  std::vector<T> get(DevicePointer<T> from, std::size_t count) {
    std::vector<T> values(count);
    runtime_.download(std::as_writable_bytes(std::span(values)), from.template as<std::byte>());
    return values;
  }

 private:
  Runtime& runtime_;
  std::vector<DevicePointer<std::byte>> all_;
};

}  // namespace assay::cuda
