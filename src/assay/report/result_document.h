// The report of a result set, before it has a form.
#pragma once

#include "assay/report/document.h"
#include "assay/results/compare_results.h"
#include "assay/results/results.h"

namespace assay::report {

// Takeaways, recommendation, failed cases and warnings are its conclusions; then a section for each scenario,
// the generated texts, the audit, findings, figures, how it was measured, and every metric.
Document document_of(const ResultSet& results);

// The document of two runs: a row for each case in both, then what is not comparable and why.
Document document_of(const ComparedResults& compared);

// A line for each warning, the commonest first, with its remedy and the rows that carry it.
std::vector<std::string> grouped_warnings(const std::vector<Row>& rows);

}  // namespace assay::report
