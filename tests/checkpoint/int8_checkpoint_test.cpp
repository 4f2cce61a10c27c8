// quantization_config of folders in our int8.
#include "assay/checkpoint/int8_checkpoint.h"

#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/base/json.h"

namespace assay {
namespace {

int8_checkpoint::Config dynamic() {
  int8_checkpoint::Config config;
  config.precision = "int8-dynamic";
  return config;
}

double smoothing_of(const Json& quantization) {
  const Json config = {{"quantization_config", quantization}};
  return int8_checkpoint::config_from(JsonView(config, "config.json"))->smoothing;
}

// No smoothing at all is null; a strength of 0 or 1 is one.
TEST(Int8Checkpoint, KeepsSmoothingOfEveryStrength) {
  for (const double strength : {0.0, 0.5, 1.0}) {
    int8_checkpoint::Config config = dynamic();
    config.smoothing = strength;
    const Json json = int8_checkpoint::to_json(config);
    EXPECT_EQ(json.at("smooth_quant"), strength);
    EXPECT_EQ(smoothing_of(json), strength);
  }
  const Json none = int8_checkpoint::to_json(dynamic());
  EXPECT_TRUE(none.at("smooth_quant").is_null());
  EXPECT_LT(smoothing_of(none), 0);
  for (const double strength : {-0.1, 1.1}) {
    Json wrong = none;
    wrong["smooth_quant"] = strength;
    EXPECT_THROW(smoothing_of(wrong), Error) << strength;
  }
}

}  // namespace
}  // namespace assay
