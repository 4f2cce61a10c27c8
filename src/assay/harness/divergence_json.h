// Comparisons of models token by token as JSON: what worker processes are asked and answer, and what journals
// hold. A token's numbers are one array each: kl, nll_base, nll, p_base, p, same_top1 (1 or 0), top5,
// base_margin (TokenDivergence).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "assay/base/json_reader.h"
#include "assay/harness/session.h"

namespace assay {

nlohmann::ordered_json to_json(const DivergeRequest& request);
nlohmann::ordered_json to_json(const CorpusDivergence& divergence);
// What to_json() wrote. Each throws Error naming the path of what is wrong.
DivergeRequest diverge_request_from_json(const JsonReader& json);
CorpusDivergence corpus_divergence_from_json(const JsonReader& json);

}  // namespace assay
