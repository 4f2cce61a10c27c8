// One wide table of results and one long table of samples, as RFC 4180 writes them.
#pragma once

#include <string>

#include "assay/report/table.h"
#include "assay/results/results.h"

namespace assay::report {

// A field, in quotes where it needs them.
std::string csv_field(const std::string& text);
// A line per row: scenario, label, status, reason, every parameter, every metric, warnings joined by "; ".
std::string results_csv(const ResultSet& results);
std::string to_csv(const Table& table);
// A line per raw sample: scenario, label, metric, unit, index, value.
std::string samples_csv(const ResultSet& results);

}  // namespace assay::report
