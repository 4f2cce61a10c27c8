#include "assay/report/written_results.h"

#include <nlohmann/json.hpp>

#include "assay/report/prose/prose.h"
#include "assay/results/results_json.h"

namespace assay::report {

nlohmann::ordered_json comparison_json(const Comparison& comparison, const std::string& sentence) {
  nlohmann::ordered_json json = to_json(comparison);
  json["sentence"] = sentence;
  return json;
}

nlohmann::ordered_json results_json(const ResultSet& results) {
  nlohmann::ordered_json json = to_json(results);
  const auto add = [&](const char* key, const std::vector<Comparison>& comparisons) {
    for (std::size_t i = 0; i < comparisons.size(); ++i)
      json[key][i]["sentence"] = sentence_of(comparisons[i]);
  };
  add("comparisons", results.comparisons);
  add("other_comparisons", results.other_comparisons);
  json["remarks"] = sentences_of(results.findings);
  json["takeaways"] = sentences_of(takeaways_of(results));
  return json;
}

}  // namespace assay::report
