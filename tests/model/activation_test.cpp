// Activation functions by the names that Transformers' ACT2FN has for them.
#include <gtest/gtest.h>

#include <utility>

#include "assay/base/error.h"
#include "assay/model/families/families.h"

namespace assay {
namespace {

TEST(ActivationFromName, KnowsTheNamesOfTransformers) {
  for (const auto& [name, activation] : {std::pair{"gelu_new", Activation::gelu_tanh},
                                         {"gelu", Activation::gelu_erf},
                                         {"quick_gelu", Activation::gelu_quick},
                                         {"relu", Activation::relu},
                                         {"relu2", Activation::relu2},
                                         {"silu", Activation::silu},
                                         {"tanh", Activation::tanh}})
    EXPECT_EQ(activation_from_name(name, "config.json: hidden_act"), activation) << name;
}

TEST(ActivationFromName, RefusesOthersByNameAndPlace) {
  try {
    activation_from_name("mish", "config.json: hidden_act");
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("config.json: hidden_act: activation 'mish' is not supported; expected one of: ", 0),
              0U)
        << text;
    EXPECT_NE(text.find("relu2"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace assay
