// Settings of rows of schema 1 follow from their parameters; those of schema 2 are read as they are.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/results/results_json.h"

namespace assay {
namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

TEST(Setting, OfParameters) {
  const Parameters parameters = {
      {"configuration", "nf4, dtype bfloat16, lm_head int8, activations int8, KV cache bfloat16, 2 threads"},
      {"device", "cpu"},
      {"kernels", "avx512"},
      {"threads", "12"},
      {"cache", "off"},
      {"batch_size", "8"},
      {"padding", "left"}};
  EXPECT_EQ(setting_of_parameters(parameters),
            (Setting{"nf4", "int8", "int8", "bfloat16", "cpu", "avx512", 12, false, 8, "left"}));
  const Parameters typed = {{"configuration", "nf4+head:int8, dtype bfloat16"}};
  EXPECT_EQ(setting_of_parameters(typed).precision, "nf4");
  EXPECT_EQ(setting_of_parameters(typed).lm_head, "int8");
  EXPECT_EQ(setting_of_parameters({}), Setting{});
}

TEST(Setting, TakesNoTextForACountThatCannotBeRead) {
  for (const char* text : {"-1", "-9223372036854775808", "many", "", "99999999999999999999"}) {
    Row row;
    row.parameters = {{"threads", text}, {"batch_size", text}};
    row.setting = setting_of_parameters(row.parameters);
    EXPECT_EQ(row.setting.threads, 0) << text;
    EXPECT_EQ(row.setting.batch_size, 0) << text;
    EXPECT_EQ(row_from_json(to_json(row)).setting, row.setting) << text;
  }
}

TEST(Setting, OfAnLmHeadThatIsSearchedIsNotQuantized) {
  const Parameters searched = {{"configuration", "as stored, lm_head search int8, activations as dtype"}};
  const Setting setting = setting_of_parameters(searched);
  EXPECT_EQ(setting.precision, "");
  EXPECT_EQ(setting.lm_head, "");
  EXPECT_EQ(setting.activations, "dtype");
  EXPECT_TRUE(setting.cache);
}

TEST(Setting, IsReadAsItIsWritten) {
  Row row;
  row.parameters = {{"configuration", "nf4, lm_head int8"}};
  row.setting = {"fp4", "nf4", "dtype", "int8", "cuda:0", "sm90", 3, false, 4, "right", "gpt2"};
  EXPECT_EQ(row_from_json(to_json(row)).setting, row.setting);
  nlohmann::ordered_json old = to_json(row);
  old.erase("setting");
  EXPECT_EQ(row_from_json(old).setting.precision, "nf4");
  EXPECT_EQ(row_from_json(old).setting.lm_head, "int8");
}

}  // namespace
}  // namespace assay
