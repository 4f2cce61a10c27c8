// A GGUF file that is made of a quantized one.
#include <gtest/gtest.h>

#include "assay/quantize/gguf_mix.h"
#include "assay/quantize/write_gguf.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

// What was rounded once is rounded again; numbers that the type holds as they are lose nothing.
TEST(RequantizedGguf, WarnsOfWeightsThatAreQuantizedTwice) {
  const test::TemporaryFolder folder;
  const std::string quantized = (test::fixture("gguf") / "quantized_q4_0.gguf").string();
  const auto warnings = [&](const std::string& model, const char* mix) {
    std::string all;
    for (const std::string& each : write_gguf(model, folder.path() / (std::string(mix) + ".gguf"),
                                              {.mix = GgufMix::named(mix).value(), .threads = 2})
                                       .warnings)
      if (each.find("quantiz") != std::string::npos) all += each + "\n";
    return all;
  };
  EXPECT_NE(warnings(quantized, "Q5_0")
                .find("quantized tensors were quantized in quantized_q4_0.gguf already, and "
                      "quantizing twice loses more than quantizing the original once"),
            std::string::npos);
  EXPECT_EQ(warnings(quantized, "F16"), "");
  EXPECT_EQ(warnings((test::fixture("gguf") / "quantized_q8_0.gguf").string(), "Q8_0"), "");
  EXPECT_EQ(warnings(test::fixture_model("llama_biased").string(), "Q4_0"), "");
}

}  // namespace
}  // namespace assay
