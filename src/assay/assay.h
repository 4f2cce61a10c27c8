// Everything the library offers to programs: load a model, generate under the clock, score a text, quantize a
// folder, run experiments, and report. It needs no other library's headers. What lies below it (backends,
// plans, checkpoints, the harness of experiments) has headers of its own, which change more often.
#pragma once

#include "assay/base/error_types.h"
#include "assay/config/run_config.h"
#include "assay/harness/context.h"
#include "assay/quantize/quantize.h"
#include "assay/report/files.h"
#include "assay/report/prose/prose.h"
#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/report/result_tables.h"
#include "assay/results/takeaways.h"
#include "assay/session/audit.h"
#include "assay/session/load.h"
#include "assay/session/perplexity.h"
#include "assay/session/static_ptq.h"
#include "assay/session/time_generate.h"
#include "assay/studies/bench.h"
#include "assay/studies/suite.h"
#include "assay/text/tokenizer.h"
