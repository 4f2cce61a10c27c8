// Divergence of models in lockstep: its arithmetic against float64, and the same bits whatever runs together.
#include "assay/generate/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/base/error.h"
#include "assay/base/json_reader.h"
#include "assay/base/random.h"
#include "assay/base/text_file.h"
#include "assay/generate/scorer.h"
#include "assay/model/model.h"
#include "support/fixtures.h"
#include "support/forwarded_program.h"
#include "support/kernel_tiers.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <nlohmann/json.hpp>

namespace assay {
namespace {

// Another program's hidden states, with logits of a padded vocabulary, or with one that is broken.
class AlteredProgram : public test::ForwardedProgram {
 public:
  AlteredProgram(Program& inner, std::int64_t vocab) : ForwardedProgram(inner), plan_(inner.plan()) {
    plan_.vocab = vocab;
  }
  std::int64_t broken_from = std::numeric_limits<std::int64_t>::max();  // rows of head() that are given NaN
  std::size_t largest_sink = 0;

  const Plan& plan() const override { return plan_; }
  void head(std::span<const std::int64_t> rows, const HeadSink& sink) override {
    const std::span<float> logits = std::get<LogitsSink>(sink).logits;
    largest_sink = std::max(largest_sink, logits.size_bytes());
    const auto own = static_cast<std::size_t>(inner_.plan().vocab),
               all = static_cast<std::size_t>(plan_.vocab);
    std::vector<float> inner(rows.size() * own);
    inner_.head(rows, LogitsSink{inner});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < all; ++j) logits[i * all + j] = j < own ? inner[i * own + j] : 50;
      if (rows_++ >= broken_from) logits[i * all + 3] = std::nanf("");
    }
  }

 private:
  Plan plan_;
  std::int64_t rows_ = 0;
};

class DivergenceTest : public testing::Test {
 protected:
  static Model model(const char* precision) {
    return Model::load(std::make_shared<const ModelFolder>(test::fixture_model("base")),
                       test::cpu_backend(best_usable_isa()), precision_from_name(precision));
  }
  static Divergence measured(Program& base, std::vector<Program*> candidates,
                             const DivergenceOptions& options = {.context = 40, .stride = 25}) {
    return measure_divergence(base, candidates, ids(), options);
  }
  static std::vector<TokenId> ids() {
    std::vector<TokenId> all;
    for (int i = 0; i < 150; ++i) all.push_back(i * 37 % 101);
    return all;
  }
  static void expect_equal(const CandidateDivergence& a, const CandidateDivergence& b) {
    EXPECT_EQ(a.failure, b.failure);
    ASSERT_EQ(a.tokens.size(), b.tokens.size());
    for (std::size_t i = 0; i < a.tokens.size(); ++i) {
      EXPECT_EQ(a.tokens[i].kl, b.tokens[i].kl);
      EXPECT_EQ(a.tokens[i].nll_base, b.tokens[i].nll_base);
      EXPECT_EQ(a.tokens[i].nll, b.tokens[i].nll);
      EXPECT_EQ(a.tokens[i].top5, b.tokens[i].top5);
    }
  }
};

TEST_F(DivergenceTest, OfASecondCopyIsExactlyZero) {
  for (const char* precision : {"float32", "bfloat16", "nf4", "int8-dynamic"}) {
    const Model a = model(precision), b = model(precision);
    const Divergence d = measured(a.program(), {&b.program()});
    ASSERT_EQ(d.candidates[0].tokens.size(), 149U);
    for (const TokenDivergence& token : d.candidates[0].tokens) {
      EXPECT_EQ(token.kl, 0);
      EXPECT_EQ(token.nll, token.nll_base);
      EXPECT_TRUE(token.same_top1);
      EXPECT_EQ(token.top5, 1);
    }
  }
}

TEST_F(DivergenceTest, ScoresTheTokensOfPerplexity) {
  const Model base = model("float32"), nf4 = model("nf4");
  const Divergence d = measured(base.program(), {&nf4.program()});
  EXPECT_EQ(d.windows, 6);
  EXPECT_EQ(d.protocol, "hf context=40 stride=25");
  const Score of_base = score(base.program(), ids(), {.context = 40, .stride = 25}),
              of_nf4 = score(nf4.program(), ids(), {.context = 40, .stride = 25});
  ASSERT_EQ(d.scored.size(), of_base.log_probabilities.size());
  double kl = 0;
  for (std::size_t i = 0; i < d.scored.size(); ++i) {
    const TokenDivergence& token = d.candidates[0].tokens[i];
    EXPECT_EQ(d.scored[i], static_cast<std::int64_t>(i) + 1);
    EXPECT_NEAR(token.nll_base, -of_base.log_probabilities[i], 1e-6);
    EXPECT_NEAR(token.nll, -of_nf4.log_probabilities[i], 1e-6);
    EXPECT_NEAR(static_cast<double>(token.p), std::exp(-token.nll), 1e-6);
    EXPECT_GE(token.kl, -2e-7);
    kl += token.kl;
  }
  EXPECT_GT(kl, 1e-3);
}

// The sum over the vocabulary, from logits of both models, for a token within a window.
TEST_F(DivergenceTest, IsThatOfTheModelsLogits) {
  const Model base = model("float32"), nf4 = model("nf4");
  const Divergence d = measured(base.program(), {&nf4.program()});
  const std::vector<TokenId> all = ids(), window(all.begin() + 25, all.begin() + 65);
  const std::vector<float> p = test::all_logits(base.program(), window),
                           q = test::all_logits(nf4.program(), window);
  const auto log_softmax = [](const std::vector<float>& logits, std::size_t row) {
    double sum = 0;
    std::vector<double> x(logits.begin() + static_cast<std::ptrdiff_t>(row * 101),
                          logits.begin() + static_cast<std::ptrdiff_t>((row + 1) * 101));
    for (const double v : x) sum += std::exp(v);
    for (double& v : x) v -= std::log(sum);
    return x;
  };
  for (std::size_t row = 15; row < 39; ++row) {  // tokens 41 to 64 are scored in the second window
    const std::vector<double> a = log_softmax(p, row), b = log_softmax(q, row);
    double kl = 0;
    for (std::size_t j = 0; j < 101; ++j) kl += std::exp(a[j]) * (a[j] - b[j]);
    EXPECT_NEAR(d.candidates[0].tokens[25 + row].kl, kl, 1e-5 * kl + 2e-7) << row;
  }
}

TEST_F(DivergenceTest, OnePassWithSeveralEqualsSinglePasses) {
  const Model base = model("float32"), nf4 = model("nf4"), int8 = model("int8-dynamic"), fp4 = model("fp4");
  const Divergence all =
      measured(base.program(), {&nf4.program(), &int8.program(), &fp4.program(), &nf4.program()});
  expect_equal(all.candidates[0], measured(base.program(), {&nf4.program()}).candidates[0]);
  expect_equal(all.candidates[1], measured(base.program(), {&int8.program()}).candidates[0]);
  expect_equal(all.candidates[2], measured(base.program(), {&fp4.program()}).candidates[0]);
  expect_equal(all.candidates[3], all.candidates[0]);
  ThreadPool* pool = base.backend().pool();
  ASSERT_NE(pool, nullptr);
  expect_equal(
      all.candidates[0],
      measured(base.program(), {&nf4.program()}, {.context = 40, .stride = 25, .pool = pool}).candidates[0]);
}

// What a measure kept stands in for the baseline in later ones, and for no other text, window or vocabulary.
TEST_F(DivergenceTest, AKeptBaselineGivesTheSameBits) {
  const Model base = model("float32"), nf4 = model("nf4"), int8 = model("int8-dynamic");
  AlteredProgram counted(base.program(), 101), padded(nf4.program(), 120);
  KeptBaseline kept{.most = {1 << 20}};
  const DivergenceOptions options{.context = 40, .stride = 25, .kept = &kept};
  const auto plain = [&](Program& candidate) { return measured(base.program(), {&candidate}).candidates[0]; };
  expect_equal(measured(counted, {&nf4.program()}, options).candidates[0], plain(nf4.program()));
  EXPECT_EQ(kept.program, &counted);
  EXPECT_EQ(kept.logits.size(), 149U * 101);
  counted.largest_sink = 0;
  expect_equal(measured(counted, {&int8.program()}, options).candidates[0], plain(int8.program()));
  expect_equal(measured(counted, {&padded}, {.context = 40, .stride = 25, .kept = &kept}).candidates[0],
               plain(nf4.program()));
  EXPECT_EQ(counted.largest_sink, 0U);  // the baseline's LM head did not run
  const DivergenceOptions other{.context = 30, .stride = 25, .kept = &kept};
  expect_equal(measured(counted, {&nf4.program()}, other).candidates[0],
               measured(base.program(), {&nf4.program()}, {.context = 30, .stride = 25}).candidates[0]);
  EXPECT_GT(counted.largest_sink, 0U);
  std::vector<TokenId> reversed = ids();  // another text of the same length
  std::ranges::reverse(reversed);
  const auto of_reversed = [&](const DivergenceOptions& used) {
    std::vector<Program*> candidates{&nf4.program()};
    return measure_divergence(base.program(), candidates, reversed, used).candidates[0];
  };
  measured(base.program(), {&nf4.program()}, options);
  expect_equal(of_reversed(options), of_reversed({.context = 40, .stride = 25}));
  KeptBaseline small{.most = {149 * 101 * 4 - 1}};
  measured(counted, {&nf4.program()}, {.context = 40, .stride = 25, .kept = &small});
  EXPECT_EQ(small.program, nullptr);
  EXPECT_TRUE(small.logits.empty());
}

TEST_F(DivergenceTest, APaddedVocabularyIsCut) {
  const Model base = model("float32"), nf4 = model("nf4");
  const CandidateDivergence plain = measured(base.program(), {&nf4.program()}).candidates[0];
  EXPECT_EQ(plain.vocab, 101);
  AlteredProgram padded_base(base.program(), 128), padded(nf4.program(), 120);
  const Divergence candidates = measured(base.program(), {&padded, &nf4.program()});
  EXPECT_EQ(candidates.candidates[0].vocab, 101);
  expect_equal(candidates.candidates[0], plain);
  expect_equal(candidates.candidates[1], plain);
  expect_equal(measured(padded_base, {&nf4.program()}).candidates[0], plain);
}

TEST_F(DivergenceTest, ANonFiniteCandidateFailsAlone) {
  const Model base = model("float32"), nf4 = model("nf4");
  AlteredProgram broken(nf4.program(), 101), broken_base(base.program(), 101);
  broken.broken_from = 60;
  const Divergence d = measured(base.program(), {&broken, &nf4.program()});
  EXPECT_EQ(
      d.candidates[0].failure,
      "the logits for token 61 of the text are not finite: the model's weights or arithmetic are broken");
  EXPECT_TRUE(d.candidates[0].tokens.empty());
  expect_equal(d.candidates[1], measured(base.program(), {&nf4.program()}).candidates[0]);
  broken_base.broken_from = 60;
  EXPECT_THROW(measured(broken_base, {&nf4.program()}), Error);
}

// Whatever the vocabulary, logits of a slice stay within the limit.
TEST_F(DivergenceTest, SlicesOfALargeVocabularyStaySmall) {
  const Model base = model("float32");
  AlteredProgram large_base(base.program(), 262144), large(base.program(), 262144);
  const Divergence d = measured(large_base, {&large}, {.context = 24, .stride = 24});
  EXPECT_EQ(d.candidates[0].failure, "");
  EXPECT_EQ(d.candidates[0].vocab, 262144);
  EXPECT_LE(static_cast<std::int64_t>(large_base.largest_sink + large.largest_sink), kDivergenceBytes);
  EXPECT_GE(large.largest_sink, std::size_t{8} << 20);
  for (const TokenDivergence& token : d.candidates[0].tokens) EXPECT_EQ(token.kl, 0);
}

// Buffers of logits take as much for any vocabulary: slices of the LM head's outputs, of the baseline and of
// one candidate at a time.
TEST_F(DivergenceTest, OfALargeVocabularyTakesTheMemoryOfASmallOne) {
  constexpr std::int64_t kVocab = 262000;  // its last slice is not a whole one
  test::TemporaryFolder folder;
  test::TinyModel tiny;
  tiny.config["vocab_size"] = kVocab;
  tiny.tensor("transformer.wte.weight") = test::float_tensor("transformer.wte.weight", {kVocab, 4});
  const auto checkpoint = std::make_shared<const ModelFolder>(tiny.write(folder.path() / "model"));
  const auto backend = test::cpu_backend(best_usable_isa());
  const Model base = Model::load(checkpoint, backend, precision_from_name("float32")),
              nf4 = Model::load(checkpoint, backend, precision_from_name("nf4"));
  std::vector<TokenId> ids;
  for (int i = 0; i < 24; ++i) ids.push_back(i * 9973 % static_cast<int>(kVocab));
  Program* const candidates[] = {&nf4.program(), &base.program()};
  const Divergence d = measure_divergence(base.program(), candidates, ids, {.context = 8, .stride = 8});
  const std::vector<TokenId> window(ids.begin(), ids.begin() + 8);
  const std::vector<float> p = test::all_logits(base.program(), window),
                           q = test::all_logits(nf4.program(), window);
  for (std::size_t row = 0; row < 7; ++row) {
    const auto of_row = [&](const std::vector<float>& all) {
      return std::span(all).subspan(row * kVocab, kVocab);
    };
    double sums[2] = {}, kl = 0;
    for (const float x : of_row(p)) sums[0] += std::exp(static_cast<double>(x));
    for (const float x : of_row(q)) sums[1] += std::exp(static_cast<double>(x));
    for (std::size_t j = 0; j < kVocab; ++j) {
      const auto x = static_cast<double>(of_row(p)[j]), y = static_cast<double>(of_row(q)[j]);
      kl += std::exp(x) / sums[0] * (x - std::log(sums[0]) - y + std::log(sums[1]));
    }
    EXPECT_NEAR(d.candidates[0].tokens[row].kl, kl, 1e-5 * kl + 2e-7) << row;
    EXPECT_NEAR(d.candidates[0].tokens[row].nll_base,
                std::log(sums[0]) - static_cast<double>(of_row(p)[static_cast<std::size_t>(ids[row + 1])]),
                1e-5);
    EXPECT_EQ(d.candidates[1].tokens[row].kl, 0);
  }
  EXPECT_LE(divergence_bytes(base.program().max_rows()), std::int64_t{64} << 20);
  EXPECT_LE(divergence_bytes(base.program().max_rows()), 64'000'000);
}

TEST_F(DivergenceTest, RefusesWhatCannotBeCompared) {
  const Model base = model("float32"), nf4 = model("nf4");
  const auto refusal = [&](const std::vector<TokenId>& ids, const DivergenceOptions& options) {
    Program* const candidates[] = {&nf4.program()};
    try {
      measure_divergence(base.program(), candidates, ids, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal({1}, {}), "the text has 1 token; a divergence needs at least 2");
  EXPECT_EQ(refusal({1, 101}, {}), "token id 101 is outside the vocabulary of 101 that the models share");
  EXPECT_EQ(refusal({1, 2}, {.context = 65}),
            "context: expected 2 to 64 (the shortest of the models), found 65");
  EXPECT_EQ(refusal({1, 2}, {.context = 8, .stride = 9}), "stride: expected 1 to 8 (the context), found 9");
  EXPECT_THROW(measured(base.program(), {&nf4.program()}, {.should_stop = [] { return true; }}), Stopped);
}

}  // namespace
}  // namespace assay
