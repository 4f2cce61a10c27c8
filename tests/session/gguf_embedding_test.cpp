// Embeddings of a GGUF file that are not its LM head: looked up in the blocks that the file holds, on a CPU
// and an emulated GPU.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/checkpoint/source.h"
#include "assay/model/families/families.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/quantize/gguf_mix.h"
#include "assay/quantize/quantize.h"
#include "assay/quantize/write_gguf.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/wide_model.h"

namespace assay {
namespace {

constexpr const char* kTokens = "model.embed_tokens.weight";

class GgufEmbedding : public testing::TestWithParam<const char*> {
 protected:
  GgufEmbedding() {
    test::wide_llama().write(folder_.path() / "m");
    const auto file = folder_.path() / "m.gguf";
    write_gguf((folder_.path() / "m").string(), file,
               {.mix = GgufMix::named(GetParam()).value(), .threads = 1});
    source_ = open_source(file);
    as_stored_ = stored_precision(*source_, spec_from_source(*source_)).value();
    widened_ = as_stored_;
    widened_.stored_tables.clear();
  }
  std::vector<float> logits(const std::shared_ptr<Backend>& backend, const Precision& precision) const {
    const Model model = Model::load(source_, backend, precision);
    return test::all_logits(model.program(), {3, 63, 0, 17, 3, 42});
  }

  test::TemporaryFolder folder_;
  std::shared_ptr<const ModelSource> source_;
  Precision as_stored_, widened_;
};
INSTANTIATE_TEST_SUITE_P(Mixes, GgufEmbedding, testing::Values("Q8_0", "Q4_0", "Q4_K_M", "Q6_K"),
                         [](const auto& mix) { return std::string(mix.param); });

TEST_P(GgufEmbedding, TakesTheBytesThatTheFileHas) {
  const WeightFormat format = source_->quantized_weights()->format_of(kTokens).value();
  EXPECT_EQ(as_stored_.stored_tables.at(kTokens), format);
  const Model model = Model::load(source_, test::cpu_backend(test::usable_isas().back()), as_stored_);
  std::int64_t bytes = 0;
  for (const CheckpointTensor& tensor : source_->all()) bytes += static_cast<std::int64_t>(tensor->bytes);
  EXPECT_EQ(model.program().memory().weights.value, bytes);
}

TEST_P(GgufEmbedding, HasTheLogitsOfItsNumbers) {
  for (const Isa isa : test::usable_isas()) {
    const auto cpu = test::cpu_backend(isa);
    EXPECT_EQ(logits(cpu, as_stored_), logits(cpu, widened_)) << name_of(isa);
  }
  const std::shared_ptr<Backend> gpu =
      make_cuda_backend(Device{Device::Kind::cuda, 0}, cuda::make_emulated_runtime());
  EXPECT_EQ(logits(gpu, as_stored_), logits(gpu, widened_));
}

}  // namespace
}  // namespace assay
