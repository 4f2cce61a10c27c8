// Which of the configurations of a comparison a name means.
#pragma once

#include <string>
#include <vector>

#include "assay/config/run_config.h"
#include "assay/harness/context.h"

namespace assay {

// The configuration that `name` stands for among those that `precisions` ask for (empty: those that a study
// compares by itself): by its label, by the precision as it was given (of several models the first's), or by
// its model: the name, or a path to the same files. Throws FieldError("baseline") with all names for another.
RunConfig find_baseline(const ExperimentContext& context, const std::vector<std::string>& precisions,
                        const std::string& name);

}  // namespace assay
