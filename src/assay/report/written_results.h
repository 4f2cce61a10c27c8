// What results.json holds: the facts of results/ with the sentences that belong to them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "assay/results/results.h"

namespace assay::report {

// to_json() of the results, with "sentence" in each comparison, and "remarks" and "takeaways" as texts. None
// of these is read back: they follow from the facts.
nlohmann::ordered_json results_json(const ResultSet& results);
// The same of one comparison, such as one of two runs, whose sentence is given.
nlohmann::ordered_json comparison_json(const Comparison& comparison, const std::string& sentence);

}  // namespace assay::report
