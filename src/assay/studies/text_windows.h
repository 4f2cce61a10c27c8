// What it costs to score a text window by window, predicted from the cost of one window.
#pragma once

#include <cstdint>
#include <optional>

#include "assay/harness/context.h"
#include "assay/harness/predict.h"

namespace assay {

struct TextWindows {
  Case one;           // a window as long as the first, whose prefill reads its last token alone
  double count = 0;   // the inputs of all windows, in windows of that length
  double scored = 0;  // tokens, each of which goes through the LM head
};

// The windows of a text's first `tokens` (windows_of() in generate/windows.h), as a case of `scenario`.
// Unset: the model's context, and half a window.
TextWindows text_windows(const ExperimentContext& context, Scenario scenario, std::int64_t tokens,
                         std::optional<std::int64_t> window, std::optional<std::int64_t> stride);

// Seconds of all windows, where `cost` is that of one.
double seconds_of(const TextWindows& windows, const CaseCost& cost);

}  // namespace assay
