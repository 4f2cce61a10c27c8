// What tuning has measured, and the small documents of quantized folders: quantization_config, and the state
// that bitsandbytes writes beside a weight.
#include <nlohmann/json.hpp>

#include "assay/backend/cpu/run/tuning.h"
#include "assay/base/json.h"
#include "assay/checkpoint/bitsandbytes.h"
#include "assay/checkpoint/int8_checkpoint.h"
#include "fuzz.h"
#include "json_mutator.h"

namespace assay::fuzz {
namespace {

constexpr const char* kKey = "key";

void use_tuning(std::string_view text) {
  const auto tuning = cpu::tuning_in(text, kKey);
  Tuning kept{.constants = usual_constants(), .is_measured = true};
  if (tuning) kept = *tuning;
  const auto again = cpu::tuning_in(cpu::with_tuning(text, kKey, kept), kKey);
  expect(again.has_value(), "tuning that was written cannot be read");
  expect(again->gain == kept.gain && again->constants.share_rows == kept.constants.share_rows,
         "tuning that is written and read differs");
}

void use_quantization(std::string_view text) {
  const Json json = parse_json_object(text, "config.json");
  const JsonView view(json, "config.json");
  is_accepted([&] { bitsandbytes::config_from(view); });
  is_accepted([&] {
    if (const auto config = int8_checkpoint::config_from(view)) int8_checkpoint::to_json(*config);
  });
}

}  // namespace
}  // namespace assay::fuzz

ASSAY_FUZZ_FORM(assay::fuzz::one_document())

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::use_tuning(text);
  fuzz::is_accepted([&] { fuzz::use_quantization(text); });
  fuzz::is_accepted([&] {
    const auto state = bitsandbytes::quant_state_from_text(std::string(text), "weight");
    fuzz::expect(fuzz::is_accepted([&] { bitsandbytes::quant_state_from_text(state.text(), "weight"); }),
                 "a quantization state that was written cannot be read");
  });
  return 0;
}
