// Cases and their runs as JSON: what worker processes are asked and answer, and what journals hold.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "assay/base/json_reader.h"
#include "assay/harness/case.h"

namespace assay {

nlohmann::ordered_json to_json(const std::vector<Prompt>& prompts);
nlohmann::ordered_json to_json(const Case& spec);
nlohmann::ordered_json to_json(const Sample& sample);
nlohmann::ordered_json to_json(const FirstRun& first);

// What to_json() wrote. Each throws Error naming the path of what is wrong.
std::vector<Prompt> prompts_from_json(const JsonReader& json);
Case case_from_json(const JsonReader& json);
Sample sample_from_json(const JsonReader& json);
FirstRun first_run_from_json(const JsonReader& json);

// Adds to an answer the names that its keys had in earlier builds, for a parent that is one. Everything above
// is read under both.
void add_earlier_names(nlohmann::ordered_json& message);

}  // namespace assay
