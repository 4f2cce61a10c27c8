// The predicted step of a GPU: its nodes are those that the backend launches.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/prediction.h"
#include "assay/base/error.h"
#include "assay/generate/generator.h"
#include "assay/model/model.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"

namespace assay {
namespace {

constexpr std::int64_t kPast = 16;

TEST(GpuPrediction, CountsTheNodesOfADecodeStep) {
  for (const char* name : {"base", "llama_grouped", "demo"})
    for (const char* precision : {"float32", "bfloat16", "float16", "int8-dynamic", "nf4"}) {
      SCOPED_TRACE(std::string(name) + " " + precision);
      if (name == std::string("demo") && precision != std::string("bfloat16")) continue;  // it takes seconds
      const std::shared_ptr<cuda::EmulatedRuntime> runtime = cuda::make_emulated_runtime();
      const auto backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime);
      const std::filesystem::path folder =
          name == std::string("demo") ? test::demo_model() : test::fixture_model(name);
      const Model model =
          Model::load(std::make_shared<const ModelFolder>(folder), backend, precision_from_name(precision));
      const auto launches = [&](std::int64_t new_tokens) {
        const std::int64_t before = runtime->launches();
        generate(*backend, model.program(), {{1, 2, 3}}, {.max_new_tokens = new_tokens});
        return runtime->launches() - before;
      };
      const std::int64_t some = launches(5), more = launches(9);
      const GpuPrediction predicted =
          predict_gpu_step(model.program().plan(), {.gpu = "h200", .rows = 1, .past = kPast});
      EXPECT_EQ(more - some, 4 * predicted.nodes);
    }
}

TEST(GpuPrediction, ReadsFromTheL2CacheWhatFitsThere) {
  const auto backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, cuda::make_emulated_runtime());
  const Model model = Model::load(std::make_shared<const ModelFolder>(test::demo_model()), backend,
                                  precision_from_name("float32"));
  const Plan& plan = model.program().plan();
  const GpuPrediction few = predict_gpu_step(plan, {.gpu = "h200", .rows = 1, .past = kPast});
  EXPECT_TRUE(few.is_in_l2);
  EXPECT_EQ(few.read_bytes_per_second, 12.3e12);
  EXPECT_EQ(few.source, "measured on an NVIDIA H200");
  double seconds = 0, bytes = 0;
  for (const PredictedKernel& kernel : few.kernels) {
    seconds += kernel.seconds.value;
    bytes += kernel.bytes;
  }
  EXPECT_DOUBLE_EQ(few.seconds.value, seconds);
  EXPECT_GT(few.seconds.value, bytes / 12.3e12);
  EXPECT_GE(few.seconds.value, static_cast<double>(few.nodes) * 2.4e-6);
  // 200,000 tokens of keys and values do not fit.
  const GpuPrediction many = predict_gpu_step(plan, {.gpu = "h200", .rows = 1, .past = 200000});
  EXPECT_FALSE(many.is_in_l2);
  EXPECT_EQ(many.read_bytes_per_second, 4.53e12);
  const GpuPrediction other = predict_gpu_step(plan, {.gpu = "h100", .rows = 1, .past = kPast});
  EXPECT_FALSE(other.is_in_l2);  // nobody has measured its L2 cache
  EXPECT_NE(other.source, few.source);
  EXPECT_THROW(predict_gpu_step(plan, {.gpu = "t4"}), Error);
}

}  // namespace
}  // namespace assay
