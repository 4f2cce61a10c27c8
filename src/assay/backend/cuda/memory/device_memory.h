// Memory of a device that is freed with its owner.
#pragma once

#include <memory>
#include <utility>

#include "assay/backend/cuda/runtime.h"

namespace assay::cuda {

inline constexpr std::int64_t kAlignment = 256;

class OwnedMemory {
 public:
  OwnedMemory() = default;
  OwnedMemory(std::shared_ptr<Runtime> runtime, std::int64_t bytes)
      : runtime_(std::move(runtime)), memory_(runtime_->allocate(bytes)), bytes_(bytes) {}
  OwnedMemory(OwnedMemory&& other) noexcept { swap(other); }
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~OwnedMemory() {
    if (runtime_ == nullptr) return;
    try {
      runtime_->free(memory_);
    } catch (...) {  // NOLINT(bugprone-empty-catch): a device that has failed has no memory to give back
    }
  }

  DevicePointer<std::byte> get() const { return memory_; }
  std::int64_t bytes() const { return bytes_; }
  template <typename T>
  DevicePointer<T> at(std::int64_t offset) const {
    return (memory_ + offset).template as<T>();
  }

 private:
  void swap(OwnedMemory& other) {
    std::swap(runtime_, other.runtime_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
  }

  std::shared_ptr<Runtime> runtime_;
  DevicePointer<std::byte> memory_;
  std::int64_t bytes_ = 0;
};

// Offsets within one allocation, before there is one.
class Offsets {
 public:
  std::int64_t take(std::int64_t bytes) {
    const std::int64_t at = used_;
    used_ += round_up(bytes, kAlignment);
    return at;
  }
  std::int64_t used() const { return used_; }

 private:
  std::int64_t used_ = 0;
};

}  // namespace assay::cuda
