// The Pareto frontier, by hand: with exact figures, and with intervals.
#include "assay/results/frontier.h"

#include <gtest/gtest.h>

#include <cmath>

namespace assay {
namespace {

FrontierPoint exact(double x, double y) {
  return {{x, x, x}, {y, y, y}};
}
FrontierPoint around(double x, double y, double half) {
  return {{x, x - half, x + half}, {y, y - half, y + half}};
}
using Places = std::vector<OnFrontier>;
constexpr OnFrontier kYes = OnFrontier::certain, kPerhaps = OnFrontier::perhaps, kNo = OnFrontier::no;

TEST(Frontier, OfExactFigures) {
  const FrontierPoint points[] = {exact(1, 4), exact(2, 2), exact(4, 1), exact(3, 3), exact(2, 3)};
  EXPECT_EQ(frontier_of(points), (Places{kYes, kYes, kYes, kNo, kNo}));
  EXPECT_TRUE(frontier_of({}).empty());
  EXPECT_EQ(frontier_of(std::vector{exact(1, 1)}), Places{kYes});
}

TEST(Frontier, EqualPointsDoNotBeatEachOther) {
  EXPECT_EQ(frontier_of(std::vector{exact(1, 1), exact(1, 1)}), (Places{kYes, kYes}));
  EXPECT_EQ(frontier_of(std::vector{exact(1, 1), exact(1, 2)}), (Places{kYes, kNo}));
}

TEST(Frontier, IntervalsThatOverlapLeaveItOpen) {
  EXPECT_EQ(frontier_of(std::vector{around(1, 1, 0.1), around(2, 2, 0.1)}), (Places{kYes, kNo}));
  // Either may be the better one in both figures.
  EXPECT_EQ(frontier_of(std::vector{around(1, 1, 0.5), around(1.2, 1.2, 0.5)}), (Places{kPerhaps, kPerhaps}));
  // The first is smaller for certain, and nothing that is larger can beat it.
  const FrontierPoint small{{1, 1, 1}, {1, 0.5, 1.5}}, large{{2, 2, 2}, {1.2, 0.9, 1.4}};
  EXPECT_EQ(frontier_of(std::vector{small, large}), (Places{kYes, kPerhaps}));
}

TEST(Frontier, IntervalsThatTouchCount) {
  // At the ends that meet, the first is as good in one figure and better in the other.
  const FrontierPoint better{{1, 1, 1}, {1, 0.5, 1.5}}, worse{{2, 2, 2}, {2, 1.5, 2.5}};
  EXPECT_EQ(frontier_of(std::vector{better, worse}), (Places{kYes, kNo}));
}

TEST(Frontier, WhatIsNoNumberIsNotOnItAndBeatsNothing) {
  EXPECT_EQ(frontier_of(std::vector{exact(NAN, 0), exact(1, 1)}), (Places{kNo, kYes}));
  EXPECT_EQ(frontier_of(std::vector{exact(0, NAN), exact(1, 1), exact(INFINITY, 0)}),
            (Places{kNo, kYes, kYes}));
}

TEST(Frontier, AValueHasTheEndsOfItsInterval) {
  const Bounded exact_one = bounded_of(Value{2, {}, {}}, 10);
  EXPECT_EQ(exact_one.value, 20);
  EXPECT_EQ(exact_one.low, 20);
  EXPECT_EQ(exact_one.high, 20);
  const Bounded sampled = bounded_of(Value{2, statistics::Interval{1, 3, 0.95}, {}});
  EXPECT_EQ(sampled.low, 1);
  EXPECT_EQ(sampled.high, 3);
}

}  // namespace
}  // namespace assay
