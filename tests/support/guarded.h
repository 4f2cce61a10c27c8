// Memory behind which nothing can be read, so that a kernel that reads beyond its weights does not pass by
// luck.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <cstring>
#include <vector>

namespace assay::test {

// A copy of `values` that ends where a page without access begins. Aligned to 64 bytes where the size is a
// multiple of 64.
template <typename T>
class Guarded {
 public:
  explicit Guarded(const std::vector<T>& values) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), size = values.size() * sizeof(T),
               used = (size + page - 1) / page * page;
    bytes_ = used + page;
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(memory_ != MAP_FAILED);
    std::byte* end = static_cast<std::byte*>(memory_) + used;
    mprotect(end, page, PROT_NONE);
    data_ = reinterpret_cast<T*>(end - size);
    if (size > 0) std::memcpy(static_cast<void*>(data_), values.data(), size);
  }
  ~Guarded() { munmap(memory_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() const { return data_; }

 private:
  void* memory_;
  std::size_t bytes_;
  T* data_;
};

}  // namespace assay::test
