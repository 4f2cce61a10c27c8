#include "assay/results/warning.h"

#include <cmath>

#include <initializer_list>

#include "assay/base/format.h"
#include "assay/machine/disturbance.h"
#include "assay/machine/gpu_sensors.h"

namespace assay {

namespace {

using Kind = WarningKind;
constexpr WarningInfo kWarningTable[] = {
    {{Kind::other, "other", "Other", "A warning of an earlier version, which knew no kinds."}, ""},
    {{Kind::model_files, "model_files", "Files of the model",
      "The model's files hold something that was not used, or do not fit each other."},
     "check that the files belong to one model, unless this is usual for its checkpoints"},
    {{Kind::non_finite_weights, "non_finite_weights", "Weights that are not finite",
      "NaN or infinity among the weights was replaced."},
     "check the checkpoint"},
    {{Kind::format_fallback, "format_fallback", "Weights in another format",
      "Blocks of the format do not divide the inputs of some weights, which are in another, as in "
      "llama.cpp."},
     "choose a format whose blocks divide them, such as q8_0"},
    {{Kind::bfloat16_emulated, "bfloat16_emulated", "bfloat16 without its arithmetic",
      "Values are stored in bfloat16, but the arithmetic is float32."},
     "use a processor with AMX or AVX-512 BF16 for bfloat16 arithmetic"},
    {{Kind::mixed_arithmetic, "mixed_arithmetic", "Prefill and decode compute differently",
      "Quality that is scored through prefill does not cover the arithmetic of decode."},
     "score through decode too"},
    {{Kind::tiles_refused, "tiles_refused", "AMX is not available",
      "The processor has AMX, but the system does not allow it; slower kernels run."},
     "allow AMX in the operating system or the container"},
    {{Kind::too_many_threads, "too_many_threads", "More threads than processors",
      "Threads wait for each other, so figures are slower and less steady."},
     "use at most one thread per processor"},
    {{Kind::tokenizer_too_large, "tokenizer_too_large", "Tokenizer and model disagree",
      "The tokenizer knows tokens that the model has no embedding for."},
     "use the tokenizer that was trained with the model"},
    {{Kind::generation_config, "generation_config", "Generation configuration not followed",
      "Greedy decoding here takes the most probable token, and Transformers' generate() another."},
     "see in docs/usage.md which keys assay generate --generation-config model follows"},
    {{Kind::throttling, "throttling", "Throttled processor",
      "Heat or power limits slowed the processor down."},
     "improve the cooling and repeat"},
    {{Kind::cpu_quota, "cpu_quota", "CPU quota", "A control group kept the process from running."},
     "raise the quota or use fewer threads"},
    {{Kind::cpu_frequency, "cpu_frequency", "Changing CPU frequency",
      "The processor's frequency was not the same in all runs."},
     "repeat with a fixed frequency governor"},
    {{Kind::steal, "steal", "Stolen processor time", "The hypervisor gave processor time to other guests."},
     "repeat on a dedicated host"},
    {{Kind::other_processes, "other_processes", "Busy machine",
      "Other processes used the processors meanwhile."},
     "stop other programs and repeat"},
    {{Kind::context_switches, "context_switches", "Interrupted runs",
      "The scheduler interrupted the process often."},
     "stop other processes or use fewer threads, and repeat"},
    {{Kind::page_faults, "page_faults", "Pages read from a disk",
      "Memory of the process was swapped out or its files were not in memory."},
     "free memory and repeat"},
    {{Kind::migrations, "migrations", "Moved threads",
      "The scheduler moved threads to other processors, whose caches were cold."},
     "stop other processes or use --cpu-mask, and repeat"},
    {{Kind::gpu_throttling, "gpu_throttling", "Throttled GPU", "Heat or a power limit slowed the GPU down."},
     "improve the cooling or raise the power limit, and repeat"},
    {{Kind::gpu_frequency, "gpu_frequency", "Changing GPU clock",
      "The GPU's clock was not the same in all runs."},
     "lock the clock (nvidia-smi -lgc) or measure longer, and repeat"},
    {{Kind::gpu_shared, "gpu_shared", "GPU used by others", "Other processes used the GPU meanwhile."},
     "end them (see nvidia-smi) or use another GPU, and repeat"},
    {{Kind::nondeterministic, "nondeterministic", "Equal runs with different output",
      "Greedy generation must give the same token ids each time."},
     "do not trust this row, and report the case"},
    {{Kind::outliers, "outliers", "Outliers", "Many runs lie far from the median; they are kept."},
     "repeat on an idle machine"},
    {{Kind::drift, "drift", "Drift", "Runs became slower or faster as time passed."},
     "repeat after the machine has settled"},
    {{Kind::too_few_runs, "too_few_runs", "Too few processes",
      "Runs of one process share what differs from process to process, so there is no verdict."},
     "measure in 3 processes, better 5 or more"},
    {{Kind::roofline_disturbed, "roofline_disturbed", "Roofline measured too low",
      "A case cannot be faster than its roofline, so the roofline's measurement was disturbed."},
     "repeat on an idle machine"},
    {{Kind::prompt_truncated, "prompt_truncated", "Truncated prompt",
      "The prompt and its new tokens do not fit the model's context."},
     "use a shorter prompt or fewer new tokens"},
    {{Kind::length_reduced, "length_reduced", "Shorter prompt than asked for",
      "The prompt and its new tokens do not fit the model's context."},
     "ask for shorter prompts or fewer new tokens"},
    {{Kind::batch_reduced, "batch_reduced", "Smaller batch than asked for", "There are not enough prompts."},
     "give more prompts"},
    {{Kind::partial_batch, "partial_batch", "Partial last batch",
      "The last batch holds fewer sequences than the others."},
     "choose a batch size that divides the number of prompts"},
    {{Kind::duplicate_case, "duplicate_case", "Duplicate case", "Equal cases are measured once."},
     "leave out the duplicate"},
    {{Kind::perplexity_rise, "perplexity_rise", "Sudden rise of perplexity",
      "Perplexity is far above the baseline's."},
     "check tokenization and aggregation"},
    {{Kind::worse_than_uniform, "worse_than_uniform", "Perplexity no better than guessing",
      "A model that knows nothing has the perplexity of its vocabulary's size."},
     "check the tokenizer and the weights"},
    {{Kind::other_tokens, "other_tokens", "Other tokens than the baseline's",
      "Two models cut the text into different tokens, of which each has its own perplexity."},
     "compare models of one tokenizer"},
    {{Kind::line_ends, "line_ends", "Line ends of a text changed",
      "A text was read as Python reads it: CR LF and CR as LF, and without a byte order mark."},
     "use --newlines keep for the bytes as they are"},
    {{Kind::bos_rule, "bos_rule", "Beginning-of-text token in another place",
      "A model predicts worse where the token that begins each of its texts is missing, or is new to it."},
     "leave out --bos for the tokenizer's own rule; --bos replace begins every window with the token"},
    {{Kind::other_protocol, "other_protocol", "Another protocol than the baseline's",
      "Perplexities by different protocols score other tokens, or the same with another context."},
     "score both by one protocol"},
    {{Kind::shifted_border, "shifted_border", "Tokens across a border",
      "The tokenizer merges the end of a prompt with the beginning of what is scored after it."},
     "end prompts at the end of a word, and begin choices with one"},
    {{Kind::few_items, "few_items", "Few items",
      "The accuracy of a few items says little: another few would give another."},
     "take 100 items or more"},
    {{Kind::calibrated_items, "calibrated_items", "Items in the calibration text",
      "A model that was calibrated on items of a task may answer them better than others."},
     "calibrate on another text"},
};
static_assert(std::size(kWarningTable) == kWarningKinds);

}  // namespace

std::span<const WarningInfo> warning_kinds() {
  return kWarningTable;
}
const WarningInfo& info_of(WarningKind kind) {
  return entry_of(warning_kinds(), kind);
}

std::vector<Warning> warnings_of(const Disturbance& d, int processors) {
  const double available = d.seconds * std::max(1, processors);
  if (available <= 0) return {};
  std::vector<Warning> warnings;
  constexpr double kShortest = 0.2;
  // What is counted exactly needs no length, but enough counts to be a rate: three deviations below.
  const auto at_least = [](std::int64_t count) {
    const auto n = static_cast<double>(count);
    return n - 3 * std::sqrt(n);
  };
  // In steps, so that rows that were disturbed alike say the same.
  const auto add = [&](double value, std::initializer_list<double> steps, WarningKind kind,
                       const char* text) {
    double passed = 0;
    for (const double step : steps)
      if (value > step) passed = step;
    if (passed > 0)
      warnings.push_back({kind, fmt::format(fmt::runtime(text), passed), value, *steps.begin()});
  };
  if (d.throttle_events > 0)
    warnings.push_back({WarningKind::throttling,
                        "the processor throttled itself during the runs because of heat or power",
                        static_cast<double>(d.throttle_events), 0});
  add(100 * d.quota_wait_s / available, {1, 10, 50}, WarningKind::cpu_quota,
      "a control group's CPU quota withheld more than {:g} % of the processors' time during the runs");
  if (d.lowest_mhz > 0)
    add(100 * (d.highest_mhz / d.lowest_mhz - 1), {10, 25, 50}, WarningKind::cpu_frequency,
        "the processor's frequency varied by more than {:g} % from run to run");
  // Time that is stolen is stolen from whoever runs: the pauses between the runs tell of it too.
  if (d.watched_s >= kShortest && d.watched_s > d.seconds)
    add(100 * d.watched_stolen_cpu_s / (d.watched_s * std::max(1, processors)), {1, 5, 20},
        WarningKind::steal,
        "the hypervisor withheld more than {:g} % of the processors' time during the runs");
  else if (d.seconds >= kShortest)
    add(100 * d.stolen_cpu_s / available, {1, 5, 20}, WarningKind::steal,
        "the hypervisor withheld more than {:g} % of the processors' time during the runs");
  if (d.seconds >= kShortest)
    add(100 * d.other_cpu_s / available, {10, 25, 50}, WarningKind::other_processes,
        "other processes used more than {:g} % of the processors' time during the runs");
  add(100 * d.processor_wait_s / available, {5, 20, 50}, WarningKind::other_processes,
      "threads waited more than {:g} % of the time for a processor that was busy with other work");
  add(at_least(d.involuntary_switches) / d.seconds, {200, 1000}, WarningKind::context_switches,
      "the scheduler interrupted the runs more than {:g} times a second");
  add(at_least(d.migrations) / d.seconds, {100, 1000}, WarningKind::migrations,
      "the scheduler moved threads to another processor more than {:g} times a second");
  if (d.major_faults > 0)
    warnings.push_back({WarningKind::page_faults, "pages had to be read from a disk during the runs",
                        static_cast<double>(d.major_faults), 0});
  return warnings;
}

std::vector<Warning> warnings_of(const GpuUse& use) {
  std::vector<Warning> warnings;
  if (use.was_slowed_by_heat)
    warnings.push_back({WarningKind::gpu_throttling, "the GPU slowed itself down because of heat"});
  if (use.was_slowed_by_power)
    warnings.push_back(
        {WarningKind::gpu_throttling, "the GPU slowed itself down because of its power limit"});
  constexpr double kVaries = 1.1;
  if (use.lowest_mhz > 0 && use.highest_mhz > kVaries * use.lowest_mhz)
    warnings.push_back({WarningKind::gpu_frequency,
                        "the GPU's clock varied by more than 10 % from run to run",
                        100 * (use.highest_mhz / use.lowest_mhz - 1), 100 * (kVaries - 1)});
  if (use.others > 0)
    warnings.push_back({WarningKind::gpu_shared,
                        fmt::format("{} other process{} used the GPU during the runs", use.others,
                                    use.others == 1 ? "" : "es"),
                        static_cast<double>(use.others), 0});
  return warnings;
}

Warning roofline_warning(double percent) {
  return {WarningKind::roofline_disturbed,
          fmt::format("the measurement reached at least {:.0f} % of the roofline", percent), percent, 100};
}

}  // namespace assay
