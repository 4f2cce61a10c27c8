// Codes, scales and values of bitsandbytes on a CPU (tools/make_quant_fixtures.py), and logits of its models.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/model/model.h"
#include "assay/quant/four_bit.h"
#include "assay/quant/int8.h"
#include "assay/session/load_parts.h"
#include "assay/tensor/half.h"
#include "support/fixtures.h"

namespace assay {
namespace {

const SafetensorsFile& format_fixtures() {
  static const SafetensorsFile file(test::fixture("quant.safetensors"));
  return file;
}
std::vector<float> floats(const std::string& name) {
  return test::read_floats(format_fixtures(), name);
}
template <typename T>
std::vector<T> bytes(const std::string& name) {
  const StoredTensor& tensor = *format_fixtures().find(name);
  std::vector<T> out(static_cast<std::size_t>(tensor.elements()));
  format_fixtures().read(tensor, 0, tensor.elements(), std::as_writable_bytes(std::span(out)));
  return out;
}

class FourBitTest : public testing::TestWithParam<FourBit> {
 protected:
  const FourBit type = GetParam();
  const std::string name = type == FourBit::nf4 ? "nf4" : "fp4";
};

TEST_P(FourBitTest, CodesScalesAndValuesAreThoseOfBitsandbytes) {
  const auto x = floats("x");
  std::vector<std::uint8_t> codes(x.size());
  std::vector<float> absmax((x.size() + 63) / 64);
  quantize_four_bit(type, x, kFourBitBlock, codes.data(), absmax.data());
  EXPECT_EQ(absmax, floats(name + ".absmax"));
  const auto packed = bytes<std::uint8_t>(name + ".packed");
  const auto values = floats(name + ".values");
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(codes[i], packed[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15) << i << ": " << x[i];
    ASSERT_EQ(codebook_of(type)[codes[i]] * absmax[i / 64], values[i]) << i;
  }
}

// A whole block is multiplied by 1 / absmax, the shorter one at the end divided by it (found by asking
// bitsandbytes): the last bit may decide between two codes.
TEST_P(FourBitTest, TiesFallAsInBitsandbytesInTheLastBlockToo) {
  struct Tie {
    float largest, x;
    int whole, last;
  };
  const Tie of_nf4[] = {{0x1.a3p-1F, 0x1.0ac0dp-5F, 8, 7}, {0x1.924p-1F, 0x1.0016e4p-5F, 7, 8}},
            of_fp4[] = {{0x1.dcp-1F, 0x1.474p-4F, 6, 1}, {0x1.69p-1F, 0x1.f06002p-5F, 1, 6}};
  for (const auto& [largest, x, whole, last] : type == FourBit::nf4 ? of_nf4 : of_fp4) {
    std::vector<float> values(64 + 2);
    values[0] = values[64] = largest;
    values[1] = values[65] = x;
    std::vector<std::uint8_t> codes(values.size());
    float absmax[2];
    quantize_four_bit(type, values, kFourBitBlock, codes.data(), absmax);
    EXPECT_EQ(codes[1], whole) << x;
    EXPECT_EQ(codes[65], last) << x;
  }
}

TEST_P(FourBitTest, ScalesOfScalesAreThoseOfBitsandbytes) {
  const auto absmax = floats(name + ".absmax");
  const NestedScales nested = nest_scales(absmax);
  const auto want = bytes<std::uint8_t>(name + ".nested_codes");
  ASSERT_EQ(nested.codes.size(), want.size());
  // The mean is summed in another order: its last bit may move a code.
  EXPECT_NEAR(nested.offset, floats(name + ".nested_offset")[0], 1e-8);
  std::size_t different = 0;
  for (std::size_t i = 0; i < want.size(); ++i) different += nested.codes[i] != want[i] ? 1 : 0;
  EXPECT_LE(different, want.size() / 1000);
  // What bitsandbytes wrote is read to the bit.
  const NestedScales theirs{want, floats(name + ".nested_absmax"), floats(name + ".nested_offset")[0]};
  std::vector<float> scales(want.size());
  unnest_scales(theirs, scales.data());
  EXPECT_EQ(scales, floats(name + ".nested_scales"));
}

// Next to zero bitsandbytes on a CPU does not take the nearest of the 256 values (found by asking it): its
// steps of 2 / 65535 are coarser than the values are.
TEST(Formats, ScalesNextToTheirMeanGetTheCodesOfBitsandbytes) {
  std::vector<float> scales(256, 1.0F);
  scales[0] = 2;
  scales[1] = 0;
  scales[2] = 1 + 0x1.7p-18F;  // 5.5e-6, nearer to 3.3e-6 and 7.7e-6 than to 2.1e-5
  scales[3] = 1 - 0x1.7p-18F;
  const NestedScales nested = nest_scales(scales);
  ASSERT_EQ(nested.offset, 1);
  EXPECT_EQ(nested.absmax, std::vector<float>{1});
  const std::vector<std::uint8_t> first(nested.codes.begin(), nested.codes.begin() + 5);
  EXPECT_EQ(first, (std::vector<std::uint8_t>{255, 0, 131, 123, 131}));
  EXPECT_FLOAT_EQ(dynamic_map()[131], 2.125e-5F);
}

INSTANTIATE_TEST_SUITE_P(Types, FourBitTest, testing::Values(FourBit::nf4, FourBit::fp4),
                         [](const auto& info) { return info.param == FourBit::nf4 ? "nf4" : "fp4"; });

TEST(Formats, DynamicMapIsThatOfBitsandbytes) {
  const auto want = floats("dynamic_map");
  EXPECT_EQ(std::vector<float>(dynamic_map().begin(), dynamic_map().end()), want);
}

TEST(Formats, Int8CodesAreThoseOfBitsandbytes) {
  const auto w = floats("int8.w"), absmax = floats("int8.absmax");
  const auto want = bytes<std::int8_t>("int8.codes");
  const std::size_t rows = absmax.size(), k = w.size() / rows;
  std::vector<std::int8_t> codes(w.size());
  for (std::size_t row = 0; row < rows; ++row)
    EXPECT_EQ(quantize_int8({w.data() + row * k, k}, codes.data() + row * k), absmax[row]);
  EXPECT_EQ(codes, want);
}

// Half of the largest is 63.5 codes: the last bit of 127 / absmax, in PyTorch's two roundings, decides.
TEST(Formats, Int8TiesFallAsInBitsandbytes) {
  std::int8_t codes[3];
  const float up[] = {0x1.234p-2F, 0x1.234p-3F, -0x1.234p-3F},
              down[] = {0x1.cf8p-3F, 0x1.cf8p-4F, -0x1.cf8p-4F};
  quantize_int8(up, codes);
  EXPECT_EQ(codes[1], 64);
  EXPECT_EQ(codes[2], -64);
  quantize_int8(down, codes);
  EXPECT_EQ(codes[1], 63);
  EXPECT_EQ(codes[2], -63);
}

TEST(Formats, Float16RoundsToEvenAndBack) {
  EXPECT_EQ(float_to_f16(1.0F), 0x3c00);
  EXPECT_EQ(float_to_f16(65504.0F), 0x7bff);
  EXPECT_EQ(float_to_f16(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_f16(0x1p-25F), 0x0000);  // half-way to the smallest: to even
  EXPECT_EQ(float_to_f16(0x1.8p-25F), 0x0001);
  EXPECT_EQ(float_to_f16(-2.0F), 0xc000);
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits)
    ASSERT_EQ(float_to_f16(f16_to_float(static_cast<std::uint16_t>(bits))), bits);
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(std::nanf("")))));
}

double rms_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

// The whole model: every format, on every instruction set. Where inputs are quantized as well, a last bit of
// one may move its code, by 1 / 127 of the row: that is what is allowed there.
struct LogitsCase {
  const char *model, *precision;
  double tolerance;  // root mean square, of the deviation of the logits
};
class QuantizedLogits : public testing::TestWithParam<LogitsCase> {};

TEST_P(QuantizedLogits, EqualThoseWithBitsandbytes) {
  const auto& [name, precision, tolerance] = GetParam();
  const auto folder = std::make_shared<const ModelFolder>(test::fixture_model(name));
  const SafetensorsFile expected(test::fixture_model(name) / "expected.safetensors");
  const auto want = floats(std::string(name) + "." + precision);
  const auto plain = test::read_floats(expected, "logits");
  const std::vector<float> plain_end(plain.end() - static_cast<std::ptrdiff_t>(want.size()), plain.end());
  const double deviation = test::standard_deviation_of(want);
  // Quantizing moves the logits by far more than what is allowed here.
  ASSERT_GT(rms_difference(plain_end, want), 1.5 * tolerance * deviation);
  for (const Isa isa : test::usable_isas()) {
    const Model model = Model::load(folder, test::cpu_backend(isa), precision_from_name(precision));
    const auto logits = test::all_logits(model.program(), test::read_ids(expected, "input_ids"));
    const std::vector<float> end(logits.end() - static_cast<std::ptrdiff_t>(want.size()), logits.end());
    EXPECT_LE(rms_difference(end, want), tolerance * deviation) << name_of(isa);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, QuantizedLogits,
    testing::Values(LogitsCase{"base", "nf4", 1e-5}, LogitsCase{"base", "fp4", 1e-5},
                    LogitsCase{"base", "nf4-dq", 2e-4}, LogitsCase{"base", "fp4-dq", 2e-4},
                    LogitsCase{"odd_heads", "nf4", 1e-5}, LogitsCase{"odd_heads", "fp4", 1e-5},
                    LogitsCase{"odd_heads", "nf4-dq", 2e-4}, LogitsCase{"odd_heads", "fp4-dq", 2e-4},
                    LogitsCase{"base", "llm-int8", 1.6e-2}, LogitsCase{"odd_heads", "llm-int8", 1.6e-2}),
    [](const auto& info) {
      std::string text = std::string(info.param.model) + "_" + info.param.precision;
      for (char& c : text) c = c == '-' ? '_' : c;
      return text;
    });

// Footprints as Transformers counts them, and what of the shipped model is quantized.
TEST(Coverage, SaysWhatIsQuantizedAndWhy) {
  const LoadedModel plain = load_model_and_tokenizer({test::demo_model().string()}, "float32", Device{});
  EXPECT_TRUE(coverage_of(plain.model->program().plan()).tensors.empty());
  const LoadedModel loaded = load_model_and_tokenizer({test::demo_model().string()}, "nf4", Device{});
  const Plan& plan = loaded.model->program().plan();
  const CoverageFacts facts = coverage_of(plan);
  EXPECT_EQ(facts.quantized, 4 * plan.layers);
  std::int64_t in_blocks = 0;
  for (const WeightSpec& weight : plan.weights)
    if (weight.kind == WeightSpec::Kind::matrix && !weight.is_table_too) in_blocks += weight.elements();
  EXPECT_DOUBLE_EQ(facts.weights_share,
                   static_cast<double>(in_blocks) / static_cast<double>(plan.parameters()));
  EXPECT_EQ(loaded.model->footprint().value, (plan.parameters() - in_blocks) * 4 + in_blocks / 2);
  EXPECT_LT(facts.bytes_share, facts.weights_share);
  for (const CoverageFacts::Tensor& tensor : facts.tensors)
    EXPECT_EQ(tensor.reason.empty(), tensor.format == "nf4") << tensor.name;
  const LoadedModel with_head = load_model_and_tokenizer(
      {test::demo_model().string()}, {.precision = Preset::nf4, .quantize_head = formats::kInt8});
  EXPECT_EQ(coverage_of(with_head.model->program().plan()).quantized, 4 * plan.layers + 1);
}

}  // namespace
}  // namespace assay
