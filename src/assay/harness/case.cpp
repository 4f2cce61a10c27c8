#include "assay/harness/case.h"

#include <numeric>

#include "assay/base/format.h"

namespace assay {

std::string Case::key() const {
  return fmt::format("{} | {} | {}", name_of(scenario), label, configuration.key());
}

std::int64_t Case::sequences() const {
  return random_prompts ? random_prompts->sequences : static_cast<std::int64_t>(prompts.size());
}

double Sample::decode_s() const {
  return std::accumulate(step_s.begin(), step_s.end(), 0.0);
}

}  // namespace assay
