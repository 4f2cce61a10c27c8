// Norms that a multiplication makes of its inputs: the bits of a norm by itself; and where a plan has them.
#include <gtest/gtest.h>

#include "assay/backend/backend.h"
#include "assay/backend/cuda/program.h"
#include "assay/base/error.h"
#include "assay/model/model.h"
#include "support/cuda_kernels.h"
#include "support/fixtures.h"

namespace assay::cuda {
namespace {

using namespace testing_support;
using CudaInputNorm = CudaKernels;

// Of rows of a warp (up to 256 inputs) and of a block; with and without a mean and a bias; odd strides.
TEST_F(CudaInputNorm, HasTheBitsOfANormByItself) {
  for (const Way& way : ways())
    for (const std::int64_t inputs : {7, 203, 256, 300})
      for (const bool subtracts_mean : {false, true}) {
        if (way.format == MatrixFormat::float32 && way.arithmetic == Arithmetic::float32) continue;
        SCOPED_TRACE(text_of(way) + ", " + std::to_string(inputs) + " inputs, " +
                     std::to_string(subtracts_mean));
        const std::int64_t outputs = 21, rows = subtracts_mean ? 4 : 1, stride = inputs + 3;
        const TestMatrix m = make_matrix(way.format, outputs, inputs, random_, way.group);
        Floats x = random_.floats(rows * stride, -3, 5);
        if (rows > 2) x[at_of(2 * stride + inputs - 1)] = kInfinity;
        const auto held = put(x), gain = put(random_.floats(inputs)), bias = put(random_.floats(inputs)),
                   normed = room<float>(rows * stride), apart = room<float>(rows * outputs),
                   together = room<float>(rows * outputs);
        const DevicePointer<float> own_bias = subtracts_mean ? bias : DevicePointer<float>();
        const Matrix weight = put(m);
        run(*runtime_, NormArgs{.x = held,
                                .x_stride = stride,
                                .gain = gain,
                                .bias = own_bias,
                                .epsilon = 1e-5F,
                                .subtracts_mean = subtracts_mean,
                                .out = normed,
                                .out_stride = stride,
                                .rows = rows,
                                .n = inputs});
        LinearArgs args{.x = normed,
                        .x_stride = stride,
                        .rows = rows,
                        .weight = weight,
                        .arithmetic = way.arithmetic,
                        .to = {.out = apart, .out_stride = outputs}};
        run(*runtime_, args);
        args.x = held;
        args.norm = {.gain = gain, .bias = own_bias, .epsilon = 1e-5F, .subtracts_mean = subtracts_mean};
        args.to.out = together;
        run(*runtime_, args);
        const Floats wanted = get(apart, rows * outputs), got = get(together, rows * outputs);
        for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_TRUE(is_same(got[i], wanted[i])) << i;
      }
}

TEST_F(CudaInputNorm, IsOfFewRows) {
  const TestMatrix m = make_matrix(MatrixFormat::bfloat16, 16, 32, random_);
  const auto x = put(random_.floats(5 * 32)), gain = put(random_.floats(32)), out = room<float>(5 * 16);
  LinearArgs args{.x = x, .x_stride = 32, .rows = 5, .weight = put(m), .to = {.out = out, .out_stride = 16}};
  args.norm.gain = gain;
  EXPECT_THROW(run(*runtime_, args), Error);
}

std::vector<bool> norms_of(const char* fixture, const char* precision) {
  const Model model = Model::load(std::make_shared<const ModelFolder>(test::fixture_model(fixture)),
                                  make_backend(Device{}, {}), precision_from_name(precision));
  const Plan& plan = model.program().plan();
  DeviceFacts facts;
  facts.processors = 4;
  facts.memory_bytes = std::int64_t{1} << 30;
  const WorkspaceLayout layout(plan, facts);
  std::vector<bool> of_norms;
  const std::vector<bool> all = norms_of_inputs(plan, layout);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (std::holds_alternative<NormOp>(plan.ops[i].what)) of_norms.push_back(all[i]);
  return of_norms;
}

// Both of a layer of GPT-2; of a parallel residual none, since two products read one norm; of int8 and
// float32 none.
TEST(CudaNormsOfInputs, AreThoseThatOneProductReads) {
  const std::vector<bool> base = norms_of("base", "bfloat16");
  EXPECT_FALSE(base.empty());
  EXPECT_EQ(std::count(base.begin(), base.end(), true), std::ssize(base));
  const std::vector<bool> parallel = norms_of("gptj_whole", "bfloat16");
  EXPECT_FALSE(parallel.empty());
  EXPECT_EQ(std::count(parallel.begin(), parallel.end(), true), 0);
  const std::vector<bool> float32 = norms_of("base", "float32");
  EXPECT_EQ(std::count(float32.begin(), float32.end(), true), 0);
  const std::vector<bool> int8 = norms_of("base", "int8-dynamic");
  EXPECT_EQ(std::count(int8.begin(), int8.end(), true), 0);
}

}  // namespace
}  // namespace assay::cuda
