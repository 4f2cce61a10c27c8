// Cases on a GPU, which here is emulated: memory, times and rooflines are the device's.
#include <gtest/gtest.h>

#include <algorithm>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/harness/context.h"
#include "assay/harness/roofline.h"
#include "assay/harness/rows.h"
#include "assay/harness/sweep.h"
#include "assay/model/model.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"

namespace assay {
namespace {

std::shared_ptr<cuda::EmulatedRuntime> small_runtime() {
  cuda::EmulatedDevice device;
  device.facts.processors = 1;
  return cuda::make_emulated_runtime(device);
}

LoadedModel on(const std::shared_ptr<Backend>& backend) {
  RunConfig config;
  config.precision = Preset::float16;
  LoadOptions options;
  options.shared_backend = backend;
  options.needs_tokenizer = false;
  return load_model_and_tokenizer({test::fixture_model("llama_grouped").string()}, config, options);
}

// What disturbs a processor's threads disturbs a device's clock of events less: its windows are as long after
// any run.
TEST(GpuSession, KeepsTheWindowsOfItsRoofline) {
  const LoadedModel loaded = on(make_cuda_backend(Device{Device::Kind::cuda, 0}, small_runtime()));
  Roofline roofline(*loaded.model);
  constexpr Bytes kWorkingSet{1 << 20};
  const Seconds before = roofline.window_beside_run(kWorkingSet);
  for (const double took : {0.0002, 0.003, 5.0}) {
    roofline.note_run(kWorkingSet, {took});
    EXPECT_EQ(roofline.window_beside_run(kWorkingSet).value, before.value) << took;
  }
}

TEST(GpuSession, MeasuresTheDevicesMemoryAndRoofline) {
  const auto backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, small_runtime());
  const LoadedModel loaded = on(backend);
  EXPECT_EQ(loaded.dtype_label, "float16");
  EXPECT_EQ(loaded.model->backend().device().text(), "cuda:0");

  Case spec;
  spec.scenario = Scenario::baseline;
  spec.label = "gpu";
  spec.configuration = loaded.config;
  spec.prompts = {std::vector<TokenId>{1, 2, 3, 4}};
  spec.new_tokens = 3;
  LocalExperiment experiment(loaded);
  experiment.get().sweep.repeats = 2;
  const SweepResult result = run_sweep(*experiment.get().sessions, "gpu", {spec}, experiment.get().sweep);
  ASSERT_TRUE(result.cases.front().is_measured()) << result.cases.front().reason;

  const PredictedMemory predicted = backend->predict(loaded.model->program().plan(), 4 + 3 - 1);
  const MemoryReport& own = predicted.program;
  const FirstRun& first = result.cases.front().first;
  EXPECT_EQ(first.measured_memory_bytes,
            static_cast<double>((own.weights + own.packing + own.workspace + predicted.kv_cache).value));
  EXPECT_EQ(first.device_used_bytes, first.measured_memory_bytes);

  const Row row = row_of(result.cases.front(), experiment);
  EXPECT_EQ(row.find("measured_memory_bytes")->value, first.measured_memory_bytes);
  EXPECT_EQ(row.find("device_used_bytes")->value, first.device_used_bytes);
  EXPECT_GT(row.find("roofline_gb_s")->value, 0);
  EXPECT_GT(row.find("roofline_gflops")->value, 0);
  EXPECT_GT(row.find("percent_of_roofline")->value, 0);
  EXPECT_GT(row.find("decode_latency_s")->value, 0);
  EXPECT_EQ(row.find("energy_per_token_j"), nullptr);
  const auto absent = std::find_if(row.absent.begin(), row.absent.end(),
                                   [](const auto& each) { return each.first == "energy_per_token_j"; });
  ASSERT_NE(absent, row.absent.end());
  EXPECT_EQ(absent->second, "the GPU's driver does not tell its energy");
}

}  // namespace
}  // namespace assay
