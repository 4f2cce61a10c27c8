// A GGUF file whose embedding is the LM head, with float and with int8 activations.
#include <gtest/gtest.h>

#include "assay/model/model.h"
#include "assay/quantize/gguf_mix.h"
#include "assay/quantize/write_gguf.h"
#include "assay/session/load.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

// The LM head is the embedding, in its block type, and rows name what activations share a scale.
TEST(GgufInt8Activations, ATiedEmbeddingRunsAsItIsStored) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "m.gguf").string();
  write_gguf(test::demo_model().string(), path, {.mix = GgufMix::named("Q8_0").value(), .threads = 2});
  const auto logits = [&](const RunConfig& config, const std::string& label) {
    const LoadedModel loaded = load_model_and_tokenizer({path}, config);
    EXPECT_EQ(loaded.dtype_label, label);
    const Plan& plan = loaded.model->program().plan();
    EXPECT_EQ(plan.weight(plan.head.product.weight).format,
              config.precision ? formats::kFloat32 : formats::kQ8_0);
    return test::all_logits(loaded.model->program(), {3, 17, 4, 90, 21});
  };
  const auto numbers = logits({.precision = Preset::float32}, "float32 of dequantized weights"),
             stored = logits({}, "q8_0 (as stored)"),
             coded = logits({.activations = Activations::int8},
                            "q8_0 (as stored), activations int8 in groups of 32");
  const double deviation = test::standard_deviation_of(numbers);
  EXPECT_LE(test::largest_difference(stored, numbers), 1e-4 * deviation);
  EXPECT_LE(test::largest_difference(coded, numbers), 0.2 * deviation);
  EXPECT_GT(test::largest_difference(coded, numbers), 1e-3 * deviation);
}

}  // namespace
}  // namespace assay
