// GFLOP/s and GB/s of the linear kernels at GPT-2's shapes, for every instruction set this machine can run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/base/aligned.h"
#include "assay/base/random.h"
#include "assay/tensor/half.h"

namespace {

using assay::Isa;
using assay::cpu::kPanel;

// Enough copies of the weights that one pass over them does not fit the nearest caches.
constexpr std::int64_t kWorkingSet = std::int64_t{128} << 20;

enum class Weights { float32, bfloat16, split };

void linear(benchmark::State& state, Isa isa, Weights kind) {
  const std::int64_t rows = state.range(0), k = state.range(1), n = state.range(2);
  const assay::cpu::KernelTable table = assay::cpu::select_kernels(isa);
  const int planes = kind == Weights::split ? 2 : 1;
  const bool is_float32 = kind == Weights::float32;
  const std::int64_t panels = (n + kPanel - 1) / kPanel,
                     bytes = panels * kPanel * k * (is_float32 ? 4 : 2 * planes);
  const std::int64_t copies = rows == 1 ? std::max<std::int64_t>(1, kWorkingSet / bytes) : 1;
  const std::int64_t stride = k % 1024 == 0 ? k + 16 : k;  // as the backend has it
  const std::int64_t tile_rows = assay::cpu::round_up(rows, assay::cpu::kTileRows) + assay::cpu::kTileRows;
  // Buffers large enough for huge pages, as the backend's are.
  constexpr std::size_t kAtLeast = std::size_t{4} << 20;
  assay::AlignedBuffer x(static_cast<std::size_t>(rows * stride * 4) + kAtLeast, "x");
  assay::AlignedBuffer tile_buffer(static_cast<std::size_t>(planes * tile_rows * k * 2) + kAtLeast, "tiles");
  assay::AlignedBuffer y(static_cast<std::size_t>(rows * n * 4) + kAtLeast, "y");
  const assay::AlignedBuffer w(static_cast<std::size_t>(bytes * copies), "weights");
  auto* tiles = reinterpret_cast<std::uint16_t*>(tile_buffer.data());
  // Random numbers: zeros are multiplied faster.
  assay::Random random(1);
  const auto number = [&] { return static_cast<float>(random.uniform() - 0.5); };
  std::generate_n(x.floats(), rows * stride, number);
  std::generate_n(tiles, planes * tile_rows * k, [&] { return assay::float_to_bf16(number()); });
  if (is_float32)
    std::generate_n(const_cast<float*>(w.floats()), bytes * copies / 4, number);
  else
    std::generate_n(reinterpret_cast<std::uint16_t*>(const_cast<std::byte*>(w.data())), bytes * copies / 2,
                    [&] { return assay::float_to_bf16(number()); });
  const bool uses_tiles = table.uses_tiles && !is_float32;
  std::int64_t copy = 0;
  for (auto _ : state) {
    (uses_tiles ? table.linear_tiles : table.linear)(
        {.x = uses_tiles ? nullptr : x.floats(),
         .x_stride = stride,
         .x_tiles = uses_tiles ? assay::cpu::Tiles{tiles, tile_rows, k, planes} : assay::cpu::kNoTiles,
         .rows = rows,
         .k = k,
         .w = w.data() + copy * bytes,
         .packing = is_float32 ? assay::cpu::Packing::float32 : assay::cpu::Packing::bfloat16,
         .planes = planes,
         .bias = nullptr,
         .activation = assay::Activation::none,
         .adds = false,
         .y = y.floats(),
         .y_stride = n,
         .y_tiles = assay::cpu::kNoTiles,
         .n = n,
         .first_panel = 0,
         .panels = panels,
         .fetch = assay::usual_constants().fetch});
    copy = (copy + 1) % copies;
    benchmark::ClobberMemory();
  }
  const auto passes = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * passes * static_cast<double>(rows * k * n), benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(1e-9 * passes * static_cast<double>(bytes), benchmark::Counter::kIsRate);
}

void register_all() {
  constexpr std::pair<Weights, const char*> kKinds[] = {
      {Weights::float32, "float32"}, {Weights::bfloat16, "bfloat16"}, {Weights::split, "bf16x3"}};
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::amx})
    for (const auto& [kind, name] : kKinds) {
      if (!assay::is_usable(isa) || (kind == Weights::split && isa != Isa::amx)) continue;
      benchmark::RegisterBenchmark(("linear/" + std::string(name_of(isa)) + "/" + name).c_str(), linear, isa,
                                   kind)
          ->ArgNames({"rows", "k", "n"})
          ->Args({1, 768, 2304})
          ->Args({1, 3072, 768})
          ->Args({8, 768, 3072})
          ->Args({32, 768, 3072})
          ->Args({512, 768, 3072})
          ->Args({512, 3072, 768});
    }
}

}  // namespace

int main(int argc, char** argv) {
  register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
