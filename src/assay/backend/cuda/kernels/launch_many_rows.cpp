#include "assay/backend/cuda/kernels/launch_many_rows.h"

#include "assay/backend/cuda/kernels/launch_shapes.h"

namespace assay::cuda {

namespace {

constexpr std::int64_t kRowsOfGate = 4, kGridRows = 65535;

bool steps_by_16_bytes(DevicePointer<const float> x, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(x.address) % 16 == 0 && stride % 4 == 0;
}

}  // namespace

bool gate_many(Runtime& runtime, const GatedArgs& args) {
  if (args.rows <= kMinorRows || args.rows > kGridRows || args.n % 4 != 0 || args.n == 0 ||
      !steps_by_16_bytes(args.x, args.x_stride) || !steps_by_16_bytes(args.out, args.out_stride))
    return false;
  launch(runtime, runtime.kernels().gated_many,
         {.grid_x = blocks_of(args.n, 4 * kThreads),
          .grid_y = blocks_of(args.rows, kRowsOfGate),
          .block = count_of(kThreads)},
         args);
  return true;
}

bool rotate_and_store_many(Runtime& runtime, const RotateStoreArgs& args) {
  const RotateArgs& rotate = args.rotate;
  const StoreArgs& store = args.store;
  const CacheLayout& cache = store.cache;
  const std::int64_t queries = rotate.heads - cache.kv_heads;
  if (store.rows <= kMinorRows || cache.format == CacheFormat::int8 || cache.head_dim % 8 != 0 ||
      2 * rotate.pairs != cache.head_dim || rotate.head_dim != cache.head_dim || queries < 0 ||
      rotate.rows != store.rows || store.x_stride != rotate.x_stride ||
      store.keys.address != rotate.x.address + queries * cache.head_dim ||
      !steps_by_16_bytes(rotate.x, rotate.x_stride) || !steps_by_16_bytes(store.values, store.x_stride) ||
      !steps_by_16_bytes(rotate.cosines, rotate.pairs) || !steps_by_16_bytes(rotate.sines, rotate.pairs))
    return false;
  const std::int64_t slots = (rotate.heads + cache.kv_heads) * cache.head_dim / 8;
  launch(runtime, runtime.kernels().rotate_and_store_many,
         {.grid_x = blocks_of(store.rows * slots, kThreads), .block = count_of(kThreads)}, args);
  return true;
}

}  // namespace assay::cuda
