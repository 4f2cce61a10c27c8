// assay diverge: how far candidates are from a baseline, token by token on one text.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/process.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/divergence_view.h"
#include "assay/cli/gate.h"
#include "assay/cli/options.h"
#include "assay/cli/other_model.h"
#include "assay/report/prose/prose.h"
#include "assay/results/compare_results.h"
#include "assay/session/corpus_beginning.h"
#include "assay/session/resolve.h"
#include "assay/studies/measured_divergence.h"
#include "assay/studies/precision_cases.h"

namespace assay::cli {

namespace {

// Greedy generation that is compared with the baseline's: from so many tokens of the text, so many new ones.
constexpr std::int64_t kGreedyPrompt = 32, kGreedyTokens = 64;
constexpr int kLimitBroken = 4;

struct DivergeFlags {
  ModelFlags model;  // the baseline
  std::vector<std::string> candidates;
  OutputFlags output;
  std::string file;
  std::int64_t context = 0, stride = 0, max_tokens = 0, sample = 0, worst = 3, memory_mb = 0;
  double timeout_s = 3600;
  std::string fail_on;
  bool is_ids = false, has_no_floor = false;
};

WorkerExperimentOptions options_of(const DivergeFlags& flags) {
  WorkerExperimentOptions options;
  options.program = {own_program(), "worker"};
  options.candidates = candidates_of(flags.model.model);
  for (const std::string& word : flags.candidates)
    if (!is_precision(word, flags.model.config))
      options.other_models.push_back(model_or_precision("CANDIDATE", word, flags.model.config));
  options.common = flags.model.config;
  options.baseline = flags.model.precision == kAutoPrecision
                         ? flags.model.config
                         : run_config_from_text(flags.model.precision, flags.model.config);
  options.needs_tokenizer = !flags.is_ids;
  if (flags.memory_mb > 0) options.memory_budget = Bytes{flags.memory_mb << 20};
  options.case_time_limit = {flags.timeout_s};
  options.sweep.should_stop = is_interrupted;
  return options;
}

// The baseline, then the candidates as they were given. Throws UsageError for one that is given twice.
std::vector<RunConfig> configurations_of(const DivergeFlags& flags, const ExperimentContext& context) {
  require_stored(flags.model.precision, context.model_of(context.baseline).is_quantized_already);
  std::vector<RunConfig> all{resolved_for_device(context.baseline)};
  std::vector<RunConfig> stored;  // what each model runs as, the baseline's first
  if (!context.models.empty())
    stored = choose_configurations(context, {std::string(kAutoPrecision)}).configurations;
  std::size_t model = 1;
  for (const std::string& word : flags.candidates) {
    RunConfig own;
    if (is_precision(word, flags.model.config)) {
      RunConfig common = flags.model.config;
      common.model = context.baseline.model;
      require_stored(word, context.model_of(common).is_quantized_already);
      own = context.with_origin(resolved_for_device(run_config_from_text(word, common)));
    } else {
      own = stored.at(model++);
    }
    if (std::find(all.begin() + 1, all.end(), own) != all.end())
      throw UsageError("CANDIDATE: expected one that is not given yet, found '{}', which is {}", word,
                       own.label());
    all.push_back(std::move(own));
  }
  return all;
}

DivergeRequest request_of(const DivergeFlags& flags) {
  const auto unless_0 = [](std::int64_t number) {
    return number == 0 ? std::nullopt : std::optional(number);
  };
  DivergeRequest request;
  if (flags.sample > 0) {
    request.sample_tokens = flags.sample;
  } else if (flags.is_ids) {
    request.ids = ids_from_text(read_input(flags.file), flags.file);
  } else {
    const std::filesystem::path file =
        flags.file.empty() ? shipped_file("texts/evaluate.txt") : std::filesystem::path(flags.file);
    read_corpus_beginning(file, flags.model.config.newlines,
                          0);  // what is wrong is said before a worker starts
    request.file = std::filesystem::absolute(file).string();
  }
  request.context = unless_0(flags.context);
  request.stride = unless_0(flags.stride);
  request.max_tokens = unless_0(flags.max_tokens);
  request.greedy_prompt = kGreedyPrompt;
  request.greedy_tokens = kGreedyTokens;
  return request;
}

std::vector<FailureRule> limits_of(const DivergeFlags& flags) {
  std::vector<FailureRule> rules;
  if (!flags.fail_on.empty()) rules = failure_rules(flags.fail_on);
  for (const FailureRule& rule : rules)
    if (!rule.is_limit())
      throw UsageError(
          "--fail-on: expected kl:NATS or agreement:SHARE, which assay diverge measures, found '{}'",
          rule.text);
  return rules;
}

std::vector<QualityRow> quality_of(const MeasuredDivergences& found) {
  std::vector<QualityRow> rows;
  for (const MeasuredCandidate& candidate : found.candidates)
    if (candidate.figures)
      for (const auto& [metric, estimate] : {std::pair(kKlMetric, &candidate.figures->kl_mean),
                                             std::pair(kAgreementMetric, &candidate.figures->top1_agreement)})
        rows.push_back({.label = candidate.configuration.label(),
                        .metric = std::string(metric),
                        .b = estimate->value,
                        .interval = estimate->interval,
                        .count = candidate.figures->tokens});
  return rows;
}

// Says which limits are broken. Throws Error where none is, no candidate failed, and a limit is undecided.
int exit_code_of(const MeasuredDivergences& found, std::span<const QualityRow> rows,
                 const std::vector<FailureRule>& rules) {
  bool is_broken = false;
  std::string undecided;
  std::size_t together = 0;
  for (std::size_t i = 0; i < rules.size(); ++i) try {
      const RuleOutcome outcome = judge_quality(rows, rules, i);
      together = static_cast<std::size_t>(outcome.limits_judged);
      for (const std::string& line : outcome.beyond_limit) {
        note(fmt::format("--fail-on {} is broken: {}", rules[i].text, line));
        is_broken = true;
      }
    } catch (const Error& error) {
      if (undecided.empty()) undecided = error.what();
    }
  if (together > 1) note(limits_note(together));
  if (is_broken) return kLimitBroken;
  for (const MeasuredCandidate& candidate : found.candidates)
    if (!candidate.failure.empty()) return kSomeCasesFailed;
  if (!undecided.empty()) throw Error("{}", undecided);
  return 0;
}

int run_diverge(const DivergeFlags& flags) {
  const std::vector<FailureRule> rules = limits_of(flags);
  if (flags.sample > 0 && (!flags.file.empty() || flags.is_ids || flags.stride > 0 || flags.max_tokens > 0))
    throw UsageError(
        "--sample: expected no --text, --ids, --stride or --max-tokens beside it: the baseline "
        "writes the text, and its sequences are the windows");
  if (flags.is_ids && flags.file.empty()) throw UsageError("--ids: needs --text, the file of token ids");
  const DivergeRequest request = request_of(flags);
  WorkerExperimentOptions options = options_of(flags);
  Progress progress(flags.output.shows_progress());
  options.sweep.on_progress = [&](const std::string& now, std::int64_t, std::int64_t, std::optional<double>) {
    progress.show(now);
  };
  WorkerExperiment experiment(options);
  const ExperimentContext& context = experiment.get();
  const MeasuredDivergences found =
      measure_divergences(context, {configurations_of(flags, context), request, !flags.has_no_floor});
  progress.clear();
  if (found.is_interrupted) throw Stopped("interrupted");
  const std::vector<QualityRow> rows = quality_of(found);
  const DivergenceView view{found,
                            compare_pairs(found.candidates),
                            rules,
                            judge_limits(rows, rules),
                            context.tokenizer.get(),
                            static_cast<std::size_t>(flags.worst)};
  if (flags.output.is_json) {
    answer_json("divergence", view.json());
  } else {
    answer(view.text(table_width()));
    if (!flags.output.is_quiet)
      for (const std::string& line : view.notes()) note(line);
    if (!flags.output.is_quiet && flags.file.empty() && flags.sample == 0 && flags.model.model != "demo")
      note(
          "The text is the English one that ships: --text FILE takes yours, and --sample one that the "
          "baseline "
          "writes.");
  }
  for (const MeasuredCandidate& candidate : found.candidates)
    if (!candidate.failure.empty() && !flags.output.is_json)
      note(fmt::format("error: {}: {}", candidate.configuration.label(), candidate.failure));
  return exit_code_of(found, rows, rules);
}

}  // namespace

void add_diverge(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<DivergeFlags>();
  CLI::App* command = app.add_subcommand(
      "diverge", "Measure how far quantized models are from a baseline, token by token (KL divergence)");
  command
      ->add_option("BASE", flags->model.model,
                   "Baseline: a folder, a GGUF file, a Hugging Face cache entry or demo")
      ->required();
  command
      ->add_option("CANDIDATE", flags->candidates,
                   "Precisions or recipes of the baseline's model (nf4, int8-dynamic+head, recipe:FILE), or "
                   "other models of its vocabulary")
      ->required();
  command->add_option("--precision", flags->model.precision,
                      "Precision of the baseline [float32, or what a quantized checkpoint holds]");
  flags->model.add_fields_but(*command, {"recipe"});
  command->add_option("--text", flags->file, "Text file in UTF-8 [the evaluation text that ships]");
  command->add_flag("--ids", flags->is_ids, "Read token ids from the file, not text");
  add_sample_flag(*command, flags->sample);
  add_whole(*command, "--context", flags->context,
            "Tokens per window; 0: the shortest of the models' contexts [0]");
  add_whole(*command, "--stride", flags->stride,
            "Tokens from one window to the next; 0: half the context [0]");
  add_whole(*command, "--max-tokens", flags->max_tokens, "First tokens of the text to compare; 0: all [0]");
  add_whole(*command, "--worst", flags->worst, "Tokens of the largest KL to show in context [3]", 0, 1000);
  command
      ->add_option("--fail-on", flags->fail_on,
                   "Exit with code 4 if a candidate's interval lies beyond a limit (kl:0.02 in nats, "
                   "agreement:0.98), joined by commas [none]")
      ->check(not_empty);
  command->add_flag("--no-noise-floor", flags->has_no_floor,
                    "Leave out the baseline's comparison with itself in bfloat16");
  add_whole(*command, "--max-memory", flags->memory_mb,
            "Memory limit of the models that are loaded together, in MiB [90 % of the available memory]", 1);
  add_real(*command, "--case-timeout", flags->timeout_s, "Seconds that one pass may take [3600]");
  flags->output.add_to(*command);
  command->footer("Example: assay diverge demo nf4 fp4 int8-dynamic --fail-on kl:0.1");
  command->callback([flags, &exit_code] { exit_code = run_diverge(*flags); });
}

}  // namespace assay::cli
