// What a GPU reaches at most, measured by its own events: reading memory, multiplying, and launching.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string_view>

#include "assay/backend/cuda/memory/device_memory.h"
#include "assay/base/units.h"
#include "assay/quant/precision.h"

namespace assay::cuda {

// Kinds of product, each by the instruction that the kernels use: mma.sync, and fused multiply-adds.
enum class ProductKind { float32_fma, tf32, float16, bfloat16, int8 };
inline constexpr ProductKind kProducts[] = {ProductKind::bfloat16, ProductKind::float16, ProductKind::tf32,
                                            ProductKind::int8, ProductKind::float32_fma};
std::string_view name_of(ProductKind kind);  // "bfloat16 mma.sync"
ProductKind product_of(Multiply multiply);
bool has_product(const DeviceFacts& facts, ProductKind kind);

class Probes {
 public:
  explicit Probes(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}

  // Bytes per second of reading a working set again and again for about this long, one pass at least; of more
  // than an eighth of the free memory or 4 GB that much. The buffer is taken for the call alone. A second
  // call begins with as many passes as the first one found to take so long.
  double bytes_per_second(Bytes working_set, Seconds each);
  // Operations per second of all SMs; a multiplication and an addition are two. Begins as bytes_per_second().
  double operations_per_second(ProductKind kind, Seconds each);
  // From one empty kernel to the next: launched one by one, and as nodes of a graph.
  Seconds launch_time(int launches = 1000);
  Seconds graph_node_time(int nodes = 1000);

 private:
  // The time of `work` by events, after the stream has become idle.
  Seconds time_of(const std::function<void()>& work);
  // Rounds until they take `each`, which are then timed once more: seconds of one. `known`: how many that
  // were before, 0 where nobody knows; becomes what they are now.
  double seconds_each(Seconds each, std::int64_t& known,
                      const std::function<void(std::int64_t rounds)>& work);

  std::shared_ptr<Runtime> runtime_;
  std::map<std::int64_t, std::int64_t> passes_;  // that reading so many bytes took last
  std::map<ProductKind, std::int64_t> rounds_;   // the same for multiplying
};

}  // namespace assay::cuda
