// The divergence of one token's logits, beside double precision.
#include "assay/generate/token_divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/base/json_reader.h"
#include "assay/base/random.h"
#include "assay/base/text_file.h"
#include "support/fixtures.h"
#include "support/kernel_tiers.h"

#include <nlohmann/json.hpp>

namespace assay {
namespace {

std::vector<float> floats_of(const JsonReader& json) {
  std::vector<float> all;
  for (const double v : json.numbers()) all.push_back(static_cast<float>(v));
  return all;
}

// In slices, by one of the reducers.
std::optional<TokenDivergence> divergence_by(const LogitReducer& reducer, std::span<const float> base,
                                             std::span<const float> candidate, TokenId target) {
  LogitSummary of_base, of_candidate;
  std::vector<float> powers(static_cast<std::size_t>(kHeadSlice)), unused = powers;
  double weighed = 0;
  for (std::size_t first = 0; first < base.size(); first += powers.size()) {
    const std::size_t count = std::min(powers.size(), base.size() - first);
    const auto x = base.subspan(first, count), y = candidate.subspan(first, count);
    const auto id = static_cast<TokenId>(first);
    const auto scales = add_slice(of_base, x, id, target, reducer, powers.data());
    if (!scales || !add_slice(of_candidate, y, id, target, reducer, unused.data())) return std::nullopt;
    weighed = weighed * scales->earlier + scales->own * reducer.weigh(powers.data(), x.data(), y.data(),
                                                                      static_cast<std::int64_t>(count));
  }
  return divergence_of(of_base, of_candidate, weighed);
}

TokenDivergence divergence_of_logits(const std::vector<float>& base, const std::vector<float>& candidate,
                                     TokenId target) {
  return divergence_by(portable_logit_reducer(), base, candidate, target).value();
}

LogitSummary summary_of(const std::vector<float>& logits) {
  LogitSummary summary;
  std::vector<float> powers(logits.size());
  add_slice(summary, logits, 0, 0, portable_logit_reducer(), powers.data());
  return summary;
}

// tools/make_divergence_fixtures.py computes the same in float64.
TEST(TokenDivergenceTest, IsThatOfDoublePrecision) {
  const auto json =
      parse_ordered_json(read_text(test::fixture("divergence.json"), Newlines::keep).text, "divergence.json");
  std::size_t positions = 0;
  for (const JsonReader& each : JsonReader(json, "divergence.json").at("positions").items()) {
    const TokenDivergence got = divergence_of_logits(
        floats_of(each.at("base")), floats_of(each.at("candidate")), each.at("target").whole<TokenId>());
    SCOPED_TRACE(positions++);
    const auto near = [&](double value, const char* key) {
      const double want = each.at(key).number();
      EXPECT_NEAR(value, want, 1e-5 * std::abs(want) + 2e-7) << key;
    };
    near(got.kl, "kl");
    near(got.nll_base, "nll_base");
    near(got.nll, "nll");
    near(static_cast<double>(got.p_base), "p_base");
    near(static_cast<double>(got.p), "p");
    near(static_cast<double>(got.top5), "top5");
    near(static_cast<double>(got.base_margin), "base_margin");
    EXPECT_EQ(got.same_top1, each.at("same_top1").boolean());
  }
  EXPECT_EQ(positions, 18U);
}

TEST(TokenDivergenceTest, OfEqualLogitsTheLowestIdIsFirst) {
  const std::vector<float> base{1, 4, 4, 0, 2, 2, 2, 2};
  const LogitSummary summary = summary_of(base);
  EXPECT_EQ(summary.top, (std::array<TokenId, 5>{1, 2, 4, 5, 6}));
  EXPECT_EQ(summary.margin(), 0);
  // The same highest value at another id; ids 4, 5, 6 against 5, 6, 7.
  EXPECT_TRUE(divergence_of_logits(base, {0, 4, 4, 0, 2, 2, 2, 2}, 0).same_top1);
  const TokenDivergence other = divergence_of_logits(base, {0, 3, 4, 0, 1, 2, 2, 2}, 0);
  EXPECT_FALSE(other.same_top1);
  EXPECT_FLOAT_EQ(other.top5, 0.8F);
  EXPECT_EQ(summary_of({3, 1}).tops, 2);
  EXPECT_EQ(divergence_of_logits({3, 1}, {1, 3}, 0).top5, 1);
}

TEST(TokenDivergenceTest, WhatIsNotFiniteHasNoSummary) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::nanf("")})
    for (const LogitReducer* reducer :
         {&portable_logit_reducer(), cpu::select_kernels(best_usable_isa()).logits})
      for (std::size_t place = 0; place < 70; ++place) {
        std::vector<float> logits(70, -1), others(70, 2);
        logits[place] = bad;
        EXPECT_FALSE(divergence_by(*reducer, logits, others, 0)) << place;
        EXPECT_FALSE(divergence_by(*reducer, others, logits, 0)) << place;
      }
  // Finite logits are far apart and have no divergence that is not a number.
  const TokenDivergence far = divergence_of_logits({3e38F, -3e38F}, {-3e38F, 3e38F}, 0);
  EXPECT_GT(far.kl, 1e38);
  EXPECT_FALSE(std::isnan(far.kl));
}

// Whatever kernels add up the slices, and wherever the slices of a vocabulary of 262,144 lie: the sums in
// double precision, of logits as spread as a model's, of an even distribution and of a certain one.
TEST(TokenDivergenceTest, OfALargeVocabularyIsThatOfDoublePrecision) {
  constexpr std::size_t kVocab = 262144;
  Random random(5);
  for (const double spread : {0.0, 1.0, 3.0, 30.0})
    for (const double change : {1e-3, 0.1, 1.0}) {
      std::vector<float> base(kVocab), candidate(kVocab);
      double sums[2] = {};
      for (std::size_t i = 0; i < kVocab; ++i) {
        const double x = spread * (random.uniform() + random.uniform() + random.uniform() - 1.5);
        base[i] = static_cast<float>(x);
        candidate[i] = static_cast<float>(x + 7 + change * (random.uniform() - 0.5));
        sums[0] += std::exp(static_cast<double>(base[i]));
        sums[1] += std::exp(static_cast<double>(candidate[i]));
      }
      double kl = 0;
      for (std::size_t i = 0; i < kVocab; ++i) {
        const double x = static_cast<double>(base[i]), y = static_cast<double>(candidate[i]);
        kl += std::exp(x) / sums[0] * (x - std::log(sums[0]) - y + std::log(sums[1]));
      }
      std::vector<const LogitReducer*> reducers{&portable_logit_reducer()};
      for (const Isa isa : test::usable_isas()) reducers.push_back(cpu::select_kernels(isa).logits);
      for (const LogitReducer* reducer : reducers) {
        const TokenDivergence d = divergence_by(*reducer, base, candidate, 200000).value();
        EXPECT_NEAR(d.kl, kl, 1e-5 * kl + 2e-7) << spread << " " << change;
        EXPECT_NEAR(d.nll_base, std::log(sums[0]) - static_cast<double>(base[200000]), 1e-6);
        const auto highest = std::max_element(base.begin(), base.end());
        EXPECT_EQ(divergence_by(*reducer, base, base, 0)->kl, 0);
        EXPECT_NEAR(static_cast<double>(d.p_base), std::exp(-d.nll_base), 1e-9);
        LogitSummary summary;
        std::vector<float> powers(kVocab);
        ASSERT_TRUE(add_slice(summary, base, 0, 0, *reducer, powers.data()));
        EXPECT_EQ(summary.top[0], static_cast<TokenId>(highest - base.begin()));
      }
    }
}

}  // namespace
}  // namespace assay
