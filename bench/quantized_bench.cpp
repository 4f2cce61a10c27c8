// Operations and bytes per second of the products of quantized weights at GPT-2's shapes, for every
// instruction set this machine can run. Random codes: zeros are multiplied faster.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "assay/backend/cpu/kernels/grouped_codes.h"
#include "assay/backend/cpu/kernels/select.h"
#include "assay/backend/cpu/lower/pack.h"
#include "assay/base/aligned.h"
#include "assay/base/random.h"
#include "assay/quant/four_bit.h"

namespace {

using assay::AlignedBuffer;
using assay::Isa;
using assay::cpu::kPanel;

// Enough copies of the weights that one pass over them does not fit the nearest caches.
constexpr std::int64_t kWorkingSet = std::int64_t{128} << 20;
constexpr std::size_t kAtLeast = std::size_t{4} << 20;  // for huge pages, as the backend's are

void fill_bytes(AlignedBuffer& buffer) {
  assay::Random random(1);
  for (std::size_t i = 0; i + 8 <= buffer.size(); i += 8) {
    const std::uint64_t bits = random.next();
    std::copy_n(reinterpret_cast<const std::byte*>(&bits), 8, buffer.data() + i);
  }
}

struct Shape {
  std::int64_t rows, k, n, panels, bytes, copies;
  explicit Shape(const benchmark::State& state, std::int64_t inputs_per_byte)
      : rows(state.range(0)),
        k(state.range(1)),
        n(state.range(2)),
        panels((n + kPanel - 1) / kPanel),
        bytes(panels * kPanel * k / inputs_per_byte),
        copies(rows <= 2 ? std::max<std::int64_t>(1, kWorkingSet / bytes) : 1) {}
  void report(benchmark::State& state) const {
    const auto passes = static_cast<double>(state.iterations());
    state.counters["GOP/s"] =
        benchmark::Counter(2e-9 * passes * static_cast<double>(rows * k * n), benchmark::Counter::kIsRate);
    state.counters["GB/s"] =
        benchmark::Counter(1e-9 * passes * static_cast<double>(bytes), benchmark::Counter::kIsRate);
  }
};

assay::cpu::LinearArgs output_of(const Shape& shape, AlignedBuffer& y, assay::Activation activation) {
  return {.x = nullptr,
          .x_stride = 0,
          .x_tiles = assay::cpu::kNoTiles,
          .rows = shape.rows,
          .k = shape.k,
          .w = nullptr,
          .packing = assay::cpu::Packing::int8,
          .planes = 1,
          .bias = nullptr,
          .activation = activation,
          .adds = shape.n < shape.k,
          .is_rounded = true,  // as beside a bfloat16 cache
          .y = y.floats(),
          .y_stride = shape.n,
          .y_tiles = assay::cpu::kNoTiles,
          .n = shape.n,
          .first_panel = 0,
          .panels = shape.panels,
          .fetch = assay::usual_constants().fetch};
}

void int8(benchmark::State& state, Isa isa) {
  const Shape shape(state, 1);
  const assay::cpu::KernelTable table = assay::cpu::select_kernels(isa);
  const std::int64_t capacity =
      assay::cpu::round_up(shape.rows, assay::cpu::kTileRows) + assay::cpu::kTileRows;
  AlignedBuffer x(static_cast<std::size_t>(capacity * shape.k) + kAtLeast, "x"),
      y(static_cast<std::size_t>(shape.rows * shape.n * 4) + kAtLeast, "y"),
      w(static_cast<std::size_t>(shape.bytes * shape.copies), "weights");
  fill_bytes(x);
  fill_bytes(w);
  const std::vector<float> absmax(static_cast<std::size_t>(std::max(capacity, shape.panels * kPanel)), 0.01F);
  const std::vector<std::int32_t> sums(absmax.size(), 3);
  assay::cpu::LinearArgs to =
      output_of(shape, y, shape.n == 4 * shape.k ? assay::Activation::gelu_tanh : assay::Activation::none);
  to.x_tiles = {reinterpret_cast<std::uint16_t*>(x.data()), capacity, shape.k / 2, 1};
  std::int64_t copy = 0;
  for (auto _ : state) {
    to.w = w.data() + copy * shape.bytes;
    table.linear_int8({.to = to,
                       .x_absmax = absmax.data(),
                       .w_absmax = absmax.data(),
                       .w_sums = sums.data(),
                       .x_zero = sums.data(),
                       .outliers = nullptr,
                       .outlier_count = 0});
    copy = (copy + 1) % shape.copies;
    benchmark::ClobberMemory();
  }
  shape.report(state);
}

void coded_inputs(benchmark::State& state, Isa isa) {
  constexpr std::int64_t kBlock = 64;
  const Shape shape(state, 2);
  const assay::cpu::KernelTable table = assay::cpu::select_kernels(isa);
  const std::int64_t groups = shape.k / kBlock,
                     capacity = shape.rows <= 2 ? shape.rows : assay::cpu::round_up(shape.rows, 16) + 16;
  AlignedBuffer y(static_cast<std::size_t>(shape.rows * shape.n * 4) + kAtLeast, "y"),
      x(static_cast<std::size_t>(capacity * shape.k) + kAtLeast, "x"),
      w(static_cast<std::size_t>(shape.bytes * shape.copies), "weights");
  fill_bytes(x);
  fill_bytes(w);
  std::vector<float> x_scales(static_cast<std::size_t>(capacity * groups), 0.01F);
  const std::vector<float> scales(static_cast<std::size_t>(shape.copies * shape.panels * groups * kPanel),
                                  0.01F);
  std::vector<std::int32_t> starts(x_scales.size(), -128 * 3);
  AlignedBuffer scratch(static_cast<std::size_t>(assay::cpu::coded_scratch_bytes(shape.rows)), "scratch");
  const assay::cpu::ByteCodebook codebook =
      assay::cpu::byte_codebook_of(assay::codebook_of(assay::FourBit::nf4));
  std::int64_t copy = 0;
  for (auto _ : state) {
    table.linear_coded_inputs(
        {.to = output_of(shape, y, assay::Activation::none),
         .weights = {.codes = reinterpret_cast<const std::uint8_t*>(w.data()) + copy * shape.bytes,
                     .scales = {scales.data() + copy * shape.panels * groups * kPanel, false},
                     .codebook = nullptr,
                     .k = shape.k,
                     .k_padded = shape.k,
                     .group = kBlock,
                     .panels = shape.panels,
                     .packing = assay::cpu::Packing::four_bit,
                     .out = nullptr,
                     .fetch = assay::usual_constants().fetch},
         .codebook = codebook.values.data(),
         .x = {reinterpret_cast<std::int8_t*>(x.data()), x_scales.data(), starts.data(), capacity},
         .scratch = scratch.data()});
    copy = (copy + 1) % shape.copies;
    benchmark::ClobberMemory();
  }
  shape.report(state);
}

// Some of GGUF's types: a width of codes, and numbers of super-blocks or factors alone.
struct GroupedType {
  const char* name;
  int bits;
  assay::ScaleRun run;
};
std::vector<GroupedType> grouped_types() {
  assay::ScaleRun factors;
  factors.code_bits = 4;
  factors.bits = 16;
  return {{"q4_0", 4, factors},
          {"q4_k", 4, assay::run_of_super_block(4, 256, 8, 6, true)},
          {"q6_k", 6, assay::run_of_super_block(6, 256, 16, 8, false)}};
}

// Rows as codes of int8.
struct CodedRows {
  AlignedBuffer x, codes;
  std::vector<float> scales, sums;
  std::vector<std::int32_t> starts, own_starts;
  assay::cpu::GroupedRows rows;

  CodedRows(const assay::cpu::KernelTable& table, const Shape& shape, std::int64_t group,
            const assay::cpu::ByteValues& values)
      : x(static_cast<std::size_t>(shape.rows * shape.k * 4) + kAtLeast, "x"),
        codes(static_cast<std::size_t>((shape.rows + 32) * shape.k) + kAtLeast, "codes"),
        scales(static_cast<std::size_t>((shape.rows + 32) * shape.k / group)),
        sums(scales.size()),
        starts(scales.size()),
        own_starts(scales.size()),
        rows{reinterpret_cast<std::int8_t*>(codes.data()),
             scales.data(),
             sums.data(),
             starts.data(),
             own_starts.data(),
             assay::cpu::round_up(shape.rows, 16) + 16} {
    assay::Random random(1);
    std::generate_n(x.floats(), shape.rows * shape.k,
                    [&] { return static_cast<float>(random.uniform() - 0.4); });
    table.quantize_grouped({.x = x.floats(),
                            .x_stride = shape.k,
                            .x_tiles = assay::cpu::kNoTiles,
                            .first_row = 0,
                            .rows = shape.rows,
                            .k = shape.k,
                            .k_padded = shape.k,
                            .group = group,
                            .values = values,
                            .out = rows});
  }
};

void grouped(benchmark::State& state, Isa isa, const GroupedType& type) {
  constexpr std::byte kScale{0x2c};  // twice it, a float16 that is neither large nor below the normal ones
  Shape shape(state, 1);
  const assay::cpu::KernelTable table = assay::cpu::select_kernels(isa);
  std::vector<float> values(std::size_t{1} << type.bits);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i) - (type.run.has_minima ? 0.0F : static_cast<float>(values.size() / 2));
  assay::cpu::GroupedCodes weights{
      nullptr, nullptr, values.data(), type.bits, type.run, shape.k, assay::cpu::round_up(shape.k, 32)};
  const std::int64_t code_bytes = shape.panels * weights.code_bytes(),
                     scale_bytes = shape.panels * weights.scale_bytes();
  shape.bytes = code_bytes + scale_bytes;
  AlignedBuffer y(static_cast<std::size_t>(shape.rows * shape.n * 4) + kAtLeast, "y"),
      codes(static_cast<std::size_t>(code_bytes * shape.copies) + kAtLeast, "codes"),
      scales(static_cast<std::size_t>(scale_bytes * shape.copies) + kAtLeast, "scales"),
      scratch(static_cast<std::size_t>(assay::cpu::coded_scratch_bytes(shape.rows)), "scratch");
  fill_bytes(codes);
  std::fill_n(scales.data(), scales.size(), kScale);
  const assay::cpu::ByteValues bytes = assay::cpu::byte_values_of(weights);
  const CodedRows x(table, shape, assay::cpu::int8_group_of(type.run), bytes);
  std::int64_t copy = 0;
  for (auto _ : state) {
    weights.codes = codes.data() + copy * code_bytes;
    weights.scales = scales.data() + copy * scale_bytes;
    table.linear_grouped_int8({.to = output_of(shape, y, assay::Activation::none),
                               .weights = weights,
                               .values = bytes,
                               .x = x.rows,
                               .scratch = scratch.data(),
                               .fetch = assay::usual_constants().grouped_fetch});
    copy = (copy + 1) % shape.copies;
    benchmark::ClobberMemory();
  }
  shape.report(state);
}

void quantize_inputs(benchmark::State& state, Isa isa) {
  const std::int64_t rows = state.range(0), k = state.range(1);
  const assay::cpu::KernelTable table = assay::cpu::select_kernels(isa);
  AlignedBuffer x(static_cast<std::size_t>(rows * k * 4) + kAtLeast, "x"),
      codes(static_cast<std::size_t>(rows * k) + kAtLeast, "codes");
  assay::Random random(1);
  std::generate_n(x.floats(), rows * k, [&] { return static_cast<float>(random.uniform() - 0.4); });
  std::vector<float> absmax(static_cast<std::size_t>(rows));
  std::vector<std::int32_t> zero_points(absmax.size());
  for (auto _ : state) {
    table.quantize({.x = x.floats(),
                    .x_stride = k,
                    .codes = {reinterpret_cast<std::uint16_t*>(codes.data()), rows, k / 2, 1},
                    .first_row = 0,
                    .rows = rows,
                    .k = k,
                    .absmax = absmax.data(),
                    .zero_points = zero_points.data()});
    benchmark::ClobberMemory();
  }
  state.counters["elements/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(rows * k), benchmark::Counter::kIsRate);
}

void register_all() {
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::amx}) {
    if (!assay::is_usable(isa)) continue;
    const std::string name(name_of(isa));
    for (const auto& shape : std::initializer_list<std::vector<std::int64_t>>{{1, 768, 2304},
                                                                              {1, 3072, 768},
                                                                              {8, 768, 3072},
                                                                              {32, 768, 3072},
                                                                              {512, 768, 2304},
                                                                              {512, 768, 3072},
                                                                              {512, 3072, 768}}) {
      benchmark::RegisterBenchmark(("int8/" + name).c_str(), int8, isa)
          ->ArgNames({"rows", "k", "n"})
          ->Args(shape);
      benchmark::RegisterBenchmark(("four_bit/" + name).c_str(), coded_inputs, isa)
          ->ArgNames({"rows", "k", "n"})
          ->Args(shape);
      for (const GroupedType& type : grouped_types())
        benchmark::RegisterBenchmark((std::string(type.name) + "/" + name).c_str(), grouped, isa, type)
            ->ArgNames({"rows", "k", "n"})
            ->Args(shape);
    }
    benchmark::RegisterBenchmark(("quantize/" + name).c_str(), quantize_inputs, isa)
        ->ArgNames({"rows", "k"})
        ->Args({512, 768})
        ->Args({512, 3072});
  }
}

}  // namespace

int main(int argc, char** argv) {
  register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
