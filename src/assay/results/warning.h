// Anything that disturbed or changed a measurement, attached to its row, with what to do about it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/results/named.h"

namespace assay {

struct Disturbance;  // machine/disturbance.h
struct GpuUse;       // machine/gpu_sensors.h

enum class WarningKind {
  other,  // from files that earlier versions wrote
  // How a model was loaded.
  model_files,
  non_finite_weights,
  format_fallback,
  bfloat16_emulated,
  mixed_arithmetic,
  tiles_refused,
  too_many_threads,
  tokenizer_too_large,
  generation_config,
  // What else the machine did.
  throttling,
  cpu_quota,
  cpu_frequency,
  steal,
  other_processes,
  context_switches,
  page_faults,
  migrations,
  gpu_throttling,
  gpu_frequency,
  gpu_shared,
  // What the samples show.
  nondeterministic,
  outliers,
  drift,
  too_few_runs,
  roofline_disturbed,
  // How a case differs from what was asked for.
  prompt_truncated,
  length_reduced,
  batch_reduced,
  partial_batch,
  duplicate_case,
  // Quality.
  perplexity_rise,
  worse_than_uniform,
  other_tokens,
  line_ends,
  bos_rule,
  other_protocol,
  shifted_border,
  few_items,
  calibrated_items,
};
inline constexpr int kWarningKinds = static_cast<int>(WarningKind::calibrated_items) + 1;

struct WarningInfo : Named<WarningKind> {
  std::string_view
      remedy;  // an imperative: "repeat with a fixed frequency governor"; empty where there is none
};
std::span<const WarningInfo> warning_kinds();
const WarningInfo& info_of(WarningKind kind);

struct Warning {
  WarningKind kind = WarningKind::other;
  std::string text;  // a clause without a capital and a full stop: what happened, and its likely effect
  // What was measured and the limit that it passed, in the unit of the text; empty where nothing is a number.
  std::optional<double> value = {}, limit = {};
  bool operator==(const Warning&) const = default;
};

// A warning for each counter above what a careful reader would let pass: steal above 1 % of the processors'
// time and other processes above 10 % (the kernel counts in hundredths of a second: neither below 0.2 s that
// were watched), threads that waited for a processor above 5 % of the time, more than 200 involuntary
// switches or 100 moves to another processor a second, pages read from a disk; processors that throttled
// themselves, waiting for a quota above 1 % of the time, and frequencies that differ by more than 10 % from
// run to run.
std::vector<Warning> warnings_of(const Disturbance& disturbance, int processors);

// What disturbed a GPU: heat or power slowed it down, its clock differed by more than 10 % from run to run,
// other processes held its memory.
std::vector<Warning> warnings_of(const GpuUse& use);

// A case that needed less time than its roofline allows: `percent` of it at least.
Warning roofline_warning(double percent);

}  // namespace assay
