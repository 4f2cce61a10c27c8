// Choices within two limits against all choices there are, and what is said where points are left out.
#include "assay/statistics/bounded_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

namespace assay::statistics {
namespace {

using BoundedItems = std::vector<std::vector<BoundedOption>>;

BoundedItems random_bounded_items(std::mt19937_64& random, std::size_t items, std::size_t options) {
  std::uniform_real_distribution<double> unit(0, 1);
  BoundedItems made(items);
  for (auto& item : made)
    for (std::size_t o = 0; o < options; ++o) {
      // More bytes lose less; times follow bytes loosely, and noise may make a loss negative.
      const double bytes = std::round(1000 * unit(random) * static_cast<double>(o + 1));
      item.push_back(
          {unit(random) / static_cast<double>(o + 1) - 0.02, {bytes, bytes * (0.5 + unit(random))}});
    }
  return made;
}

// The least cost within the limits of all choices; infinite where none keeps them.
double least_within(const BoundedItems& items, const std::array<double, 2>& limits) {
  double best = INFINITY;
  std::vector<std::size_t> choice(items.size(), 0);
  for (;;) {
    double cost = 0, first = 0, second = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      cost += items[i][choice[i]].cost;
      first += items[i][choice[i]].use[0];
      second += items[i][choice[i]].use[1];
    }
    if (first <= limits[0] && second <= limits[1]) best = std::min(best, cost);
    std::size_t i = 0;
    while (i < items.size() && ++choice[i] == items[i].size()) choice[i++] = 0;
    if (i == items.size()) return best;
  }
}

TEST(BoundedChoice, IsTheLeastOfAllChoices) {
  std::mt19937_64 random(7);
  int found = 0, none = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const BoundedItems items = random_bounded_items(random, 6, 3);
    std::uniform_real_distribution<double> limit(500, 8000);
    const std::array<double, 2> limits{limit(random), limit(random)};
    const double least = least_within(items, limits);
    const auto choice = choose_within(items, limits);
    ASSERT_EQ(choice.has_value(), std::isfinite(least)) << trial;
    none += choice ? 0 : 1;
    if (!choice) continue;
    ++found;
    EXPECT_NEAR(choice->cost, least, 1e-12) << trial;
    EXPECT_TRUE(choice->is_proven()) << trial;
    EXPECT_LE(choice->use[0], limits[0]);
    EXPECT_LE(choice->use[1], limits[1]);
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 10);
}

TEST(BoundedChoice, BoundsWhatItDidNotLookAt) {
  std::mt19937_64 random(11);
  int unproven = 0;
  for (int trial = 0; trial < 100; ++trial) {
    const BoundedItems items = random_bounded_items(random, 7, 3);
    const std::array<double, 2> limits{5000, 5000};
    const double least = least_within(items, limits);
    const auto choice = choose_within(items, limits, 2);
    if (!choice) continue;
    EXPECT_LE(choice->bound, least + 1e-12) << trial;
    EXPECT_GE(choice->cost, least - 1e-12) << trial;
    unproven += choice->is_proven() ? 0 : 1;
  }
  EXPECT_GT(unproven, 0);
}

// As many items as a model has, of few kinds, as layers repeat them.
TEST(BoundedChoice, IsProvenForAModelOfManyLayers) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> unit(0, 1);
  BoundedItems items;
  for (int i = 0; i < 120; ++i) {
    const double size = 100.0 * (1 + i % 4), loss = 0.002 * (0.2 + unit(random));
    items.push_back({{loss, {4.5 * size, 1.3 * size}},
                     {loss / 3, {5.5 * size, 1.9 * size}},
                     {loss / 40, {8 * size, 1.1 * size}},
                     {loss / 100, {16 * size, 2 * size}}});
  }
  const auto choice = choose_within(items, {30000 * 6.5, 30000 * 1.35});
  ASSERT_TRUE(choice);
  EXPECT_GE(choice->bound, 0.99 * choice->cost);
}

TEST(BoundedChoice, RefusesItemsThatAreNone) {
  EXPECT_THROW(choose_within(BoundedItems{{}}, {1, 1}), std::logic_error);
  EXPECT_THROW(choose_within(BoundedItems{{{NAN, {0, 0}}}}, {1, 1}), std::logic_error);
  const auto nothing = choose_within(BoundedItems{}, {0, 0});
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->cost, 0);
}

}  // namespace
}  // namespace assay::statistics
