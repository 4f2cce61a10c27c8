// Ranges and codes of ONNX Runtime's calibrators on the same values (tools/make_calibration_fixtures.py), and
// observers whose memory is bounded.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/error.h"
#include "assay/base/random.h"
#include "assay/quant/calibration.h"
#include "support/fixtures.h"

namespace assay {
namespace {

const SafetensorsFile& calibration_fixtures() {
  static const SafetensorsFile file(test::fixture("calibration.safetensors"));
  return file;
}

struct Method {
  const char* name;
  ObserverOptions options;
};
void PrintTo(const Method& method, std::ostream* out) {
  *out << method.name;
}
const Method kMethods[] = {
    {"minmax", {.calibrator = Calibrator::minmax}},
    {"minmax.symmetric", {.calibrator = Calibrator::minmax, .is_symmetric = true}},
    {"percentile", {.calibrator = Calibrator::percentile}},
    {"percentile.symmetric", {.calibrator = Calibrator::percentile, .is_symmetric = true}},
    {"percentile99", {.calibrator = Calibrator::percentile, .percentile = 99}},
    {"percentile99.symmetric",
     {.calibrator = Calibrator::percentile, .is_symmetric = true, .percentile = 99}},
    {"entropy", {.calibrator = Calibrator::entropy}}};

class CalibratorTest : public testing::TestWithParam<Method> {};

TEST_P(CalibratorTest, RangesAndCodesAreThoseOfOnnxRuntime) {
  const auto& [name, options] = GetParam();
  for (const char* distribution :
       {"normal", "one_sided", "outliers", "growing", "zeros_first", "positive", "constant", "zeros"}) {
    SCOPED_TRACE(distribution);
    const std::string batches = std::string(distribution) + ".batches";
    const auto values = test::read_floats(calibration_fixtures(), batches);
    const auto size = static_cast<std::size_t>(calibration_fixtures().find(batches)->shape[1]);
    RangeObserver observer(options);
    for (std::size_t first = 0; first < values.size(); first += size)
      observer.observe(std::span(values).subspan(first, size));
    const auto want = test::read_floats(calibration_fixtures(), std::string(distribution) + "." + name);
    const Range range = observer.range();
    EXPECT_EQ(range.low, want[0]);
    EXPECT_EQ(range.high, want[1]);
    const UniformCode code = options.is_symmetric ? symmetric_int8_code(range) : uint8_code(range);
    EXPECT_EQ(code.scale, want[2]);
    EXPECT_EQ(static_cast<float>(code.zero_point), want[3]);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, CalibratorTest, testing::ValuesIn(kMethods), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
});

// As DynamicQuantizeLinear computes them (tools/make_dynamic_int8_fixtures.py), not as a calibrator does.
TEST(DynamicCode, IsThatOfOnnxRuntime) {
  const SafetensorsFile file(test::fixture("dynamic_int8.safetensors"));
  for (const std::string name :
       {"normal", "outliers", "positive", "negative", "one_sided", "whole", "tiny", "zeros"}) {
    Range range;
    for (const float x : test::read_floats(file, name + ".x"))
      range = {std::min(range.low, x), std::max(range.high, x)};
    const UniformCode code = dynamic_uint8_code(range);
    const auto want = test::read_floats(file, name + ".code");
    EXPECT_EQ(code.scale, want[0]) << name;
    EXPECT_EQ(static_cast<float>(code.zero_point), want[1]) << name;
  }
}

std::vector<float> normal_values(std::size_t count, float scale, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& v : values) {  // Box and Muller
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    v = scale * static_cast<float>(radius * std::cos(2 * M_PI * random.uniform()));
  }
  return values;
}

// Each batch a hundred times the one before: bins of the first one's width would be 2e10.
TEST(RangeObserver, MemoryStaysBoundedWhereValuesGrow) {
  for (const bool is_symmetric : {false, true})
    for (const Calibrator calibrator : {Calibrator::percentile, Calibrator::entropy}) {
      RangeObserver observer({.calibrator = calibrator, .is_symmetric = is_symmetric});
      float largest = 0;
      for (int batch = 0; batch < 6; ++batch) {
        const auto values = normal_values(2000, std::pow(100.0F, static_cast<float>(batch)), 7);
        for (const float x : values) largest = std::max(largest, std::fabs(x));
        observer.observe(values);
        EXPECT_LE(observer.bins(), 16 * 2048);
      }
      const Range range = observer.range();
      const float reach = std::max(-range.low, range.high);
      EXPECT_LE(reach, largest);
      EXPECT_GT(reach, (calibrator == Calibrator::entropy ? 0.2F : 0.8F) * largest);
    }
}

// Joined bins count what unjoined ones would.
TEST(RangeObserver, JoinedBinsKeepTheDistribution) {
  const auto small = normal_values(100000, 1, 3), large = normal_values(100000, 60, 4);
  for (const bool is_symmetric : {false, true}) {
    RangeObserver growing(
        {.calibrator = Calibrator::percentile, .is_symmetric = is_symmetric, .percentile = 80}),
        wide({.calibrator = Calibrator::percentile, .is_symmetric = is_symmetric, .percentile = 80});
    growing.observe(small);
    growing.observe(large);
    wide.observe(large);
    wide.observe(small);
    EXPECT_NEAR(growing.range().high, wide.range().high, 0.3F);
    EXPECT_NEAR(growing.range().low, wide.range().low, 0.3F);
  }
}

// Where the bins do not come in pairs, empty ones join them: 6 of [-3, 3] become 8 of [-4, 4], of which 100
// is 24 bins of width 4 away; 5 of [0, 5] become 6 of [0, 6], joined to 3 of width 2.
TEST(RangeObserver, BinsThatAreNoPairsAreJoinedWithEmptyOnes) {
  const std::vector<float> far{-100, 100};
  RangeObserver two_sided({.bins = 6, .percentile = 20});
  two_sided.observe(std::vector<float>{-3, -1, -1, -1, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 3});
  two_sided.observe(far);
  EXPECT_EQ(two_sided.bins(), 52);
  EXPECT_EQ(two_sided.range().low, -4);
  EXPECT_EQ(two_sided.range().high, 0);
  RangeObserver magnitudes({.is_symmetric = true, .bins = 5, .percentile = 50});
  magnitudes.observe(std::vector<float>{0, -1, 3, -4.5F, 5, 5, 5, -5});
  magnitudes.observe(far);
  EXPECT_EQ(magnitudes.bins(), 50);
  EXPECT_EQ(magnitudes.range().low, -4);
  EXPECT_EQ(magnitudes.range().high, 4);
}

TEST(RangeObserver, ClippedShareIsWhatLiesOutside) {
  const auto values = normal_values(50000, 1, 5);
  for (const bool is_symmetric : {false, true})
    for (const double percentile : {99.999, 99.0, 90.0}) {
      RangeObserver observer(
          {.calibrator = Calibrator::percentile, .is_symmetric = is_symmetric, .percentile = percentile});
      observer.observe(values);
      const Range range = observer.range();
      const double reach = static_cast<double>(std::max(-range.low, range.high));
      double outside = 0;
      for (const float x : values)
        outside += is_symmetric ? static_cast<double>(std::fabs(x)) > reach : x < range.low || x > range.high;
      EXPECT_NEAR(observer.clipped_share(), outside / 50000, 2e-5) << percentile;
      EXPECT_NEAR(observer.clipped_share(), 1 - percentile / 100, 2e-3);
    }
  RangeObserver everything({.calibrator = Calibrator::minmax});
  everything.observe(values);
  EXPECT_EQ(everything.clipped_share(), 0);
}

TEST(RangeObserver, NothingSeenIsNoRange) {
  for (const Calibrator calibrator : {Calibrator::minmax, Calibrator::percentile, Calibrator::entropy}) {
    RangeObserver observer({.calibrator = calibrator});
    observer.observe({});
    EXPECT_EQ(observer.range().low, 0);
    EXPECT_EQ(observer.range().high, 0);
    EXPECT_EQ(observer.clipped_share(), 0);
  }
}

// Zero has a code of its own, wherever the range lies.
TEST(UniformCodes, ARangeOfOneSignReachesToZero) {
  const UniformCode below = uint8_code({-4, -2}), above = uint8_code({2, 4});
  EXPECT_EQ(below.scale, static_cast<float>(4.0 / 255));
  EXPECT_EQ(below.zero_point, 255);
  EXPECT_EQ(above.scale, below.scale);
  EXPECT_EQ(above.zero_point, 0);
}

TEST(SmoothQuant, FactorsAreThoseOfThePaper) {
  const std::vector<float> inputs{16, 4, 0, 1, 1e-8F}, weights{1, 4, 1, 0, 1e8F};
  EXPECT_EQ(smoothing_factors(inputs, weights, 0.5), (std::vector<float>{4, 1, 1, 1, 1e-5F}));
  EXPECT_EQ(smoothing_factors(inputs, weights, 1)[0], 16);
  EXPECT_EQ(smoothing_factors(inputs, weights, 0)[1], 0.25F);
}

TEST(Calibrators, NamesAreReadInAnyCase) {
  EXPECT_EQ(calibrator_from_name("MinMax"), Calibrator::minmax);
  EXPECT_EQ(calibrator_from_name("entropy"), Calibrator::entropy);
  EXPECT_THROW(calibrator_from_name("mse"), UsageError);
}

}  // namespace
}  // namespace assay
