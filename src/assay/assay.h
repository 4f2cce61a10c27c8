// Everything the library offers to programs: load a model, generate under the clock, score a text, report.
#pragma once

#include "assay/experiments/audit.h"
#include "assay/experiments/exercise.h"
#include "assay/experiments/load.h"
#include "assay/experiments/perplexity.h"
#include "assay/experiments/static_ptq.h"
#include "assay/experiments/time_generate.h"
#include "assay/report/files.h"
#include "assay/report/summary.h"
#include "assay/report/table.h"
