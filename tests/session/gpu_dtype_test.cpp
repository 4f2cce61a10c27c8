// What a quantized precision computes the rest in on a GPU, which here is emulated.
#include <gtest/gtest.h>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/model/model.h"
#include "assay/session/load.h"
#include "assay/session/resolve.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

TEST(GpuDtype, AnInstructionSetAndAMaskAskForACpu) {
  RunConfig config;
  EXPECT_FALSE(asks_for_cpu(config));
  config.cpu_mask = {0};
  EXPECT_TRUE(asks_for_cpu(config));
  EXPECT_EQ(device_of(config).kind, Device::Kind::cpu);
  config.cpu_mask.clear();
  config.isa = Isa::scalar;
  EXPECT_TRUE(asks_for_cpu(config));
}

LoadedModel load_on_gpu(const RunConfig& config, const std::string& folder) {
  LoadOptions options;
  options.shared_backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, cuda::make_emulated_runtime());
  options.needs_tokenizer = false;
  return load_model_and_tokenizer({folder}, config, options);
}
LoadedModel load_on_gpu(const RunConfig& config) {
  return load_on_gpu(config, test::fixture_model("llama_grouped").string());
}
std::string weight_format(const LoadedModel& loaded, const std::string& part) {
  for (const WeightSpec& weight : loaded.model->program().plan().weights)
    if (weight.name.find(part) != std::string::npos) return name_of(weight.format);
  return "none";
}

TEST(GpuDtype, IsFloat16OfAQuantizedPrecision) {
  for (const Preset preset : {Preset::nf4, Preset::int8_dynamic, Preset::llm_int8}) {
    RunConfig config;
    config.precision = preset;
    const LoadedModel loaded = load_on_gpu(config);
    const std::string name(name_of(preset));
    EXPECT_EQ(loaded.dtype_label, name + ", dtype float16");
    EXPECT_EQ(weight_format(loaded, "lm_head"), "float16") << name;
    EXPECT_EQ(loaded.model->program().plan().kv_format, KvFormat::float16) << name;
    EXPECT_EQ(loaded.config.label(), name + ", cuda:0");
  }
}

TEST(GpuDtype, IsWhatIsAskedFor) {
  RunConfig config;
  config.precision = Preset::nf4;
  config.dtype = DType::f32;
  const LoadedModel as_float32 = load_on_gpu(config);
  EXPECT_EQ(as_float32.dtype_label, "nf4, dtype float32");
  EXPECT_EQ(weight_format(as_float32, "lm_head"), "float32");
  EXPECT_EQ(as_float32.model->program().plan().kv_format, KvFormat::float32);

  config.dtype = DType::bf16;
  EXPECT_EQ(weight_format(load_on_gpu(config), "lm_head"), "bfloat16");

  config.dtype.reset();
  config.kv_cache = KvFormat::float32;
  EXPECT_EQ(load_on_gpu(config).model->program().plan().kv_format, KvFormat::float32);
}

// So has a folder that holds its weights quantized; what is not quantized at all stays what it is.
TEST(GpuDtype, IsFloat16OfAStoredModel) {
  const LoadedModel stored = load_on_gpu({}, test::fixture("quantized/llama-nf4").string());
  EXPECT_EQ(stored.dtype_label, "nf4 (as stored), dtype float16");
  EXPECT_EQ(stored.model->program().plan().kv_format, KvFormat::float16);
  RunConfig config;
  config.precision = Preset::float32;
  EXPECT_EQ(load_on_gpu(config).dtype_label, "float32");
}

}  // namespace
}  // namespace assay
