// The multiple-choice knapsack against every choice there is.
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

#include "assay/base/random.h"
#include "assay/statistics/knapsack.h"

namespace assay::statistics {
namespace {

using Items = std::vector<std::vector<KnapsackOption>>;

Items random_items(Random& random, std::size_t items, std::int64_t most_bytes) {
  Items all(items);
  for (auto& options : all) {
    const std::size_t count = 1 + random.next() % 4;
    for (std::size_t i = 0; i < count; ++i)
      options.push_back({static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(most_bytes)),
                         static_cast<double>(random.next() % 1000) / 256.0 - 0.25});  // sums are exact
  }
  return all;
}

KnapsackPoint sum_of(const Items& items, const std::vector<std::size_t>& choice) {
  KnapsackPoint sum;
  for (std::size_t i = 0; i < items.size(); ++i) {
    sum.bytes += items[i][choice[i]].bytes;
    sum.loss += items[i][choice[i]].loss;
  }
  return sum;
}

std::vector<KnapsackPoint> all_sums(const Items& items) {
  std::vector<KnapsackPoint> all;
  std::vector<std::size_t> choice(items.size(), 0);
  for (;;) {
    all.push_back(sum_of(items, choice));
    std::size_t at = 0;
    while (at < items.size() && ++choice[at] == items[at].size()) choice[at++] = 0;
    if (at == items.size()) return all;
  }
}

TEST(Knapsack, FindsWhatTryingEverythingFinds) {
  Random random(7);
  for (int instance = 0; instance < 300; ++instance) {
    const Items items = random_items(random, 1 + instance % 7, instance % 2 == 0 ? 6 : 1000);
    const KnapsackFront front(items);
    EXPECT_EQ(front.slack(), 0);
    const std::vector<KnapsackPoint> all = all_sums(items);
    for (std::size_t p = 0; p < front.points().size(); ++p) {
      const KnapsackPoint sum = sum_of(items, front.choice_of(p));
      EXPECT_EQ(sum.bytes, front.points()[p].bytes);
      EXPECT_EQ(sum.loss, front.points()[p].loss);
    }
    for (int i = 0; i < 20; ++i) {
      const KnapsackPoint& limit = all[random.next() % all.size()];
      double least_loss = std::numeric_limits<double>::infinity();
      std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
      for (const KnapsackPoint& sum : all) {
        if (sum.bytes <= limit.bytes) least_loss = std::min(least_loss, sum.loss);
        if (sum.loss <= limit.loss) fewest = std::min(fewest, sum.bytes);
      }
      const auto by_bytes = front.within_bytes(limit.bytes), by_loss = front.within_loss(limit.loss);
      ASSERT_TRUE(by_bytes && by_loss);
      EXPECT_EQ(front.points()[*by_bytes].loss, least_loss);
      EXPECT_EQ(front.points()[*by_loss].bytes, fewest);
    }
  }
}

TEST(Knapsack, SaysWhereNothingIsWithinALimit) {
  const Items items{{{10, 1.0}, {20, 0.5}}, {{5, 3.0}, {6, 4.0}}};
  const KnapsackFront front(items);
  ASSERT_EQ(front.points().size(), 2U);
  EXPECT_EQ(front.points().front().bytes, 15);
  EXPECT_FALSE(front.within_bytes(14));
  EXPECT_TRUE(front.within_bytes(15));
  EXPECT_FALSE(front.within_loss(3.4));
  EXPECT_TRUE(front.within_loss(3.5));
}

// Beyond its number of points a front keeps to the limit, and misses at most its slack.
TEST(Knapsack, KeepsToItsLimitAndSlackWhereItIsThinned) {
  Random random(11);
  for (int instance = 0; instance < 40; ++instance) {
    const Items items = random_items(random, 7, 100000);
    const KnapsackFront thinned(items, 24), exact(items);
    EXPECT_LE(thinned.points().size(), 24U);
    EXPECT_EQ(thinned.points().front().bytes, exact.points().front().bytes);
    for (const KnapsackPoint& limit : exact.points()) {
      const auto found = thinned.within_bytes(limit.bytes);
      ASSERT_TRUE(found);
      EXPECT_LE(thinned.points()[*found].bytes, limit.bytes);
      EXPECT_EQ(sum_of(items, thinned.choice_of(*found)).bytes, thinned.points()[*found].bytes);
      const auto tighter = exact.within_bytes(limit.bytes - thinned.slack());
      if (tighter) {
        EXPECT_LE(thinned.points()[*found].loss, exact.points()[*tighter].loss);
      }
    }
  }
}

// Layers of equal matrices, as a model of 32 of them has: the front stays exact.
TEST(Knapsack, IsExactForAModelOfManyLayers) {
  Random random(3);
  Items items;
  constexpr std::int64_t kMatrices[] = {4096 * 6144, 4096 * 4096, 4096 * 28672, 14336 * 4096};
  for (int layer = 0; layer < 32; ++layer)
    for (const std::int64_t elements : kMatrices) {
      const double scale = static_cast<double>(1 + random.next() % 1000);
      items.push_back(
          {{elements * 9 / 16, 40 * scale}, {elements + 4096, 2 * scale}, {2 * elements, scale / 8}});
    }
  const KnapsackFront front(items);
  EXPECT_EQ(front.slack(), 0);
  const auto middle = front.within_bytes((front.points().front().bytes + front.points().back().bytes) / 2);
  ASSERT_TRUE(middle);
  EXPECT_EQ(sum_of(items, front.choice_of(*middle)).bytes, front.points()[*middle].bytes);
}

TEST(Knapsack, RefusesWhatIsNoKnapsack) {
  EXPECT_THROW(KnapsackFront(Items{{}}), std::logic_error);
  EXPECT_THROW(KnapsackFront(Items{{{-1, 0.0}}}), std::logic_error);
  EXPECT_THROW(KnapsackFront(Items{{{1, std::numeric_limits<double>::quiet_NaN()}}}), std::logic_error);
}

}  // namespace
}  // namespace assay::statistics
