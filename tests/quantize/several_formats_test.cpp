// A checkpoint whose modules are stored in several formats gives the logits of the recipe that says the same.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/quantize/quantize.h"
#include "assay/session/load.h"
#include "support/fixtures.h"
#include "support/safetensors_copy.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

bool is_of_mlp(const std::string& name) {
  return name.find(".mlp.") != std::string::npos;
}

TEST(SeveralStoredFormats, GiveTheLogitsOfTheRecipeThatSaysTheSame) {
  const test::TemporaryFolder folder;
  const std::string source = test::fixture_model("base").string(), four = folder / "nf4",
                    eight = folder / "int8";
  QuantizeOptions options;
  options.config = {.precision = Preset::nf4, .dtype = DType::f32};
  quantize_model(source, four, options);
  options.config = {.precision = Preset::llm_int8, .dtype = DType::f32};
  quantize_model(source, eight, options);
  const std::filesystem::path weights = std::filesystem::path(four) / "model.safetensors";
  test::TensorList mixed(weights);
  std::erase_if(mixed.tensors, [](const test::WrittenTensor& each) { return is_of_mlp(each.name); });
  for (const test::WrittenTensor& each :
       test::TensorList(std::filesystem::path(eight) / "model.safetensors").tensors)
    if (is_of_mlp(each.name)) mixed.tensors.push_back(each);
  test::write_file(weights, mixed.file());

  const LoadOptions load{.needs_tokenizer = false};
  const LoadedModel stored = load_model_and_tokenizer({four}, RunConfig{.isa = Isa::scalar}, load);
  EXPECT_NE(stored.dtype_label.find(" + "), std::string::npos) << stored.dtype_label;
  const Recipe recipe{
      .name = "r", .default_format = formats::kNf4, .rules = {{"*.mlp.*", formats::kLlmInt8}}};
  const LoadedModel made =
      load_model_and_tokenizer({source}, RunConfig{.recipe = recipe, .isa = Isa::scalar}, load);
  const auto ids =
      test::read_ids(SafetensorsFile(test::fixture_model("base") / "expected.safetensors"), "input_ids");
  EXPECT_EQ(test::all_logits(stored.model->program(), ids), test::all_logits(made.model->program(), ids));
  // Each precision is another than what it holds.
  for (const Preset preset : {Preset::nf4, Preset::llm_int8})
    EXPECT_THROW(load_model_and_tokenizer({four}, RunConfig{.precision = preset}, load), Error);
}

}  // namespace
}  // namespace assay
