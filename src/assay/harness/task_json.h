// Scores of tasks as JSON, in messages of workers and in journals.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "assay/base/json_reader.h"
#include "assay/session/task_score.h"

namespace assay {

nlohmann::ordered_json to_json(const TaskScores& scores);
// Throws Error naming the path of what is wrong.
TaskScores task_scores_from_json(const JsonReader& json);

}  // namespace assay
