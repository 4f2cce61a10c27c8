#include "assay/base/aligned.h"

#include <sys/mman.h>

#include "assay/base/error.h"

namespace assay {

namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
}

AlignedBuffer::AlignedBuffer(std::size_t bytes, const char* purpose)
    : data_(nullptr, Unmap{0}), size_(bytes) {
  if (bytes == 0) return;
  // Anonymous pages are zero and page-aligned; the kernel gives them on first touch.
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    throw Error("not enough memory for {}: {} bytes could not be allocated", purpose, bytes);
  if (bytes >= kHugePage) madvise(p, bytes, MADV_HUGEPAGE);  // a hint: streaming reads miss the TLB less
  data_ = std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(p), Unmap{bytes});
}

void AlignedBuffer::Unmap::operator()(std::byte* p) const {
  munmap(p, bytes);
}

}  // namespace assay
