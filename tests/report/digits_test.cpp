// How many digits a figure is shown with, at the ends of the rule.
#include "assay/report/digits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace assay::report {
namespace {

using statistics::Interval;

std::string with_ends(double value, double low, double high) {
  return with_interval(value, Interval{low, high, 0.95});
}

TEST(Digits, AreThoseOfTheHalfWidth) {
  EXPECT_EQ(with_ends(3.5612, 3.4099, 3.7201), "3.56 [3.41, 3.72]");    // half 0.155
  EXPECT_EQ(with_ends(2.3, 2.22, 2.39), "2.30 [2.22, 2.39]");           // half 0.085
  EXPECT_EQ(with_ends(11938.2, 11642, 12242), "11940 [11640, 12240]");  // half 300: to tens
  EXPECT_EQ(with_ends(21.81, 21.3, 22.3), "21.8 [21.3, 22.3]");         // half 0.5
  EXPECT_EQ(with_ends(0.00057912, 0.0005, 0.00065), "0.00058 [0.00050, 0.00065]");
  EXPECT_EQ(with_ends(1.0053, 1.0018, 1.0088), "1.0053 [1.0018, 1.0088]");
  // Half-widths at 0.1 and at 0.355.
  EXPECT_EQ(with_ends(5, 4.65, 5.35), "5.00 [4.65, 5.35]");
  EXPECT_EQ(with_ends(5, 4.64, 5.36), "5.0 [4.6, 5.4]");
  EXPECT_EQ(with_ends(5, 4.9, 5.1), "5.00 [4.90, 5.10]");
  EXPECT_EQ(with_ends(5, 4.901, 5.099), "5.00 [4.90, 5.10]");
}

TEST(Digits, OfLargeNumbersStandWithoutAnExponent) {
  EXPECT_EQ(plain_number(0.25), "0.25");
  EXPECT_EQ(plain_number(9999.4), "9999");
  EXPECT_EQ(plain_number(9999.6), "10000");
  EXPECT_EQ(plain_number(12345.6), "12346");
  EXPECT_EQ(plain_number(-12345.6), "-12346");
}

TEST(Digits, AreNeverFewerThanTwoOfTheValue) {
  EXPECT_EQ(with_ends(0.123, -900, 900), "0.12 [-900.00, 900.00]");
  EXPECT_EQ(with_ends(5.04, 1, 90), "5.0 [1.0, 90.0]");
  EXPECT_EQ(with_ends(123456, 0, 9e6), "120000 [0, 9000000]");
}

TEST(Digits, OfNegativeValuesAndNothing) {
  EXPECT_EQ(with_ends(-0.0213, -0.048, 0.0054), "-0.021 [-0.048, 0.005]");
  EXPECT_EQ(with_ends(0, -0.0123, 0.0123), "0.000 [-0.012, 0.012]");
  EXPECT_EQ(rounded(-0.0004, {2}), "0.00") << "what rounds to nothing has no sign";
  EXPECT_EQ(rounded(-4, {-1}), "0");
  EXPECT_EQ(rounded(-14, {-1}), "-10");
}

TEST(Digits, WithoutAWidthAreThoseAskedFor) {
  EXPECT_EQ(with_interval(1.23456, std::nullopt), "1.23");
  EXPECT_EQ(with_interval(1.23456, std::nullopt, 4), "1.235");
  EXPECT_EQ(with_interval(2, std::nullopt), "2") << "no zeros that nothing supports";
  EXPECT_EQ(with_interval(12345, std::nullopt), "12300");
  EXPECT_EQ(with_ends(2.5, 2.5, 2.5), "2.5 [2.5, 2.5]") << "no width";
  EXPECT_EQ(with_ends(2.5, 3, 2), "2.5 [3, 2]") << "turned round";
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(with_ends(2.5, 2, infinite), "2.5 [2, inf]");
  EXPECT_EQ(with_ends(2.5, std::nan(""), 3), "2.5 [-, 3]");
  EXPECT_EQ(with_ends(std::nan(""), 2, 3), "- [2.00, 3.00]");
  EXPECT_EQ(rounded(infinite, {2}), "inf");
  EXPECT_EQ(rounded(-infinite, {-3}), "-inf");
  EXPECT_EQ(with_ends(1.5, 1.5 - 4e-16, 1.5 + 4e-16), "1.5 [1.5, 1.5]") << "rounding is no width";
  EXPECT_EQ(supported_decimals(1, Interval{1 - 1e-30, 1 + 1e-30, 0.95}, {3}).count, 3);
  EXPECT_EQ(supported_decimals(0, Interval{-1e-30, 1e-30, 0.95}, {3}).count, 12) << "beyond what is measured";
}

TEST(Digits, OfMetricsWhoseValuesVary) {
  const Metric &latency = metric("total_latency_s"), &perplexity = metric("perplexity"),
               &weights = metric("resident_weights_bytes"), &ratio = metric("perplexity_ratio");
  const Value timed{0.0125, Interval{0.0121, 0.0129, 0.95}, {0.0125, 0.0126}};
  EXPECT_EQ(decimals_of(latency, timed, {7}).count, 1) << "milliseconds: 12.5 with a half-width of 0.4";
  EXPECT_EQ(decimals_of(latency, Value{0.0125, {}, {0.0125}}, {7}).count, 7);
  EXPECT_EQ(decimals_of(perplexity, Value{20, Interval{10, 30, 0.95}, {19, 21}}, {3}).count, 3)
      << "every run gives the same";
  EXPECT_EQ(decimals_of(weights, Value{1e6, {}, {}}, {1}).count, 1);
  EXPECT_EQ(decimals_of(ratio, Value{1.0053, Interval{1.001, 1.009, 0.95}, {}}, {1}).count, 3);
}

TEST(Digits, OfAnIntervalInPercent) {
  EXPECT_EQ(relative_interval(64, Interval{60, 68, 0.95}), "\u00b16.2%");
  EXPECT_EQ(relative_interval(64, Interval{48, 80, 0.95}), "\u00b125%");
  EXPECT_EQ(relative_interval(64, Interval{63.5, 66, 0.95}), "-0.8%/+3.1%");
  EXPECT_EQ(relative_interval(1, Interval{0.99955, 1.00055, 0.95}), "\u00b10.05%");
  EXPECT_EQ(relative_interval(0, Interval{0, 1, 0.95}), "");
  EXPECT_EQ(relative_interval(-1, Interval{-2, 0, 0.95}), "");
  EXPECT_EQ(relative_interval(1, std::nullopt), "");
  EXPECT_EQ(relative_interval(1, Interval{0, std::numeric_limits<double>::infinity(), 0.95}), "");
}

}  // namespace
}  // namespace assay::report
