// Findings as JSON: {"kind": ..., and the fields of the kind}.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "assay/base/json_reader.h"
#include "assay/results/finding.h"

namespace assay {

nlohmann::ordered_json to_json(const Finding& finding);
// Throws Error naming file and path of what is wrong.
Finding finding_from_json(const JsonReader& json);

}  // namespace assay
