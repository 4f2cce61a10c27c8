// What files of earlier versions called a configuration.
#pragma once

#include <string>

#include "assay/results/results.h"

namespace assay {

// "nf4+head:int8, dtype bfloat16" of "nf4, dtype bfloat16, lm_head int8": what users type, as rows are called
// now. Any other text as it is.
std::string current_name(std::string name);

// Renames every configuration of a result set, so that its rows meet those of a later file.
void use_current_names(ResultSet& results);

}  // namespace assay
