// What assay inspect shows of a model.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "assay/base/units.h"
#include "assay/model/spec.h"

namespace assay::cli {

nlohmann::ordered_json spec_json(const ModelSpec& spec);

// Lines of at most 80 columns, but for long names of tensors. `json` is the answer of --json; `usable`: the
// memory that may be taken, 0 where nobody says.
std::string inspection_text(const nlohmann::ordered_json& json, const ModelSpec& spec, Bytes usable);

}  // namespace assay::cli
