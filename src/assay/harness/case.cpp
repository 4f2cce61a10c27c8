#include "assay/harness/case.h"

#include <numeric>

#include "assay/base/format.h"

namespace assay {

std::string Case::key() const {
  return fmt::format("{} | {} | {}", name_of(scenario), label, configuration.key());
}

double Sample::decode_s() const {
  return std::accumulate(step_s.begin(), step_s.end(), 0.0);
}

}  // namespace assay
