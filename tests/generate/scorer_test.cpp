// Scoring: which tokens are scored in which window, and the same bits whatever is computed together.
#include "assay/generate/scorer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

class ScorerTest : public testing::Test {
 protected:
  Model model_ = Model::load(std::make_shared<const ModelFolder>(test::fixture_model("base")),
                             test::cpu_backend(best_usable_isa()), precision_from_name("float32"));
  std::vector<TokenId> ids_ = [] {
    std::vector<TokenId> ids;
    for (int i = 0; i < 150; ++i) ids.push_back(i * 37 % 101);
    return ids;
  }();

  // -log p(ids[target] | ids[begin..target)), from full logits.
  double surprise(std::int64_t begin, std::int64_t target) {
    const std::vector<TokenId> window(ids_.begin() + begin, ids_.begin() + target);
    const auto logits = test::all_logits(model_.program(), window);
    const float* row = logits.data() + (window.size() - 1) * 101;
    double sum = 0;
    for (int j = 0; j < 101; ++j) sum += std::exp(static_cast<double>(row[j]));
    return std::log(sum) - static_cast<double>(row[ids_[static_cast<std::size_t>(target)]]);
  }
};

TEST_F(ScorerTest, WindowsFollowTheGuide) {
  const Score s = score(model_.program(), ids_, {.context = 40, .stride = 25});
  // Windows [0,40) [25,65) [50,90) [75,115) [100,140) [125,150): every token but the first, once.
  EXPECT_EQ(s.windows, 6);
  EXPECT_EQ(s.tokens_scored, 149);
  EXPECT_EQ(s.protocol, "hf context=40 stride=25");
  double sum = 0;
  for (std::int64_t t = 1; t < 150; ++t) sum += surprise(t < 40 ? 0 : (t - 40) / 25 * 25 + 25, t);
  EXPECT_NEAR(s.loss, sum / 149, 1e-6);
  EXPECT_DOUBLE_EQ(s.perplexity, std::exp(s.loss));
}

TEST_F(ScorerTest, WithoutOverlapTheFirstTokenOfAWindowIsNotScored) {
  const Score s = score(model_.program(), ids_, {.context = 64, .stride = 64});
  EXPECT_EQ(s.windows, 3);
  EXPECT_EQ(s.tokens_scored, 147);
  double sum = 0;
  for (std::int64_t t = 1; t < 150; ++t)
    if (t % 64 != 0) sum += surprise(t / 64 * 64, t);
  EXPECT_NEAR(s.loss, sum / 147, 1e-6);
}

TEST_F(ScorerTest, BatchSizeChangesNoBit) {
  const Score one = score(model_.program(), ids_, {.context = 30, .stride = 7, .batch = 1});
  for (const std::int64_t batch : {2, 5, 100}) {
    const Score many = score(model_.program(), ids_, {.context = 30, .stride = 7, .batch = batch});
    EXPECT_EQ(many.loss, one.loss) << batch;
    EXPECT_EQ(many.log_probabilities, one.log_probabilities) << batch;
  }
}

// Token by token with the cache: the same windows and tokens, in float32 the same bits, on every tier.
TEST_F(ScorerTest, DecodeScoresWhatPrefillScores) {
  for (const Isa isa : test::usable_isas()) {
    const Model model = Model::load(std::make_shared<const ModelFolder>(test::fixture_model("base")),
                                    test::cpu_backend(isa), precision_from_name("float32"));
    for (const auto& [context, stride] : {std::pair{64, 32}, {30, 7}, {64, 64}}) {
      const Score want = score(model.program(), ids_, {.context = context, .stride = stride});
      for (const std::optional<std::int64_t> batch : {std::optional<std::int64_t>(), {3}}) {
        const Score got =
            score(model.program(), ids_,
                  {.context = context, .stride = stride, .through = ScoreThrough::decode, .batch = batch});
        EXPECT_EQ(got.log_probabilities, want.log_probabilities) << name_of(isa) << " " << context;
        EXPECT_EQ(got.loss, want.loss);
        EXPECT_EQ(got.windows, want.windows);
        EXPECT_EQ(got.tokens_scored, want.tokens_scored);
        EXPECT_EQ(got.protocol, want.protocol + " through=decode" + (batch == 3 ? " batch=3" : ""));
      }
    }
  }
  EXPECT_THROW(score_through_from_name("both"), UsageError);
}

// The steps are decode steps: with 4-bit weights and bfloat16 around them, tiles multiply a prompt and the
// vector units a step, so that the losses differ, by little.
TEST_F(ScorerTest, DecodeIsScoredInItsOwnArithmetic) {
  for (const Isa isa : test::usable_isas()) {
    Precision precision = precision_from_name("nf4");
    set_dtype(precision, DType::bf16);
    const Model model = Model::load(std::make_shared<const ModelFolder>(test::fixture_model("base")),
                                    test::cpu_backend(isa), precision);
    const Score prefill = score(model.program(), ids_, {}),
                decode = score(model.program(), ids_, {.through = ScoreThrough::decode});
    EXPECT_NEAR(decode.loss, prefill.loss, 5e-3 * prefill.loss) << name_of(isa);
    if (isa >= Isa::avx512bf16) {
      EXPECT_NE(decode.log_probabilities, prefill.log_probabilities);
    }
  }
}

TEST_F(ScorerTest, DecodeStopsBetweenTwoSteps) {
  int calls = 0;
  const auto stop = [&] { return ++calls > 20; };  // in the first window
  EXPECT_THROW(score(model_.program(), ids_, {.through = ScoreThrough::decode, .should_stop = stop}), Error);
  EXPECT_EQ(calls, 21);
}

TEST_F(ScorerTest, ALastWindowOfOneTokenScoresNone) {
  ids_.resize(65);
  const Score s = score(model_.program(), ids_, {.context = 64, .stride = 64});
  EXPECT_EQ(s.windows, 2);
  EXPECT_EQ(s.tokens_scored, 63);
}

TEST_F(ScorerTest, RefusesWhatCannotBeScored) {
  using Optional = std::optional<std::int64_t>;
  const auto run = [&](std::vector<TokenId> ids, Optional context, Optional stride) {
    return score(model_.program(), ids, {.context = context, .stride = stride});
  };
  EXPECT_NO_THROW(run(ids_, {}, {}));
  EXPECT_THROW(run({1}, {}, {}), Error);
  EXPECT_THROW(run({}, {}, {}), Error);
  EXPECT_THROW(run({1, 101}, {}, {}), Error);
  for (const int context : {65, 1, 0}) EXPECT_THROW(run(ids_, context, {}), FieldError) << context;
  for (const int stride : {21, 0, -1}) EXPECT_THROW(run(ids_, 20, stride), FieldError) << stride;
  EXPECT_THROW(score(model_.program(), ids_, {.batch = 0}), FieldError);
  // Before the first window is computed.
  ids_.back() = 101;
  const auto on_progress = [](std::int64_t done, std::int64_t) { EXPECT_EQ(done, 0); };
  EXPECT_THROW(
      score(model_.program(), ids_, {.context = 20, .stride = 20, .batch = 1, .on_progress = on_progress}),
      Error);
}

}  // namespace
}  // namespace assay
