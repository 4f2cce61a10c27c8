// Matrices of a model read some rows at a time, on all threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "assay/base/thread_pool.h"
#include "assay/checkpoint/checkpoint.h"

namespace assay {

// Calls task(i) for 0 <= i < count on the pool's threads; throws the first of what they throw.
template <typename Task>
void run_all(ThreadPool& pool, std::int64_t count, const Task& task) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  pool.run(pool.size(), [&](std::int64_t) {
    try {
      for (std::int64_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
      next = count;
    }
  });
  if (failure != nullptr) std::rethrow_exception(failure);
}

struct MatrixShape {
  std::int64_t rows = 0, columns = 0;  // outputs and inputs
  bool is_transposed = false;          // the file holds [columns, rows]
};

// How many rows a thread takes at once: a multiple of kQuantizedRows (quant/quantizer.h).
std::int64_t rows_per_slab(std::int64_t columns, bool is_transposed);
// Between two looks at whether to stop, each thread takes so many slabs.
inline constexpr std::int64_t kSlabsTogether = 4;

// Rows [first, first + count) of the outputs, [count][columns]. `stored` is room for a transposed matrix.
// Throws Error where the tensor cannot be read.
void read_matrix_rows(const CheckpointTensor& tensor, const MatrixShape& shape, std::int64_t first,
                      std::int64_t count, std::vector<float>& stored, float* out);

}  // namespace assay
