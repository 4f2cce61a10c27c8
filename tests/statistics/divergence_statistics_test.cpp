// Figures of a divergence: their values, and by simulation of texts whose tokens depend on their neighbours
// that intervals hold what they should and verdicts are seldom false.
#include "assay/statistics/divergence_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "assay/statistics/replicates.h"
#include "support/simulated_text.h"

namespace assay {
namespace {

using statistics::Estimate;

using test::kMedianSize;
using test::kSpread;
using test::kTextTokens;
using test::SimulatedText;

double variance(std::span<const double> values) {
  const double deviation = statistics::standard_deviation(values).value();
  return deviation * deviation;
}

// How much more blocks of 256 vary than those of independent tokens would: 1.8 to 2.2, as it was measured.
TEST(DivergenceSimulation, HasTheDependenceOfTexts) {
  SimulatedText text(1);
  const std::vector<double> kl = text.next(std::size_t{256} * 4000);
  EXPECT_NEAR(variance(statistics::block_means(kl, 256)) * 256 / variance(kl), 2.0, 0.2);
}

TEST(DivergenceSimulation, IntervalsHoldTheMean) {
  constexpr int kRuns = 2000;
  const double truth = kMedianSize * std::exp(kSpread * kSpread / 2);
  SimulatedText text(2);
  int held = 0;
  for (int run = 0; run < kRuns; ++run) {
    const Estimate mean = statistics::token_mean(text.next(kTextTokens));
    held += mean.interval->low <= truth && truth <= mean.interval->high;
  }
  EXPECT_GE(held, 0.93 * kRuns);
  EXPECT_LE(held, 0.97 * kRuns);
}

TEST(DivergenceSimulation, IntervalsHoldQuantiles) {
  constexpr int kRuns = 200;
  const double p[] = {0.5, 0.9, 0.99};
  const double deviates[] = {0, 1.2815516, 2.3263479};
  SimulatedText text(3);
  int held[3] = {};
  for (int run = 0; run < kRuns; ++run) {
    const std::vector<Estimate> quantiles = statistics::token_quantiles(text.next(2048), p);
    for (int i = 0; i < 3; ++i) {
      const double truth = kMedianSize * std::exp(kSpread * deviates[i]);
      held[i] += quantiles[static_cast<std::size_t>(i)].interval->low <= truth &&
                 truth <= quantiles[static_cast<std::size_t>(i)].interval->high;
    }
  }
  for (const int each : held) {
    EXPECT_GE(each, 0.91 * kRuns);
    EXPECT_LE(each, 0.99 * kRuns);
  }
}

// Whether tokens agree depends on the passage too.
TEST(DivergenceSimulation, IntervalsHoldAgreement) {
  constexpr int kRuns = 2000;
  SimulatedText text(7);
  const double limit = kMedianSize * std::exp(kSpread * 1.2815516);  // nine of ten tokens are below
  int held = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> agreement;
    for (const double kl : text.next(kTextTokens)) agreement.push_back(kl < limit ? 1 : 0);
    const Estimate mean = statistics::token_mean(agreement);
    held += mean.interval->low <= 0.9 && 0.9 <= mean.interval->high;
  }
  EXPECT_GE(held, 0.93 * kRuns);
  EXPECT_LE(held, 0.97 * kRuns);
}

// Two candidates with the same distribution, on the same hard and easy passages.
TEST(DivergenceSimulation, VerdictsAreSeldomFalse) {
  constexpr int kRuns = 2000;
  SimulatedText text(4);
  int rejected = 0, held = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto paired = statistics::compare_divergence(text.next(kTextTokens), text.next(kTextTokens));
    rejected += paired.p_value <= 0.05;
    held += paired.difference.interval->low <= 0 && 0 <= paired.difference.interval->high;
  }
  EXPECT_LE(rejected, 0.055 * kRuns);  // 5 % and the chance of one standard error of the simulation
  EXPECT_GE(rejected, 0.04 * kRuns);
  EXPECT_GE(held, 0.93 * kRuns);
  EXPECT_LE(held, 0.97 * kRuns);
}

// Where as many tokens are scored as the forecast asks for, the test finds the difference in nine of ten.
TEST(DivergenceSimulation, TheForecastGivesItsPower) {
  SimulatedText text(5);
  const std::vector<double> a = text.next(std::size_t{256} * 1000),
                            b = text.next(std::size_t{256} * 1000, 1.1);
  const auto pilot = statistics::compare_divergence(a, b);
  ASSERT_TRUE(pilot.tokens_needed);
  const auto needed = static_cast<std::size_t>(pilot.tokens_needed->about);
  ASSERT_GT(needed, 2048U);
  ASSERT_LT(needed, 20000U);
  int found = 0;
  constexpr int kRuns = 200;
  for (int run = 0; run < kRuns; ++run)
    found += statistics::compare_divergence(text.next(needed), text.next(needed, 1.1)).p_value <= 0.05;
  EXPECT_NEAR(found, 0.9 * kRuns, 0.07 * kRuns);
}

// The texts are too short to tell.
TEST(DivergenceSimulation, TheForecastsBoundsHoldInFourOfFive) {
  constexpr int kRuns = 1000;
  SimulatedText text(8);
  const auto pair_of = [&](std::size_t tokens) {
    return *statistics::compare_divergence(text.next(tokens), text.next(tokens, 1.1)).tokens_needed;
  };
  const std::int64_t truth = pair_of(std::size_t{256} * 8000).about;
  for (const std::size_t tokens : {2048U, 4096U}) {
    ASSERT_LT(static_cast<std::int64_t>(tokens), truth);
    int held = 0, open = 0;
    for (int run = 0; run < kRuns; ++run) {
      const statistics::TokensNeeded needed = pair_of(tokens);
      held += needed.low <= truth && (!needed.high || truth <= *needed.high);
      open += !needed.high;
    }
    EXPECT_GE(held, 0.79 * kRuns) << tokens;
    EXPECT_LE(held, 0.92 * kRuns) << tokens;
    EXPECT_LT(open, 0.6 * kRuns) << tokens;
  }
}

statistics::DivergenceTokens tokens_of(const std::vector<double>& kl) {
  const std::vector<double> zeros(kl.size());
  return {kl, zeros, zeros, std::vector<double>(kl.size(), 1), std::vector<double>(kl.size(), 1)};
}

TEST(DivergenceFigures, AreThoseOfTheTokens) {
  statistics::DivergenceTokens tokens;
  for (int i = 0; i < 1600; ++i) {
    tokens.kl.push_back(i % 4 == 0 ? 0.4 : 0.1);
    tokens.nll_change.push_back(i % 2 == 0 ? 0.3 : -0.1);
    tokens.p_change.push_back(i % 10 == 0 ? -0.2 : 0.05);
    tokens.same_top1.push_back(i % 8 == 0 ? 0 : 1);
    tokens.top5_agreement.push_back(i % 2 == 0 ? 0.8 : 1);
  }
  tokens.kl[700] = tokens.kl[900] = 3;
  const statistics::DivergenceFigures f = statistics::divergence_figures(tokens);
  EXPECT_EQ(f.tokens, 1600);
  EXPECT_NEAR(f.kl_mean.value, (400 * 0.4 + 1200 * 0.1 + 2 * 2.6) / 1600, 1e-12);
  EXPECT_DOUBLE_EQ(f.kl_median.value, 0.1);
  EXPECT_DOUBLE_EQ(f.kl_p90.value, 0.4);
  EXPECT_DOUBLE_EQ(f.kl_p99.value, 0.4);
  EXPECT_FALSE(f.kl_p999);
  EXPECT_EQ(f.kl_max, 3);
  EXPECT_EQ(f.kl_max_token, 700U);
  EXPECT_DOUBLE_EQ(f.top1_agreement.value, 0.875);
  EXPECT_NEAR(f.top5_agreement.value, 0.9, 1e-12);
  EXPECT_NEAR(f.p_change_mean.value, 0.025, 1e-12);
  EXPECT_NEAR(f.p_change_rms.value, std::sqrt((0.04 + 9 * 0.0025) / 10), 1e-12);
  EXPECT_DOUBLE_EQ(f.p_falls.value, 0.1);
  EXPECT_NEAR(f.log_perplexity_ratio.value, 0.1, 1e-12);
  ASSERT_TRUE(f.kl_mean.interval);
  EXPECT_LE(f.kl_mean.interval->low, f.kl_mean.value);
  EXPECT_GE(f.kl_mean.interval->high, f.kl_mean.value);
  EXPECT_EQ(f.kl_mean.interval->level, 0.95);
  // The same tokens give the same interval.
  EXPECT_EQ(statistics::divergence_figures(tokens).kl_mean.interval->low, f.kl_mean.interval->low);
}

TEST(DivergenceFigures, FewTokensHaveNoInterval) {
  const auto figures = [](std::size_t n) {
    return statistics::divergence_figures(tokens_of(std::vector<double>(n, 0.5)));
  };
  EXPECT_FALSE(figures(1535).kl_mean.interval);
  EXPECT_FALSE(figures(1535).kl_p99.interval);
  EXPECT_TRUE(figures(1536).kl_mean.interval);
  EXPECT_FALSE(figures(9999).kl_p999);
  EXPECT_TRUE(figures(10000).kl_p999);
  EXPECT_THROW(figures(0), std::logic_error);
  statistics::DivergenceTokens uneven = tokens_of({1, 2});
  uneven.p_change.pop_back();
  EXPECT_THROW(statistics::divergence_figures(uneven), std::logic_error);
}

TEST(CompareDivergence, SaysWhichIsLower) {
  SimulatedText text(6);
  const std::vector<double> low = text.next(4096);
  std::vector<double> high = low;
  for (double& kl : high) kl *= 1.5;
  const auto paired = statistics::compare_divergence(low, high);
  EXPECT_LT(paired.difference.interval->high, 0);
  EXPECT_LT(paired.p_value, 0.001);
  EXPECT_EQ(paired.first_is_lower, 1);
  EXPECT_EQ(paired.blocks, 16U);
  const auto reversed = statistics::compare_divergence(high, low);
  EXPECT_EQ(reversed.difference.value, -paired.difference.value);
  EXPECT_EQ(reversed.tokens_needed, paired.tokens_needed);
  EXPECT_EQ(reversed.first_is_lower, 0);
  const auto equal = statistics::compare_divergence(low, low);
  EXPECT_EQ(equal.difference.value, 0);
  EXPECT_EQ(equal.p_value, 1);
  EXPECT_EQ(equal.first_is_lower, 0.5);
  EXPECT_FALSE(equal.tokens_needed);
  EXPECT_THROW(statistics::compare_divergence(low, {}), std::logic_error);
  EXPECT_EQ(statistics::compare_divergence({}, {}).p_value, 1);
}

}  // namespace
}  // namespace assay
