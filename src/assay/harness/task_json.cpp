#include "assay/harness/task_json.h"

#include <nlohmann/json.hpp>

#include "assay/results/results_json.h"

namespace assay {

nlohmann::ordered_json to_json(const TaskScores& scores) {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  for (const ItemScore& score : scores.items)
    items.push_back({{"log_likelihoods", score.log_likelihoods},
                     {"tokens", score.tokens},
                     {"is_greedy", score.is_greedy}});
  return {{"items", items},
          {"sha256", scores.sha256},
          {"truncated", scores.truncated},
          {"shifted", scores.shifted},
          {"seconds", scores.seconds},
          {"warnings", to_json(scores.warnings)}};
}

TaskScores task_scores_from_json(const JsonReader& json) {
  TaskScores scores;
  for (const JsonReader& item : json.at("items").items())
    scores.items.push_back({.log_likelihoods = item.at("log_likelihoods").numbers(),
                            .tokens = item.at("tokens").whole_numbers<std::int64_t>(),
                            .is_greedy = item.at("is_greedy").boolean()});
  scores.sha256 = json.at("sha256").text();
  scores.truncated = json.at("truncated").count<std::int64_t>();
  scores.shifted = json.at("shifted").count<std::int64_t>();
  scores.seconds = json.at("seconds").number();
  scores.warnings = warnings_from_json(json.at("warnings"));
  return scores;
}

}  // namespace assay
