// Blocks of GGUF made of numbers: ggml's bytes where its rounding is simple, and errors no larger than ggml's
// where both search (tools/make_ggml_fixtures.py).
#include "assay/quant/ggml_quantize.h"

#include <gtest/gtest.h>

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
  // The mean of each row's squared errors, each times its weight.
  std::vector<double> errors(std::span<const float> importance) const {
    std::vector<float> restored(numbers_.size());
    ggml::dequantize(type_, blocks(importance), restored.data());
    std::vector<double> rows(numbers_.size() / kColumns);
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const double off = static_cast<double>(numbers_[i]) - static_cast<double>(restored[i]),
                   weight = importance.empty() ? 1.0 : static_cast<double>(importance[i % kColumns]);
      rows[i / kColumns] += weight * off * off / kColumns;
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
  // Row by row, and clearly better over rows of the usual distributions.
  void compare(std::span<const float> importance, const std::string& figures) const {
    // The relative error that rounding a factor to float16 leaves, squared: all there is in rows of one
    // number.
    constexpr double kAllowed = 1.02, kFloat16Error = 0x1p-22;
    constexpr std::size_t kUsual = 6;
    const std::vector<double> ours = errors(importance);
    const std::vector<float> theirs = test::read_floats(file_, figures);
    ASSERT_EQ(ours.size(), theirs.size());
    double sum = 0;
    for (std::size_t row = 0; row < ours.size(); ++row) {
      const auto wanted = static_cast<double>(theirs[row]);
      EXPECT_LE(ours[row], kAllowed * wanted + kFloat16Error * mean_square(row)) << row;
      if (row < kUsual) sum += ours[row] / wanted / kUsual;
    }
    EXPECT_LE(sum, 0.97);
  }
};
TEST_P(GgmlSearch, IsNoWorseThanGgmls) {
  compare({}, GetParam());
}
TEST_P(GgmlSearch, IsNoWorseUnderImportance) {
  compare(test::read_floats(file_, "importance"), std::string(GetParam()) + ".importance");
}
INSTANTIATE_TEST_SUITE_P(OfFixture, GgmlSearch, testing::Values("Q4_K", "Q5_K", "Q6_K"));

TEST(GgmlQuantize, KnowsTypesByName) {
  EXPECT_EQ(ggml::block_type_named("q4_k"), ggml::block_type(12));
  EXPECT_EQ(ggml::block_type_named("Q4_K_M"), nullptr);
  EXPECT_TRUE(ggml::can_quantize(*ggml::block_type_named("BF16")));
  EXPECT_FALSE(ggml::can_quantize(*ggml::block_type_named("Q2_K")));
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
