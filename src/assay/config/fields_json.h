// The configuration as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "assay/base/json_reader.h"
#include "assay/config/run_config.h"

namespace assay {

// The fields that are set, by their keys.
nlohmann::ordered_json to_json(const RunConfig& config);
// null leaves a field unset. Throws FieldError for a value of another type or out of range, Error for a key
// that is none.
RunConfig run_config_from_json(const JsonReader& json);

}  // namespace assay
