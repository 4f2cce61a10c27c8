// What a quantized precision computes the rest in on a GPU, which here is emulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/base/error.h"
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

LoadedModel load_on_gpu(const RunConfig& config, const std::string& folder,
                        const cuda::EmulatedDevice& device = {}) {
  LoadOptions options;
  options.shared_backend =
      make_cuda_backend(Device{Device::Kind::cuda, 0}, cuda::make_emulated_runtime(device));
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

// Turing: no bfloat16, no TF32, and 64 KB of shared memory.
cuda::EmulatedDevice turing() {
  cuda::EmulatedDevice device;
  device.facts.name = "Tesla T4";
  device.facts.major = 7;
  device.facts.minor = 5;
  device.facts.processors = 40;
  device.facts.shared_bytes_per_block = 64 << 10;
  return device;
}
std::string refusal_of(const RunConfig& config) {
  try {
    (void)load_on_gpu(config, test::fixture_model("llama_grouped").string(), turing());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(GpuDtype, IsRefusedByNameWhereAGpuDoesNotMultiplyIt) {
  RunConfig config;
  config.precision = Preset::bfloat16;
  EXPECT_NE(refusal_of(config).find("precision: Tesla T4 (sm_75) does not multiply bfloat16"),
            std::string::npos)
      << refusal_of(config);
  config.precision = Preset::nf4;
  config.dtype = DType::bf16;
  EXPECT_NE(refusal_of(config).find("dtype: Tesla T4 (sm_75) does not multiply bfloat16"), std::string::npos)
      << refusal_of(config);
  config.dtype.reset();
  config.kv_cache = KvFormat::bfloat16;
  EXPECT_NE(refusal_of(config).find("kv_cache: Tesla T4 (sm_75) does not multiply bfloat16"),
            std::string::npos)
      << refusal_of(config);
  config = {};
  config.precision = Preset::float32;
  config.float32_matmul = Float32Matmul::tf32;
  EXPECT_NE(refusal_of(config).find("float32_matmul: Tesla T4 (sm_75) has no TF32"), std::string::npos)
      << refusal_of(config);
}

// The bits of a GPU with more of everything; int8 caches are attended in float32.
TEST(GpuDtype, OfASmallGpuGivesTheSameLogits) {
  const auto logits = [](const RunConfig& config, const cuda::EmulatedDevice& device) {
    const LoadedModel loaded = load_on_gpu(config, test::demo_model().string(), device);
    Program& program = loaded.model->program();
    const auto cache = program.make_cache();
    Batch batch;
    for (std::int64_t i = 0; i < 20; ++i) {
      batch.ids.push_back(static_cast<TokenId>(5 + i));
      batch.positions.push_back(static_cast<std::int32_t>(i));
    }
    batch.sequences.push_back({.sequence = cache->add_sequence(), .first_row = 0, .rows = 20});
    program.run(batch, *cache);
    std::vector<float> found(static_cast<std::size_t>(program.plan().vocab));
    const std::int64_t last = 19;
    program.head(std::span(&last, 1), LogitsSink{found});
    return found;
  };
  for (const Preset preset : {Preset::float16, Preset::int8_dynamic, Preset::nf4})
    for (const bool has_int8_cache : {false, true}) {
      if (has_int8_cache && preset != Preset::float16) continue;
      RunConfig config;
      config.precision = preset;
      if (has_int8_cache) config.kv_cache = KvFormat::int8;
      SCOPED_TRACE(config.label());
      const std::vector<float> small = logits(config, turing()), large = logits(config, {});
      float most = 0, difference = 0;
      for (std::size_t i = 0; i < large.size(); ++i) {
        most = std::max(most, std::fabs(large[i]));
        difference = std::max(difference, std::fabs(large[i] - small[i]));
      }
      EXPECT_LE(difference, has_int8_cache ? 0.05F * most : 0.0F);
      EXPECT_EQ(difference > 0, has_int8_cache);
    }
}

}  // namespace
}  // namespace assay
