// What values of a metric can be, and the heads of their columns.
#include <limits>
#include <string>

#include "assay/base/format.h"
#include "assay/results/metric.h"

namespace assay {

double Metric::least() const {
  // Differences of two readings.
  for (const std::string_view difference :
       {"quantize_s", "measured_memory_bytes", "accuracy_change", "log_perplexity_ratio"})
    if (tag == difference) return -most();
  // A divergence that is 0 but for its rounding.
  constexpr double kRounding = -1e-6;
  return tag.starts_with("kl_") || tag == "noise_floor" ? kRounding : 0;
}
double Metric::most() const {
  // A perplexity is exp() of a loss and may be anything; nothing that has a unit comes near the other limit.
  return unit.empty() ? std::numeric_limits<double>::max() : 1e18;
}

std::string Metric::column_head() const {
  const std::string_view shown = shown_unit.empty() ? unit : shown_unit;
  // A heading that begins or ends with its unit does not repeat it: "Tokens/s per sequence", "New tokens".
  const bool is_long = shown.size() > 1 && head.size() > 1;
  const bool has = is_long && (head.substr(1).starts_with(shown.substr(1)) || head.ends_with(shown));
  return shown.empty() || has ? std::string(head) : fmt::format("{} ({})", head, shown);
}

}  // namespace assay
