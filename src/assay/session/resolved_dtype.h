// The dtype that was asked for, and the one that really runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/base/device.h"
#include "assay/quant/precision.h"
#include "assay/results/warning.h"

namespace assay {

struct ResolvedDtype {
  Precision precision;  // what really runs
  std::string label;    // "float32", "float32 (forced on CPU)": what to print
  std::vector<Warning> warnings;
};
// A preset of quant/precision.h, any case, or its short name; anything else is a FieldError that lists them.
// float16 on a CPU becomes float32 and says so in the label; bfloat16 is bfloat16 (a loaded model carries a
// warning where its arithmetic is float32). "auto" is float32.
ResolvedDtype resolve_dtype(std::string_view name, const Device& device);

}  // namespace assay
