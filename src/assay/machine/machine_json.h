// The facts of a machine as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "assay/base/json_reader.h"
#include "assay/machine/machine.h"

namespace assay {

nlohmann::ordered_json to_json(const Machine& machine);
// Reads what to_json() wrote, or an earlier version of it with fewer facts.
Machine machine_from_json(const JsonReader& json);

}  // namespace assay
