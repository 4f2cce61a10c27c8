// The global memory of the emulated GPU: what is allocated, and which launch wrote what.
//
// A kernel starts when every kernel but the one in front of it has ended; behind one that lets the next start
// before it waits itself, when every kernel in front of the last that does not. Before it waits it may read
// what neither those that may still run nor its own launch have written, and write nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace assay::cuda::emulation {

// Bytes of global memory of which it is known who wrote them.
inline constexpr std::uintptr_t kWrittenCell = 16;
struct Allocation {
  std::uintptr_t begin = 0, end = 0;
  std::uint32_t* writers = nullptr;  // for each cell the launch that wrote it last; 0: none
};
// The allocation that holds an address, or an empty one.
Allocation allocation_of(const void* address);
void add_allocation(const void* begin, std::size_t bytes);
void remove_allocation(const void* begin);

// Throws the Error of the thread that runs.
[[noreturn]] void fail(const std::string& what);
[[noreturn]] void fail_access(const char* what, const Allocation& in, std::uintptr_t at, std::size_t bytes);

struct Indices {
  std::uint32_t thread = 0, threads = 0, block_x = 0, block_y = 0, block_z = 0, grid_x = 0;
};
extern Indices here;                 // that of the thread that runs
extern bool has_waited[1024];        // one for each thread of the block: for the kernel in front
extern std::uint32_t launch_number;  // that of the launch that runs
extern std::uint32_t first_running;  // the first launch that may still run when this one starts
extern bool lets_next_start;         // what runs has done so
// Fails for what has to wait for the kernel in front.
void check_early(const Allocation& in, std::uintptr_t at, std::size_t bytes, bool writes);
inline void touch(const Allocation& in, std::uintptr_t at, std::size_t bytes, bool writes) {
  if (!has_waited[here.thread]) check_early(in, at, bytes, writes);
  if (!writes) return;
  for (std::uintptr_t cell = (at - in.begin) / kWrittenCell;
       cell <= (at + bytes - 1 - in.begin) / kWrittenCell; ++cell)
    in.writers[cell] = launch_number;
}

}  // namespace assay::cuda::emulation
