// The catalogue as a whole.
#include <stdexcept>
#include <string>
#include <vector>

#include "assay/results/quality_metrics.h"

namespace assay {

std::span<const Metric> metric_catalogue() {
  static const std::vector<Metric> all = [] {
    std::vector<Metric> made;
    for (const Metric& m : other_metrics()) {
      made.push_back(m);
      if (m.tag == "perplexity_ratio")
        made.insert(made.end(), quality_metrics().begin(), quality_metrics().end());
    }
    return made;
  }();
  return all;
}

const Metric* find_metric(std::string_view tag) {
  for (const Metric& m : metric_catalogue())
    if (m.tag == tag) return &m;
  return nullptr;
}

const Metric& metric(std::string_view tag) {
  if (const Metric* found = find_metric(tag)) return *found;
  throw std::logic_error("no metric " + std::string(tag));
}

}  // namespace assay
