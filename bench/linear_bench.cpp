// GFLOP/s and GB/s of the linear kernels at GPT-2's shapes, for every instruction set this machine can run.
#include <benchmark/benchmark.h>

#include <vector>

#include "assay/backend/cpu/select.h"

namespace {

using assay::Isa;
using assay::cpu::kPanel;

// Enough copies of the weights that one pass over them does not fit the nearest caches.
constexpr std::int64_t kWorkingSet = std::int64_t{256} << 20;

void linear(benchmark::State& state, Isa isa, bool is_bfloat16) {
  const std::int64_t rows = state.range(0), k = state.range(1), n = state.range(2);
  const assay::cpu::KernelTable table = assay::cpu::select_kernels(isa);
  const std::int64_t panels = (n + kPanel - 1) / kPanel, bytes = panels * kPanel * k * (is_bfloat16 ? 2 : 4);
  const std::int64_t copies = rows == 1 ? std::max<std::int64_t>(1, kWorkingSet / bytes) : 1;
  const std::vector<float> x(static_cast<std::size_t>(rows * k), 0.5F);
  const std::vector<std::byte> w(static_cast<std::size_t>(bytes * copies));
  std::vector<float> y(static_cast<std::size_t>(rows * n));
  std::int64_t copy = 0;
  for (auto _ : state) {
    table.linear({.x = x.data(),
                  .x_stride = k,
                  .rows = rows,
                  .k = k,
                  .w = w.data() + copy * bytes,
                  .is_bfloat16 = is_bfloat16,
                  .bias = nullptr,
                  .activation = assay::Activation::none,
                  .adds = false,
                  .y = y.data(),
                  .y_stride = n,
                  .n = n,
                  .first_panel = 0,
                  .panels = panels});
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
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!assay::is_usable(isa)) continue;
    for (const bool is_bfloat16 : {false, true})
      benchmark::RegisterBenchmark(
          (std::string("linear/") + std::string(name_of(isa)) + (is_bfloat16 ? "/bfloat16" : "/float32"))
              .c_str(),
          linear, isa, is_bfloat16)
          ->ArgNames({"rows", "k", "n"})
          ->Args({1, 768, 2304})
          ->Args({1, 3072, 768})
          ->Args({8, 768, 3072})
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
