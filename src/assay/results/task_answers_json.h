// Answers to the items of a task as JSON, in result files.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "assay/base/json_reader.h"
#include "assay/results/task_answers.h"

namespace assay {

nlohmann::ordered_json to_json(const TaskAnswers& answers);
// Throws Error naming the path of what is wrong.
TaskAnswers task_answers_from_json(const JsonReader& json);

}  // namespace assay
