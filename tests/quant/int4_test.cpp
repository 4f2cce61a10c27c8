// Groupwise int4: the rule of its header, worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/random.h"
#include "assay/model/model.h"
#include "assay/quant/int4.h"
#include "support/fixtures.h"

namespace assay {
namespace {

TEST(Int4, CodesFollowTheRule) {
  // The value of largest magnitude is 4: scale -0.5, code 0. Ties go to even; -4 would be level 8, which is
  // none.
  const std::vector<float> row{4, -4, 0, 0.25F, 0.75F, -0.25F, -3.5F, 1.9F};
  std::vector<std::uint8_t> codes(row.size());
  float scale = 0;
  quantize_int4(row, 128, codes.data(), &scale);
  EXPECT_EQ(scale, -0.5F);
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{0, 15, 8, 8, 6, 8, 15, 4}));
}

TEST(Int4, GroupsHaveTheirOwnScales) {
  std::vector<float> row(300, 0.0F);
  row[5] = 8;
  row[299] = -16;
  std::vector<std::uint8_t> codes(row.size(), 77);
  std::vector<float> scales(3, 77.0F);
  quantize_int4(row, kInt4Group, codes.data(), scales.data());
  EXPECT_EQ(scales, (std::vector<float>{-1, 0, 2}));
  EXPECT_EQ(codes[5], 0);
  EXPECT_EQ(codes[299], 0);
  EXPECT_EQ(codes[200], 8);
}

TEST(Int4, ValuesLieWithinHalfALevelExceptBeyondTheLast) {
  Random random(3);
  std::vector<float> row(1024);
  for (float& v : row) v = static_cast<float>(random.uniform() * 2 - 1);
  std::vector<std::uint8_t> codes(row.size());
  std::vector<float> scales(8);
  quantize_int4(row, kInt4Group, codes.data(), scales.data());
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float scale = scales[i / 128], value = int4_codebook()[codes[i]] * scale;
    const float reach = std::fabs(row[i] / scale) > 7.5F && row[i] / scale > 0 ? 1.0F : 0.5F;
    EXPECT_LE(std::fabs(value - row[i]), reach * std::fabs(scale) * 1.00001F) << i;
  }
}

// A whole model of it is the float model of its values, on every instruction set; widths that are no multiple
// of a group too.
TEST(Int4, ModelsComputeWithTheValuesOfTheCodes) {
  for (const char* name : {"base", "odd_heads"}) {
    const auto folder = std::make_shared<const ModelFolder>(test::fixture_model(name));
    const SafetensorsFile expected(test::fixture_model(name) / "expected.safetensors");
    const auto ids = test::read_ids(expected, "input_ids");
    const auto precision = precision_from_name("int4-g128");
    const Model reference = Model::load(folder, test::cpu_backend(Isa::scalar), precision);
    const auto want = test::all_logits(reference.program(), ids);
    EXPECT_GT(test::largest_difference(want, test::read_floats(expected, "logits")), 0.1);
    for (const Isa isa : test::usable_isas()) {
      const Model model = Model::load(folder, test::cpu_backend(isa), precision);
      EXPECT_LE(test::largest_difference(test::all_logits(model.program(), ids), want),
                2e-5 * test::standard_deviation_of(want))
          << name << " " << name_of(isa);
    }
  }
}

}  // namespace
}  // namespace assay
