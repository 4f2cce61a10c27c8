// What tuning has measured, and the small documents of quantized folders: quantization_config, and the state
// that bitsandbytes writes beside a weight.
#include <nlohmann/json.hpp>

#include "assay/backend/cpu/run/tuning.h"
#include "assay/backend/cuda/run/launch_tuning.h"
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

void use_launches(std::string_view text) {
  const std::vector<cuda::ProductKey> wanted = {{.outputs = 4, .inputs = 8},
                                                {.outputs = 4, .inputs = 8, .rows = 8}};
  const cuda::LaunchChoices found = cuda::launches_in(text, kKey, wanted);
  expect(cuda::launches_in(cuda::with_launches(text, kKey, found), kKey, wanted).all() == found.all(),
         "launches that are written and read differ");
  cuda::kept_launches(text, kKey);
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
  fuzz::use_launches(text);
  fuzz::is_accepted([&] { fuzz::use_quantization(text); });
  fuzz::is_accepted([&] {
    const auto state = bitsandbytes::quant_state_from_text(std::string(text), "weight");
    fuzz::expect(fuzz::is_accepted([&] { bitsandbytes::quant_state_from_text(state.text(), "weight"); }),
                 "a quantization state that was written cannot be read");
  });
  return 0;
}
