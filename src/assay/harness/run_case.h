// Runs a case on a loaded model, once.
#pragma once

#include "assay/harness/case.h"
#include "assay/harness/roofline.h"

namespace assay {

// Runs the case's batches one after another and times every phase. `roofline` is measured just before. Throws
// Error for prompts that cannot be run (time_generate.h), and "interrupted" once should_stop says so. `watch`
// has watched since the run before; null: from the beginning of this one.
Sample run_case(const LoadedModel& loaded, const Case& spec, Roofline* roofline = nullptr,
                const ShouldStop& should_stop = {}, DisturbanceWatch* watch = nullptr,
                GpuSensors* sensors = nullptr);

// A run whose time does not count: its texts, where its time goes, how much memory it takes. `held_before` is
// the anonymous memory of the process before the model was loaded.
FirstRun first_run(const LoadedModel& loaded, const Case& spec, Roofline& roofline, Bytes held_before,
                   const ShouldStop& should_stop = {});

}  // namespace assay
