// Folders of bitsandbytes whose blocks have another size than 64 (tools/make_quantized_fixtures.py): the
// weights that it dequantizes, and its logits.
#include <gtest/gtest.h>

#include "assay/backend/supported.h"
#include "assay/base/error.h"
#include "assay/checkpoint/model_folder.h"
#include "assay/model/model.h"
#include "assay/quant/quantizer.h"
#include "assay/session/load.h"
#include "support/fixtures.h"

namespace assay {
namespace {

struct BlockCase {
  const char* folder;
  WeightFormat format;
};
class BlockSizes : public testing::TestWithParam<BlockCase> {
 protected:
  const std::filesystem::path folder = test::fixture("quantized_blocks") / GetParam().folder;
  const SafetensorsFile expected{folder / "expected.safetensors"};
};

TEST_P(BlockSizes, WeightsAreThoseOfBitsandbytes) {
  const ModelFolder model(folder);
  const auto weights = model.quantized_weights();
  ASSERT_NE(weights, nullptr);
  std::size_t seen = 0;
  for (const StoredTensor& tensor : expected.tensors()) {
    if (!tensor.name.ends_with(".weight")) continue;
    const StoredCodes codes{tensor.name, tensor.shape[0], tensor.shape[1], GetParam().format};
    EXPECT_EQ(weights->format_of(tensor.name), GetParam().format);
    weights->check(codes);
    std::vector<std::uint8_t> read(static_cast<std::size_t>(codes.elements()));
    weights->read_codes(codes, 0, codes.rows, read.data());
    const std::vector<float> scales = weights->read_scales(codes);
    const ScaleLayout layout(codes.format, codes.rows, codes.columns);
    std::vector<float> values;
    for (std::int64_t i = 0; i < codes.elements(); ++i)
      values.push_back(dequantized(codes.format, read[static_cast<std::size_t>(i)],
                                   scales[static_cast<std::size_t>(layout.at(0, i))]));

    // Nested scales are a product and a sum, which a compiler may fuse.
    const double tolerance = has_nested_scales(codes.format) ? 1e-7 : 0;
    EXPECT_LE(test::largest_difference(values, test::read_floats(expected, tensor.name)), tolerance)
        << tensor.name;
    ++seen;
  }
  EXPECT_GE(seen, 8U);
}

TEST_P(BlockSizes, LogitsAreThoseOfBitsandbytes) {
  const auto want = test::read_floats(expected, "logits");
  for (const Isa isa : test::usable_isas()) {
    RunConfig config = run_config_from_text("auto");
    config.isa = isa;
    const LoadedModel loaded =
        load_model_and_tokenizer({folder.string()}, config, {.needs_tokenizer = false});
    const auto got = test::all_logits(loaded.model->program(), test::read_ids(expected, "input_ids"));
    EXPECT_LE(test::largest_difference(got, want), 2e-5 * test::standard_deviation_of(want)) << name_of(isa);
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, BlockSizes,
                         testing::Values(BlockCase{"nf4-32", with_block(formats::kNf4, 32)},
                                         BlockCase{"fp4-128", with_block(formats::kFp4, 128)},
                                         BlockCase{"nf4-dq-256", with_block(formats::kNf4Dq, 256)},
                                         BlockCase{"fp4-dq-4096", with_block(formats::kFp4Dq, 4096)}),
                         [](const auto& info) {
                           std::string text = info.param.folder;
                           for (char& c : text) c = c == '-' ? '_' : c;
                           return text;
                         });

// A format that no checkpoint of bitsandbytes holds stays unknown to the backends.
TEST(OtherBlockSizes, AreNotServed) {
  Plan plan;
  WeightSpec weight;
  weight.name = "w";
  weight.kind = WeightSpec::Kind::matrix;
  constexpr WeightFormat kServed[] = {formats::kNf4};
  for (const auto& [format, is_served] : {std::pair{with_block(formats::kNf4, 2048), true},
                                          {with_block(formats::kNf4, 16), false},
                                          {with_block(formats::kFp4, 128), false},
                                          {with_block(formats::kInt4G128, 64), false}}) {
    weight.format = format;
    plan.weights = {weight};
    if (is_served)
      EXPECT_NO_THROW(check_served(plan, "CPU", kServed));
    else
      EXPECT_THROW(check_served(plan, "CPU", kServed), Error) << name_of(format);
  }
}

}  // namespace
}  // namespace assay
