#include "assay/results/task_answers_json.h"

#include <nlohmann/json.hpp>

namespace assay {

nlohmann::ordered_json to_json(const TaskAnswers& answers) {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  for (const TaskAnswers::Item& item : answers.items)
    items.push_back({{"line", item.line},
                     {"log_likelihoods", item.log_likelihoods},
                     {"is_right", item.is_right},
                     {"is_right_norm", item.is_right_norm}});
  return items;
}

TaskAnswers task_answers_from_json(const JsonReader& json) {
  TaskAnswers answers;
  for (const JsonReader& item : json.items())
    answers.items.push_back({.line = item.at("line").count<std::int64_t>(),
                             .log_likelihoods = item.at("log_likelihoods").numbers(),
                             .is_right = item.at("is_right").boolean(),
                             .is_right_norm = item.at("is_right_norm").boolean()});
  return answers;
}

}  // namespace assay
