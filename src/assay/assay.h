// Assay as a library.
//
//   #include "assay/assay.h"
//
//   auto model = assay::load("gpt2", {.precision = "nf4"});      // a folder, a cache entry, or "demo"
//   auto result = model.generate("Once", {.max_new_tokens = 40});  // .text, .ids, .tokens_per_sec
//   auto score = model.score("The sea was calm.");               // score.perplexity, score.loss
//   auto logits = model.logits(model.ids_of("The sea"));         // logits.row(0)[id]
//
// Options are structs with defaults: name what you change. What goes wrong is an exception whose what() is a
// sentence that names the file, tensor or option, what was expected, and what was found:
//
//   assay::Error        a bad file, a bad model, no memory
//   assay::UsageError   an invalid argument; assay::FieldError names the option
//   assay::Stopped      a should_stop callback said so: it is asked between the pieces of tensors while a
//                       model loads, between the pieces of a long prompt, and between new tokens
//
// To measure: time_generate() warms up and times one prompt; a study (studies/) runs many configurations side
// by side, and write_reports() leaves tables, plots, CSV and JSON. assay/exercises.h lists the functions for
// the exercises of a course on LLM inference. quantize_model() writes a quantized folder.
//
// No header of another library is needed. What lies below (backends, plans, checkpoints, the harness of
// experiments) has headers of its own, which change more often. A model is used by one thread at a time;
// several models may be used by several.
#pragma once

#include "assay/base/error_types.h"
#include "assay/config/run_config.h"
#include "assay/exercises.h"
#include "assay/harness/context.h"
#include "assay/quantize/quantize.h"
#include "assay/report/files.h"
#include "assay/report/prose/prose.h"
#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/report/result_tables.h"
#include "assay/results/takeaways.h"
#include "assay/session/audit.h"
#include "assay/session/language_model.h"
#include "assay/session/load.h"
#include "assay/session/perplexity.h"
#include "assay/session/static_ptq.h"
#include "assay/session/time_generate.h"
#include "assay/studies/bench.h"
#include "assay/studies/suite.h"
#include "assay/text/tokenizer.h"
