// Models in GGUF's blocks on an emulated GPU that multiplies in 16 bits: near the CPU in float32, with bits
// that depend on a sequence alone, and with the nodes that are predicted.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/prediction.h"
#include "assay/checkpoint/source.h"
#include "assay/generate/generator.h"
#include "assay/model/model.h"
#include "assay/session/load.h"
#include "assay/session/load_parts.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/wide_model.h"

namespace assay {
namespace {

struct Case {
  const char* format;
  bool is_float16;
};
class CudaGroupedModel : public testing::TestWithParam<Case> {
 protected:
  CudaGroupedModel() {
    test::TinyModel model = test::wide_llama();
    model.config["max_position_embeddings"] = 96;
    model.write(folder_.path() / "m");
  }
  static Precision in_float32() {
    const WeightFormat format = *weight_format_from_name(GetParam().format);
    return precision_of(Recipe{.name = "one", .default_format = format, .lm_head = format});
  }
  static Precision in_16_bits() {
    Precision precision = in_float32();
    GetParam().is_float16 ? use_float16(precision) : set_dtype(precision, DType::bf16);
    return precision;
  }
  Model on(const std::shared_ptr<Backend>& backend, const Precision& precision) const {
    return Model::load(open_source(folder_.path() / "m"), backend, precision);
  }
  static std::vector<TokenId> tokens(std::size_t count) {
    std::vector<TokenId> ids;
    for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<TokenId>((i * 37 + 5) % 64));
    return ids;
  }

  test::TemporaryFolder folder_;
  std::shared_ptr<cuda::EmulatedRuntime> runtime_ = cuda::make_emulated_runtime();
  std::shared_ptr<Backend> gpu_ = make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime_);
};
INSTANTIATE_TEST_SUITE_P(Formats, CudaGroupedModel,
                         testing::Values(Case{"q8_0", false}, Case{"q4_0", true}, Case{"q5_1", false},
                                         Case{"q2_k", true}, Case{"q3_k", false}, Case{"q4_k", false},
                                         Case{"q6_k", true}, Case{"iq4_nl", false}),
                         [](const auto& of) { return std::string(of.param.format); });

TEST_P(CudaGroupedModel, IsNearTheCpu) {
  const Model model = on(gpu_, in_16_bits()), cpu = on(test::cpu_backend(Isa::scalar), in_float32());
  const std::vector<TokenId> ids = tokens(24);
  const std::vector<float> got = test::all_logits(model.program(), ids),
                           want = test::all_logits(cpu.program(), ids);
  EXPECT_LE(test::largest_difference(got, want) / test::standard_deviation_of(want),
            GetParam().is_float16 ? 1e-2 : 6e-2);
  EXPECT_NE(got, want);
}

// 70 tokens in one step, the first of them alone, and one behind another.
TEST_P(CudaGroupedModel, HasBitsThatDependOnTheSequenceAlone) {
  const Model model = on(gpu_, in_16_bits());
  const std::vector<TokenId> ids = tokens(70);
  const std::vector<float> all = test::all_logits(model.program(), ids);
  const std::vector<float> some = test::all_logits(model.program(), {ids.begin(), ids.begin() + 3});
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
  const auto vocab = static_cast<std::size_t>(model.program().plan().vocab);
  const auto cache = model.program().make_cache();
  const int sequence = cache->add_sequence();
  for (std::size_t i = 0; i < 3; ++i) {
    Batch batch;
    batch.ids = {ids[i]};
    batch.positions = {static_cast<std::int32_t>(i)};
    batch.sequences = {{.sequence = sequence, .first_row = 0, .rows = 1}};
    std::vector<float> logits(vocab);
    const std::int64_t row = 0;
    model.program().run(batch, *cache);
    model.program().head(std::span(&row, 1), LogitsSink{logits});
    EXPECT_TRUE(
        std::equal(logits.begin(), logits.end(), all.begin() + static_cast<std::ptrdiff_t>(i * vocab)))
        << "token " << i;
  }
}

TEST_P(CudaGroupedModel, TakesTheNodesThatArePredicted) {
  const Model model = on(gpu_, in_16_bits());
  const auto launches = [&](std::int64_t new_tokens) {
    const std::int64_t before = runtime_->launches();
    generate(*gpu_, model.program(), {{1, 2, 3}}, {.max_new_tokens = new_tokens});
    return runtime_->launches() - before;
  };
  const std::int64_t some = launches(5), more = launches(9);
  EXPECT_EQ(more - some,
            4 * predict_gpu_step(model.program().plan(), {.gpu = "h200", .rows = 1, .past = 16}).nodes);
}

}  // namespace
}  // namespace assay
