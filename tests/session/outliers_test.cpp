// The shipped model with planted outliers, 8 channels of each norm 30 times larger: what SmoothQuant and the
// threshold of llm-int8 are for.
#include <gtest/gtest.h>

#include "assay/model/model.h"
#include "assay/session/load.h"
#include "assay/session/perplexity.h"
#include "support/fixtures.h"
#include "support/outlier_model.h"

namespace assay {
namespace {

class Outliers : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<test::TemporaryFolder>();
    test::plant_outliers(test::demo_model(), folder_->path() / "outliers", 30);
    plain_ = loss({});
  }
  static void TearDownTestSuite() { folder_.reset(); }

  // For the text that ships, in nats per token.
  static double loss(const RunConfig& config) {
    const LoadedModel loaded = load_model_and_tokenizer({folder_->path() / "outliers"}, config);
    return score_file(loaded, test::demo_model() / "texts/evaluate.txt", {.stride = 1024}).score.loss;
  }
  // What a precision loses against float32.
  static double lost(const RunConfig& config) { return loss(config) - plain_; }

  static std::unique_ptr<test::TemporaryFolder> folder_;
  static double plain_;
};
std::unique_ptr<test::TemporaryFolder> Outliers::folder_;
double Outliers::plain_ = 0;

TEST_F(Outliers, ModelIsTheSameFunction) {
  const LoadedModel demo = load_model_and_tokenizer({test::demo_model().string()}, "float32", Device{});
  const CorpusScore score = score_file(demo, test::demo_model() / "texts/evaluate.txt", {.stride = 1024});
  EXPECT_NEAR(plain_, score.score.loss, 1e-4);
}

TEST_F(Outliers, SmoothQuantBeatsNone) {
  if (kIsSanitized)
    GTEST_SKIP() << "long texts take minutes under a sanitizer; the release build scores them";
  for (const Preset precision : {Preset::int8_dynamic, Preset::int8_static}) {
    const double without = lost({.precision = precision}),
                 with = lost({.precision = precision, .smooth_quant = 0.5});
    EXPECT_GT(without, 0.1) << name_of(precision);  // there is something to gain
    EXPECT_LT(with, 0.25 * without) << name_of(precision);
  }
}

// The products behind norms have at least the 8 columns that were planted, the others few.
TEST_F(Outliers, TheirShareIsCounted) {
  const LoadedModel loaded = load_model_and_tokenizer({folder_->path() / "outliers"}, "llm-int8", Device{});
  EXPECT_EQ(loaded.model->program().outlier_share(), 0);
  score_file(loaded, test::demo_model() / "texts/evaluate.txt", {.stride = 1024});
  const double share = loaded.model->program().outlier_share();
  EXPECT_GT(share,
            8.0 / 256 * 512 / 1792);  // columns of the products behind norms, of all columns of a layer
  EXPECT_LT(share, 0.1);
}

TEST_F(Outliers, ThresholdOfLlmInt8BeatsNone) {
  const double with = lost({.precision = Preset::llm_int8}),
               without = lost({.precision = Preset::llm_int8, .llm_int8_threshold = 0});
  EXPECT_GT(without, 0.1);
  EXPECT_LT(with, 0.5 * without);
}

}  // namespace
}  // namespace assay
