// The functions of a course on LLM inference, under the names that it gives them. Each header says what its
// function takes, gives and throws; here is what to call for which exercise.
//
//   load_model_and_tokenizer     candidates in order, a dtype, a device: model and tokenizer from one place
//   resolve_dtype                a dtype's name to what really runs: "float32 (forced on CPU)"
//   get_model_memory_footprint   bytes of parameters and buffers
//   time_generate                latency, tokens, tokens per second and milliseconds per token of one prompt
//   generate_text_and_time       the text without the prompt, and its latency
//   run_for_varied_lengths       a row per length of the prompt
//   run_varied_precision         a row per precision, with the label of what really ran
//   run_static_ptq_optimum       a model calibrated on a text and quantized to int8, as Optimum does it
//   ablate_cache_and_padding     with the KV cache and without; padding left, right and none
//   measure_batched              prompts of unlike lengths in batches
//   compare_ppplx                loss and perplexity of several models on the same sentences
//   probe_edge_prompts           very short, very long, multi-line and repetitive prompts
//   run_quantization_tradeoff    memory, latency and texts of several configurations
//   run_quantization_exercise    all of it in one run, ending with takeaways
//   build_results_table          one table of everything that was measured
//
// Where a function takes an ExperimentContext, a LocalExperiment (harness/context.h) over a loaded model
// converts to one.
#pragma once

#include "assay/harness/context.h"
#include "assay/report/result_tables.h"
#include "assay/session/load.h"
#include "assay/session/static_ptq.h"
#include "assay/session/time_generate.h"
#include "assay/studies/batched.h"
#include "assay/studies/cache_and_padding.h"
#include "assay/studies/compare_perplexity.h"
#include "assay/studies/edge_prompts.h"
#include "assay/studies/lengths.h"
#include "assay/studies/precisions.h"
#include "assay/studies/suite.h"
#include "assay/studies/tradeoff.h"
