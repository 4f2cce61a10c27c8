// Everything the library offers to programs: load a model, generate under the clock, score a text, report.
#pragma once

#include "assay/report/files.h"
#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/report/result_tables.h"
#include "assay/results/takeaways.h"
#include "assay/session/audit.h"
#include "assay/session/load.h"
#include "assay/session/perplexity.h"
#include "assay/session/static_ptq.h"
#include "assay/session/time_generate.h"
#include "assay/studies/suite.h"
