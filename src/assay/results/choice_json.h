// A choice within a budget, and what it left out, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "assay/base/json_reader.h"
#include "assay/results/choice.h"
#include "assay/results/limited_choice.h"

namespace assay {

nlohmann::ordered_json to_json(const Choice& choice);
Choice choice_from_json(const JsonReader& json);

nlohmann::ordered_json to_json(const LeftOut& left_out);
LeftOut left_out_from_json(const JsonReader& json);

nlohmann::ordered_json to_json(const Limits& limits);
Limits limits_from_json(const JsonReader& json);
// What an answer says of it: best, tested, runner_up, binding, uncertain, nearest, unmeasured.
nlohmann::ordered_json to_json(const LimitedChoice& choice);

}  // namespace assay
