#include "assay/harness/case.h"

#include <numeric>

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/harness/case_json.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

std::string Case::key() const {
  return fmt::format("{} | {} | {}", name_of(scenario), label, configuration.key());
}

std::string Case::work() const {
  return fmt::format("{} {} {}", new_tokens, batch_size,
                     to_json(prompts).dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

double Sample::decode_s() const {
  return std::accumulate(step_s.begin(), step_s.end(), 0.0);
}

}  // namespace assay
