// What a choice within a budget leaves out, as lines of a result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "assay/harness/budget.h"
#include "assay/results/choice.h"

namespace assay {

// A command that measures one study without a budget: only the cases of these values, or all where there are
// none.
using CommandOf =
    std::function<std::string(const std::string& study, const std::vector<std::string>& values)>;

// A line for the cases of each study that are not measured, and one for what the others have less of. Each
// predicts its command.
std::vector<LeftOut> left_out_of(const std::vector<CostedStudy>& studies, const Choice& choice,
                                 const CommandOf& command_of);

}  // namespace assay
