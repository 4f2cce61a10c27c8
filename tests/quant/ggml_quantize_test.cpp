// Blocks of GGUF made of numbers: ggml's bytes where its rounding is simple, and errors no larger than ggml's
// where both search (tools/make_ggml_fixtures.py).
#include "assay/quant/ggml_quantize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/fixtures.h"

namespace assay {
namespace {

class QuantizedToGgml : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::int64_t kColumns = 512;
  const SafetensorsFile file_{test::fixture("ggml_quantized.safetensors")};
  const std::vector<float> numbers_ = test::read_floats(file_, "numbers");
  const ggml::BlockType& type_ = *ggml::block_type_named(GetParam());

  std::vector<std::byte> blocks(std::span<const float> importance) const {
    std::vector<std::byte> made(numbers_.size() / static_cast<std::size_t>(type_.elements) *
                                static_cast<std::size_t>(type_.bytes));
    ggml::quantize(type_, kColumns, numbers_, importance, made.data());
    return made;
  }
  double mean_square(std::size_t row) const {
    double sum = 0;
    for (std::size_t i = row * kColumns; i < (row + 1) * kColumns; ++i)
      sum += static_cast<double>(numbers_[i]) * static_cast<double>(numbers_[i]);
    return sum / kColumns;
  }
  // What ggml makes of an importance matrix: of Q6_K nothing else.
  double weight(std::size_t i, std::span<const float> importance) const {
    if (importance.empty()) return 1;
    const double own = importance[i % kColumns], x = numbers_[i];
    if (type_.name == "Q6_K") return own;
    double variance = mean_square(i / kColumns);
    if (type_.elements > 32 || type_.name == "IQ4_NL") {
      const auto block = static_cast<std::size_t>(type_.elements);
      const double times = type_.name == "Q2_K" ? 1 : 2;
      variance = 0;
      for (std::size_t k = i / block * block; k < i / block * block + block; ++k)
        variance += times / static_cast<double>(block) * static_cast<double>(numbers_[k]) *
                    static_cast<double>(numbers_[k]);
    }
    return own * std::sqrt(variance + x * x);
  }
  std::vector<double> weighted_squares(std::span<const float> importance) const {
    std::vector<double> rows(numbers_.size() / kColumns);
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      rows[i / kColumns] += weight(i, importance) * std::pow(static_cast<double>(numbers_[i]), 2) / kColumns;
    return rows;
  }
  // The mean of each row's squared errors, each times its weight.
  std::vector<double> errors(std::span<const float> importance) const {
    std::vector<float> restored(numbers_.size());
    ggml::dequantize(type_, blocks(importance), restored.data());
    std::vector<double> rows(numbers_.size() / kColumns);
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const double off = static_cast<double>(numbers_[i]) - static_cast<double>(restored[i]);
      rows[i / kColumns] += weight(i, importance) * off * off / kColumns;
    }
    return rows;
  }
};

class GgmlBytes : public QuantizedToGgml {};
TEST_P(GgmlBytes, AreThoseOfGgml) {
  const StoredTensor& stored = *file_.find(GetParam());
  std::vector<std::byte> wanted(static_cast<std::size_t>(stored.elements()));
  file_.read(stored, 0, stored.elements(), wanted);
  EXPECT_TRUE(blocks({}) == wanted);
}
INSTANTIATE_TEST_SUITE_P(OfFixture, GgmlBytes, testing::Values("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"));

class GgmlSearch : public QuantizedToGgml {
 protected:
  // Row by row, and over rows of the usual distributions.
  void compare(std::span<const float> importance, const std::string& figures, double most) const {
    // The relative error that rounding a factor to float16 leaves, squared: all there is in rows of one
    // number.
    constexpr double kAllowed = 1.02, kFloat16Error = 0x1p-22;
    constexpr std::size_t kUsual = 6;
    const std::vector<double> ours = errors(importance);
    const std::vector<float> theirs = test::read_floats(file_, figures);
    ASSERT_EQ(ours.size(), theirs.size());
    double sum = 0;
    const std::vector<double> squares = weighted_squares(importance);
    for (std::size_t row = 0; row < ours.size(); ++row) {
      const auto wanted = static_cast<double>(theirs[row]);
      EXPECT_LE(ours[row], kAllowed * wanted + kFloat16Error * squares[row]) << row;
      if (row < kUsual) sum += ours[row] / wanted / kUsual;
    }
    EXPECT_LE(sum, most);
  }
};
TEST_P(GgmlSearch, IsNoWorseThanGgmls) {
  compare({}, GetParam(), 0.97);
}
INSTANTIATE_TEST_SUITE_P(OfFixture, GgmlSearch,
                         testing::Values("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"));

class GgmlImportance : public GgmlSearch {};
TEST_P(GgmlImportance, MakesErrorsNoLargerThanGgmls) {
  const std::vector<float> importance = test::read_floats(file_, "importance");
  compare(importance, std::string(GetParam()) + ".importance", 1.0);
  EXPECT_FALSE(blocks(importance) == blocks({}));
  // What all columns have alike is no difference.
  std::vector<float> scaled = importance;
  for (float& each : scaled) each *= 1024;
  EXPECT_TRUE(blocks(scaled) == blocks(importance));
}
// Blocks whose inputs were always zero are written as if all mattered.
TEST_P(GgmlImportance, OfNothingIsThatOfAll) {
  const std::vector<double> errors_of_nothing = [&] {
    std::vector<float> restored(numbers_.size());
    ggml::dequantize(type_, blocks(std::vector<float>(kColumns)), restored.data());
    std::vector<double> rows(numbers_.size() / kColumns);
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      rows[i / kColumns] +=
          std::pow(static_cast<double>(numbers_[i]) - static_cast<double>(restored[i]), 2) / kColumns;
    return rows;
  }();
  const std::vector<double> plain = errors({});
  for (std::size_t row = 0; row < plain.size(); ++row)
    EXPECT_LE(errors_of_nothing[row], 1.02 * plain[row] + 0x1p-22 * mean_square(row)) << row;
}
INSTANTIATE_TEST_SUITE_P(OfFixture, GgmlImportance,
                         testing::Values("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "Q4_0", "Q4_1",
                                         "Q5_0", "Q5_1"));

TEST(GgmlQuantize, ImportanceLeavesQ8Alone) {
  std::vector<float> numbers(64), importance(64);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i % 7) - 2.5F;
    importance[i] = static_cast<float>(i);
  }
  const ggml::BlockType& type = *ggml::block_type_named("Q8_0");
  std::vector<std::byte> with(68), without(68);
  ggml::quantize(type, 64, numbers, importance, with.data());
  ggml::quantize(type, 64, numbers, {}, without.data());
  EXPECT_TRUE(with == without);
}

TEST(GgmlQuantize, KnowsTypesByName) {
  EXPECT_EQ(ggml::block_type_named("q4_k"), ggml::block_type(12));
  EXPECT_EQ(ggml::block_type_named("Q4_K_M"), nullptr);
  EXPECT_TRUE(ggml::can_quantize(*ggml::block_type_named("BF16")));
  EXPECT_FALSE(ggml::can_quantize(*ggml::block_type_named("IQ4_XS")));
}

TEST(GgmlQuantize, FallsBackAsLlamaCppDoes) {
  const auto name = [](const char* type, std::int64_t columns) {
    return ggml::fitting_type(*ggml::block_type_named(type), columns).name;
  };
  EXPECT_EQ(name("Q4_K", 512), "Q4_K");
  EXPECT_EQ(name("Q2_K", 96), "Q4_0");
  EXPECT_EQ(name("Q3_K", 96), "Q4_0");
  EXPECT_EQ(name("Q4_K", 96), "Q5_0");
  EXPECT_EQ(name("Q5_K", 96), "Q5_1");
  EXPECT_EQ(name("Q6_K", 96), "Q8_0");
  EXPECT_EQ(name("Q6_K", 48), "F16");
  EXPECT_EQ(name("Q8_0", 48), "F16");
  EXPECT_EQ(name("Q8_0", 64), "Q8_0");
}

TEST(GgmlQuantize, ExtremeNumbersStayFinite) {
  std::vector<float> numbers(256);
  for (const float large : {ggml::kLargestQuantized, 1e-44F, 0.0F}) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i % 3 == 0 ? -large : large;
    for (const std::string& name : ggml::quantized_types()) {
      const ggml::BlockType& type = *ggml::block_type_named(name);
      std::vector<std::byte> blocks(static_cast<std::size_t>(256 / type.elements * type.bytes));
      std::vector<float> restored(256);
      ggml::quantize(type, 256, numbers, {}, blocks.data());
      ggml::dequantize(type, blocks, restored.data());
      for (std::size_t i = 0; i < numbers.size(); ++i)
        ASSERT_NEAR(restored[i], numbers[i], 0.13 * static_cast<double>(large) + 1e-7)
            << name << ' ' << large;
    }
  }
}

}  // namespace
}  // namespace assay
