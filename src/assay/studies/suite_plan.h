// What a run of every study is made of: for a dry run, and for the command line.
#pragma once

#include <vector>

#include "assay/studies/registry.h"
#include "assay/studies/suite.h"

namespace assay {

// The studies of a run, each with its options. Throws FieldError for a study that is not known.
std::vector<PlannedStudy> suite_plan(const SuiteOptions& options);

// All cases of a run: what a dry run shows.
std::vector<Case> suite_cases(const ExperimentContext& context, const SuiteOptions& options);

// A result set that says where and on what it was measured; what studies find is to be added. Loads the
// baseline where it is not loaded yet. Throws Error where it cannot be.
ResultSet new_results(const ExperimentContext& context);

}  // namespace assay
