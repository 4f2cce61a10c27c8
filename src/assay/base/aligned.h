// A zeroed, 64-byte aligned buffer that owns its memory. Large buffers ask for huge pages.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace assay {

class AlignedBuffer {
 public:
  AlignedBuffer() : data_(nullptr, Unmap{0}) {}
  // Throws Error naming `purpose` when the memory cannot be had.
  AlignedBuffer(std::size_t bytes, const char* purpose);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  float* floats() { return reinterpret_cast<float*>(data_.get()); }
  const float* floats() const { return reinterpret_cast<const float*>(data_.get()); }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Unmap> data_;
  std::size_t size_ = 0;
};

}  // namespace assay
