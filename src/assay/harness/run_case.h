// Runs a case on a loaded model, once.
#pragma once

#include "assay/harness/case.h"
#include "assay/harness/roofline.h"

namespace assay {

// Its batches one after another, every phase timed on its own. With `roofline`, the roofs are measured just
// before. Throws Error for prompts that cannot be (time_generate.h), "interrupted" where should_stop says so.
Sample run_case(const LoadedModel& loaded, const Case& what, Roofline* roofline = nullptr,
                const ShouldStop& should_stop = {});

// A run that is not timed: what it writes, where its time goes, what memory it takes. `held_before` is the
// anonymous memory of the process before the model was loaded.
FirstRun first_run(const LoadedModel& loaded, const Case& what, Roofline& roofline, Bytes held_before,
                   const ShouldStop& should_stop = {});

}  // namespace assay
