#include "cuda_emulation/global_memory.h"

#include <cstdlib>
#include <map>
#include <memory>

#include "assay/base/error.h"

namespace assay::cuda::emulation {

namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }  // NOLINT: calloc takes no memory for zeros
};
struct Held {
  std::uintptr_t end;
  std::unique_ptr<std::uint32_t[], Free> writers;
};
std::map<std::uintptr_t, Held>& allocations() {
  static std::map<std::uintptr_t, Held> all;
  return all;
}
Allocation last_found;

}  // namespace

Allocation allocation_of(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at >= last_found.begin && at < last_found.end) return last_found;
  auto next = allocations().upper_bound(at);
  if (next == allocations().begin()) return {};
  --next;
  // A pointer to the end of an allocation, as of an empty part, belongs to it.
  if (at > next->second.end) return {};
  return last_found = {next->first, next->second.end, next->second.writers.get()};
}
void add_allocation(const void* begin, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t cells = bytes / kWrittenCell + 1;
  auto* writers = static_cast<std::uint32_t*>(std::calloc(cells, sizeof(std::uint32_t)));  // NOLINT
  if (writers == nullptr)
    throw Error("the emulation of a GPU got no memory to tell who writes {} bytes", bytes);
  allocations()[at] = Held{at + bytes, std::unique_ptr<std::uint32_t[], Free>(writers)};
  last_found = {};
}
void remove_allocation(const void* begin) {
  allocations().erase(reinterpret_cast<std::uintptr_t>(begin));
  last_found = {};
}

void fail_access(const char* what, const Allocation& in, std::uintptr_t at, std::size_t bytes) {
  if (in.begin == 0)
    fail("an access of " + std::to_string(bytes) + " bytes through a pointer to no allocation");
  fail("an access of " + std::to_string(bytes) + " bytes, " + what + ", at byte " +
       std::to_string(static_cast<std::int64_t>(at - in.begin)) + " of an allocation of " +
       std::to_string(in.end - in.begin));
}

void check_early(const Allocation& in, std::uintptr_t at, std::size_t bytes, bool writes) {
  const auto where = [&] {
    return "byte " + std::to_string(at - in.begin) + " of an allocation of " +
           std::to_string(in.end - in.begin);
  };
  if (writes)
    fail(where() + " is written before the kernel in front was waited for, which may still read it");
  for (std::uintptr_t cell = (at - in.begin) / kWrittenCell;
       cell <= (at + bytes - 1 - in.begin) / kWrittenCell; ++cell)
    if (const std::uint32_t writer = in.writers[cell]; writer != 0 && writer >= first_running)
      fail(where() +
           (writer == launch_number       ? ", which this launch writes,"
            : writer + 1 == launch_number ? ", which the kernel in front has written,"
                                          : ", which a kernel that may still run has written,") +
           " is read before that kernel was waited for");
}

}  // namespace assay::cuda::emulation
