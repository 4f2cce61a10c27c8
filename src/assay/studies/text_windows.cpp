#include "assay/studies/text_windows.h"

#include <algorithm>

#include "assay/generate/windows.h"
#include "assay/harness/make_case.h"

namespace assay {

TextWindows text_windows(const ExperimentContext& context, Scenario scenario, std::int64_t tokens,
                         std::optional<std::int64_t> window, std::optional<std::int64_t> stride) {
  const std::int64_t most = std::max<std::int64_t>(2, window.value_or(context.context_length)),
                     step = std::clamp<std::int64_t>(stride.value_or(most / 2), 1, most);
  std::int64_t inputs = 0, scored = 0;
  for (const Window& each : windows_of(std::max<std::int64_t>(1, tokens), most, step)) {
    inputs += each.inputs();
    scored += std::max<std::int64_t>(0, each.targets());
  }
  const std::int64_t length = std::max<std::int64_t>(1, std::min({most, tokens, context.context_length - 1}));
  const std::vector<TokenId> ids(static_cast<std::size_t>(length));
  return {baseline_case(context, scenario, "window", {ids}, 1),
          static_cast<double>(inputs) / static_cast<double>(length), static_cast<double>(scored)};
}

double seconds_of(const TextWindows& windows, const CaseCost& cost) {
  return windows.count * cost.prefill_s + windows.scored * cost.head_row_s;
}

}  // namespace assay
