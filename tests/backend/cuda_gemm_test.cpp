// Multiplications of many rows on a GPU: the bits of the way for few rows, whichever blocks are taken.
#include <gtest/gtest.h>

#include "support/cuda_kernels.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

using CudaGemmKernels = CudaKernels;

std::vector<Way> tensor_core_ways() {
  std::vector<Way> all{{MatrixFormat::float32, Arithmetic::tf32},
                       {MatrixFormat::float16, Arithmetic::float16},
                       {MatrixFormat::bfloat16, Arithmetic::bfloat16}};
  for (const std::int64_t group : {16, 32, 64, 128})
    all.push_back({MatrixFormat::four_bit, group == 32 ? Arithmetic::float16 : Arithmetic::bfloat16, group});
  return all;
}

struct GemmCase {
  std::int64_t outputs, inputs, rows;
  int processors;
};
// Small blocks; of a range each; large ones; fewer tiles than ranges; stages that end within a tile.
constexpr GemmCase kGemmCases[] = {
    {70, 203, 17, 1}, {70, 203, 65, 132}, {150, 331, 140, 1}, {3, 9, 33, 132}, {3, 9, 33, 1}};

TEST_F(CudaGemmKernels, GivesTheBitsOfFewRows) {
  for (const GemmCase& c : kGemmCases) {
    for (const Way& way : tensor_core_ways()) {
      SCOPED_TRACE(text_of(way) + ", " + std::to_string(c.outputs) + " x " + std::to_string(c.inputs) + ", " +
                   std::to_string(c.rows) + " rows");
      const TestMatrix m = make_matrix(way.format, c.outputs, c.inputs, random_, way.group);
      const std::int64_t stride = c.inputs + c.rows % 2, out_stride = c.outputs + 1;
      Floats x = random_.floats(c.rows * stride);
      x[at_of(5 * stride + 7)] = kNaN;
      x[at_of(6 * stride + c.inputs - 1)] = kInfinity;
      const Floats before = random_.floats(c.rows * out_stride);
      const auto multiply = [&](std::int64_t few_rows, std::int64_t launched) {
        EmulatedDevice device;
        device.facts.processors = c.processors;
        const auto runtime = make_emulated_runtime(device);
        DeviceMemory memory(*runtime);
        const Matrix weight = put_matrix(memory, m);
        const auto out = memory.put(before);
        LinearArgs args{.x = memory.put(x),
                        .x_stride = stride,
                        .rows = c.rows,
                        .weight = weight,
                        .arithmetic = way.arithmetic,
                        .to = {.bias = memory.put(Floats(at_of(c.outputs), 0.25F)),
                               .activation = Activation::gelu_tanh,
                               .adds = true,
                               .out = out,
                               .out_stride = out_stride}};
        const std::int64_t bytes = round_up(c.rows * rounded_inputs_stride(m.inputs, way.arithmetic), 256) +
                                   partial_sums_bytes(c.rows, m.outputs, c.processors);
        args.scratch = {memory.of<std::byte>(at_of(bytes)), bytes};
        args.few_rows = few_rows;
        run(*runtime, args);
        EXPECT_EQ(runtime->launches(), launched);
        return memory.get(out, before.size());
      };
      // Inputs of 16 bits are put into order first.
      const Floats few = multiply(1000, way.arithmetic == Arithmetic::tf32 ? 1 : 2),
                   many = multiply(16, c.processors > 1 ? 3 : 2);
      for (std::size_t i = 0; i < few.size(); ++i)
        ASSERT_TRUE(is_same(few[i], many[i])) << "element " << i << ": " << many[i] << " for " << few[i];
    }
  }
}

TEST_F(CudaGemmKernels, MultipliesCodesAsFewRowsDo) {
  for (const GemmCase& c : kGemmCases) {
    SCOPED_TRACE(std::to_string(c.outputs) + " x " + std::to_string(c.inputs) + ", " +
                 std::to_string(c.rows));
    const TestMatrix m = make_matrix(MatrixFormat::int8, c.outputs, c.inputs, random_);
    const std::int64_t stride = round_up(c.inputs, 32);
    std::vector<std::int8_t> codes(at_of(c.rows * stride));
    std::vector<std::int32_t> zero_points, sums;
    for (std::int64_t row = 0; row < c.rows; ++row) {
      zero_points.push_back(random_.below(256) - 128);
      for (std::int64_t k = 0; k < c.inputs; ++k)
        codes[at_of(row * stride + k)] = static_cast<std::int8_t>(random_.below(256) - 128);
    }
    for (std::int64_t output = 0; output < c.outputs; ++output) sums.push_back(random_.below(9999));
    const Floats absmax = random_.floats(c.rows, 0.1F, 3), x = random_.floats(c.rows * c.inputs);
    const auto multiply = [&](std::int64_t first, std::int64_t rows) {
      EmulatedDevice device;
      device.facts.processors = c.processors;
      const auto runtime = make_emulated_runtime(device);
      DeviceMemory memory(*runtime);
      const std::int64_t bytes = partial_sums_bytes(rows, m.outputs, c.processors);
      const auto out = memory.of<float>(at_of(rows * c.outputs));
      run(*runtime, LinearInt8Args{.codes = memory.put(codes) + first * stride,
                                   .codes_stride = stride,
                                   .rows = rows,
                                   .absmax = memory.put(absmax) + first,
                                   .zero_points = memory.put(zero_points) + first,
                                   .sums = memory.put(sums),
                                   .weight = {.data = memory.put(m.data),
                                              .scales = memory.put(m.scales),
                                              .outputs = m.outputs,
                                              .inputs = m.inputs,
                                              .format = m.format},
                                   .outliers = memory.put(std::vector<std::int32_t>{0, 8}),
                                   .outlier_count = memory.put(std::vector<std::int32_t>{2}),
                                   .x = memory.put(x) + first * c.inputs,
                                   .x_stride = c.inputs,
                                   .to = {.out = out, .out_stride = c.outputs},
                                   .scratch = {memory.of<std::byte>(at_of(bytes)), bytes}});
      EXPECT_EQ(runtime->launches(), c.processors > 1 ? 2 : 1);
      return memory.get(out, at_of(rows * c.outputs));
    };
    const Floats many = multiply(0, c.rows);
    for (std::int64_t first = 0; first < c.rows; first += 16) {
      const Floats few = multiply(first, std::min<std::int64_t>(16, c.rows - first));
      for (std::size_t i = 0; i < few.size(); ++i)
        ASSERT_EQ(few[i], many[at_of(first * c.outputs) + i]) << "from row " << first << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace assay::cuda
