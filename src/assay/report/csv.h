// Tables of results and of samples, as RFC 4180 writes them.
#pragma once

#include <string>

#include "assay/report/table.h"
#include "assay/results/results.h"

namespace assay::report {

// A field, in quotes where it needs them; control characters but for line breaks and tabs as \x1b. A text
// that a spreadsheet would compute as a formula (= + - @ in front, and no number) begins with an apostrophe.
std::string csv_field(const std::string& text);
// A line per row and metric, with its interval, how many samples of how many processes it comes from, and
// what it is of them ("median"; empty: counted). A metric that could not be measured has no value but a
// reason; a row that failed has one line without a metric.
std::string results_csv(const ResultSet& results);
// A line per row: scenario, label, status, reason, every parameter, every metric, warnings joined by "; ".
std::string wide_results_csv(const ResultSet& results);
std::string to_csv(const Table& table);
// A line per observation: of each process and round the phases of a run (tokenize, first token, prefill, each
// decode step, sampling, detokenize, total, end to end) and its rooflines; of a text the loss of each 16
// tokens, with their index as the step. Rows that name no process have the metric as phase.
std::string samples_csv(const ResultSet& results);

}  // namespace assay::report
