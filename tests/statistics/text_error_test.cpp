// Standard errors of text losses: by hand, and against what they estimate.
#include "assay/statistics/text_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace assay::statistics {
namespace {

TEST(TextError, OfClustersByHand) {
  const std::vector<Cluster> clusters{{2, 1}, {2, 2}, {6, 3}, {1, 1}, {3, 2}, {4, 3}};
  // 18 / 12 = 1.5; beyond it 0.5, -1, 1.5, -0.5, 0, -0.5: squares sum to 4.
  EXPECT_NEAR(*clustered_error(clusters), std::sqrt(6.0 / 5 * 4) / 12, 1e-15);
  EXPECT_FALSE(clustered_error(std::span(clusters).first(5)));
}

TEST(TextError, OfIndependentTokensIsLlamaCpps) {
  const std::vector<double> losses{1, 2, 4};
  EXPECT_NEAR(*independent_error(losses), std::sqrt((7.0 - 49.0 / 9) / 2), 1e-15);
  EXPECT_FALSE(independent_error(std::span(losses).first(1)));
}

TEST(TextError, TakesTextsWhereThereAreSixAndElseBlocks) {
  std::vector<double> losses(6 * 256);
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i] = static_cast<double>(i / 256);
  EXPECT_NEAR(*loss_error(losses, {}), std::sqrt(17.5 / 5 / 6), 1e-12);
  losses.resize(5 * 256);
  EXPECT_FALSE(loss_error(losses, {}));
  losses = {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6};
  EXPECT_NEAR(*loss_error(losses, std::vector<std::int64_t>(6, 2)), std::sqrt(17.5 / 5 / 6), 1e-12);
}

// Losses whose passages have much in common: blocks know it, single tokens do not.
TEST(TextError, KnowsThatNeighboursDepend) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> means;
  double estimated = 0, independent = 0;
  constexpr int kTexts = 200, kTokens = 8192;
  for (int text = 0; text < kTexts; ++text) {
    std::vector<double> losses;
    double passage = 0, sum = 0;
    for (int i = 0; i < kTokens; ++i) {
      passage = 0.95 * passage + std::sqrt(1 - 0.95 * 0.95) * normal(random);
      losses.push_back(0.4 * passage + normal(random));
      sum += losses.back();
    }
    means.push_back(sum / kTokens);
    estimated += *loss_error(losses, {}) / kTexts;
    independent += *independent_error(losses) / kTexts;
  }
  double squares = 0;
  for (const double mean : means) squares += mean * mean;
  const double real = std::sqrt(squares / kTexts);
  EXPECT_NEAR(estimated / real, 1, 0.15);
  EXPECT_LT(independent / real, 0.6);
}

}  // namespace
}  // namespace assay::statistics
