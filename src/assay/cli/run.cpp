// assay run: every study in one run, and its report.
#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/live_screen.h"
#include "assay/cli/measure.h"
#include "assay/cli/study_flags.h"
#include "assay/harness/sweep.h"
#include "assay/studies/precision_cases.h"
#include "assay/studies/suite_plan.h"
#include "assay/studies/task.h"

namespace assay::cli {

namespace {

constexpr const char* kShippedModel = "demo";

struct RunFlags {
  MeasureFlags measure;
  PromptFlags prompt;
  StudyFlags studies;
  std::string skipped, watched;
  std::int64_t max_new_tokens = 50;
  bool has_no_cache = false;
  const CLI::Option* tokens = nullptr;

  bool has_asked_tokens() const { return tokens->count() > 0; }
};

std::vector<const Study*> parts() {
  std::vector<const Study*> all;
  for (const Study& study : studies())
    if (study.is_in_suite) all.push_back(&study);
  return all;
}

std::vector<std::string> skippable() {
  std::vector<std::string> names;
  for (const Study* study : parts())
    if (study->can_be_skipped) names.push_back(study->name);
  return names;
}

// The items that ship come from the text of the model that ships, and measure it alone.
void add_shipped_task(const RunFlags& flags, std::any& options) {
  auto& own = std::any_cast<TaskOptions&>(options);
  if (own.file || flags.measure.model.model != kShippedModel || !flags.measure.others.empty()) return;
  own.file = shipped_file("tasks/continuations.jsonl");
  own.is_brief = true;
}

SuiteOptions options_of(const RunFlags& flags) {
  if (flags.measure.folder.empty()) throw UsageError("--output: expected a folder, found an empty name");
  PromptFlags prompt = flags.prompt;
  if (prompt.is_empty()) prompt.prompts_file = shipped_file("texts/prompts.txt").string();
  SuiteOptions options;
  options.precisions = flags.measure.precisions();
  options.prompts = prompt.read(flags.measure.reading());
  if (prompt.prompts.size() > 1) options.batch_prompts = options.prompts;
  options.new_tokens = flags.max_new_tokens;
  options.uses_cache = !flags.has_no_cache;
  options.truncation = flags.prompt.truncation();
  for (PlannedStudy& planned : flags.studies.plan(options.precisions, flags.measure.reading())) {
    if (planned.study->name == "task") add_shipped_task(flags, planned.options);
    if (planned.has_asked_cases) options.asked.insert(planned.study->name);
    options.studies[planned.study->name] = std::move(planned.options);
  }
  options.skipped = words_of(flags.skipped);
  if (!options.precisions.empty()) options.asked.insert({"trade-off", "perplexity"});
  if (!flags.prompt.is_empty()) options.asked.insert("baseline");
  options.has_asked_tokens = flags.has_asked_tokens();
  return options;
}

// Nothing is run, and nothing else is asked for.
void refuse_beside_watch(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_lnames().empty() ? "MODEL" : "--" + option->get_lnames().front();
    const bool is_known =
        name == "--watch" || name == "--json" || name == "--quiet" || name == "--no-progress";
    if (option->count() > 0 && !is_known)
      throw UsageError("--watch: expected no {} beside it: it shows a run that another command has begun",
                       name);
  }
}

int run_all(const RunFlags& flags, const CLI::App& command, const std::string& command_line) try {
  if (!flags.watched.empty()) {
    refuse_beside_watch(command);
    return watch_run(flags.watched, flags.measure.output);
  }
  SuiteOptions options = options_of(flags);
  Measuring measuring(flags.measure, command, command_line);
  measuring.name_baseline();
  const std::vector<Case> cases = suite_cases(measuring.experiment(), options);
  ExperimentContext& context = measuring.experiment();
  if (!options.precisions.empty())
    context.baseline = choose_configurations(context, options.precisions).configurations.front();
  const std::vector<PlannedStudy> plan = suite_plan(options);
  if (flags.measure.is_dry_run) return measuring.show_plan(cases, plan);
  const ResultSet head = measuring.new_results();
  measuring.begin();
  options.predicted_seconds = measuring.predicted_seconds();
  if (!flags.measure.output.is_json)
    answer(fmt::format("Loaded: {} | device={} | dtype={}\n", head.model.id,
                       context.sessions->facts(context.baseline).device, head.model.dtype));
  measuring.choose(plan);
  return measuring.finish(run_quantization_exercise(context, options));
} catch (const FieldError& error) {
  if (error.field() == "skipped") throw FieldError("skip", "{}", error.problem());
  throw flags.studies.named_by_flag(error);
}

}  // namespace

void add_run(CLI::App& app, int& exit_code, const std::string& command_line) {
  auto flags = std::make_shared<RunFlags>();
  flags->measure.model.model = kShippedModel;
  flags->measure.folder = "assay-results";
  flags->measure.time_s = 4;
  CLI::App* command = app.add_subcommand("run", "Run every study on a model and write a report");
  flags->measure.takes_models = true;
  flags->measure.add_to(*command, false);
  command->get_option("--output")
      ->description("Folder for the report, and for the journal that --resume reads [assay-results]");
  command->get_option("--time")->description(
      "Seconds that a study may spend on processes and runs beyond the minimum [4]");
  command->add_option("-p,--prompt", flags->prompt.prompts, "Prompt; repeat for more [the three that ship]")
      ->allow_extra_args(false);
  command->add_option("--prompts-file", flags->prompt.prompts_file, "File with a prompt on each line");
  command->add_option("--ids", flags->prompt.ids, "Prompt as token ids: 1,2,3");
  command->add_option(
      "--truncate", flags->prompt.truncate,
      "Side to cut a prompt on that exceeds the context: left, right or none [none: an error]");
  flags->tokens = add_whole(*command, "-n,--max-new-tokens", flags->max_new_tokens,
                            "New tokens per prompt; at most 16 in sweeps and ablations [50]", 1);
  flags->studies.add_to_run(*command, parts());
  command->add_option(
      "--skip", flags->skipped,
      fmt::format("Studies to leave out, joined by commas: {} [none]", fmt::join(skippable(), ",")));
  command->add_flag("--no-cache", flags->has_no_cache, "Generate the baseline without a KV cache");
  command->add_option(
      "--watch", flags->watched,
      "Folder of a run in another terminal: shows what it has measured until it ends, and then its results");
  command->footer("Example: assay run demo -o results");
  command->callback(
      [flags, command, command_line, &exit_code] { exit_code = run_all(*flags, *command, command_line); });
}

}  // namespace assay::cli
