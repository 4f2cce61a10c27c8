// assay run: every experiment in one run, and its report.
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/measure.h"
#include "assay/harness/predict.h"
#include "assay/report/files.h"
#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/session/perplexity.h"

namespace assay::cli {

namespace {

struct Flags {
  MeasureFlags measure;
  PromptFlags prompt;
  std::string corpus, skipped;
  std::vector<std::int64_t> lengths, batches, ablation_lengths;
  std::int64_t max_new_tokens = 50, context = 0, stride = 0, noise_pairs = 20;
  bool has_no_cache = false;
};

SuiteOptions options_of(const Flags& flags) {
  if (flags.measure.folder.empty()) throw UsageError("--output: expected a folder, found an empty name");
  PromptFlags prompt = flags.prompt;
  if (prompt.is_empty()) prompt.prompts_file = shipped_file("texts/prompts.txt").string();
  SuiteOptions options;
  options.precisions = flags.measure.precisions();
  options.prompts = prompt.read();
  options.corpus =
      flags.corpus.empty() ? shipped_file("texts/evaluate.txt") : std::filesystem::path(flags.corpus);
  options.new_tokens = flags.max_new_tokens;
  // Along the axes fewer say as much, and a run ends sooner.
  constexpr std::int64_t kAxisTokens = 32;
  options.lengths.new_tokens = options.batches.new_tokens = options.ablation.new_tokens =
      options.edge_new_tokens = std::min(kAxisTokens, flags.max_new_tokens);
  options.uses_cache = !flags.has_no_cache;
  options.truncation = truncation_from_name(flags.prompt.truncate);
  options.context = flags.context;
  options.stride = flags.stride;
  options.noise_pairs = static_cast<int>(flags.noise_pairs);
  options.skipped = words_of(flags.skipped);
  // What cannot be scored is known before the work.
  if (std::find(options.skipped.begin(), options.skipped.end(), "perplexity") == options.skipped.end())
    read_corpus(options.corpus);
  if (!flags.lengths.empty()) options.lengths.lengths = flags.lengths;
  if (!flags.batches.empty()) options.batches.batch_sizes = flags.batches;
  if (!flags.ablation_lengths.empty()) options.ablation.lengths = flags.ablation_lengths;
  if (prompt.prompts.size() > 1) options.batches.prompts = options.prompts;
  return options;
}

int run(const Flags& flags, const CLI::App& command, const std::string& command_line) {
  SuiteOptions options = options_of(flags);
  Measuring measuring(flags.measure, command, command_line);
  if (flags.measure.is_dry_run) return measuring.show_plan(suite_cases(measuring.experiment(), options));
  suite_cases(measuring.experiment(), options);
  ExperimentContext& experiment = measuring.experiment();
  if (!options.precisions.empty())
    experiment.baseline = choose_configurations(experiment, options.precisions).configurations.front();
  if (flags.measure.output.shows_progress())
    options.predicted_seconds = seconds_predictor(experiment, measuring.workers().folder());
  const ResultSet head = measuring.new_results();
  if (!flags.measure.output.is_json)
    answer(fmt::format("Loaded: {} | device={} | dtype={}\n", head.model.id,
                       experiment.sessions->facts(experiment.baseline).device, head.model.dtype));
  return measuring.finish(run_quantization_exercise(experiment, options));
}

std::vector<std::string> names_of(const std::vector<std::filesystem::path>& paths) {
  return {paths.begin(), paths.end()};
}

}  // namespace

void add_run(CLI::App& app, int& exit_code, const std::string& command_line) {
  auto flags = std::make_shared<Flags>();
  flags->measure.model.model = "demo";
  flags->measure.folder = "assay-results";
  flags->measure.time_s = 4;
  CLI::App* command = app.add_subcommand("run", "Every experiment in one run, and its report");
  flags->measure.add_to(*command, false);
  command
      ->add_option("-p,--prompt", flags->prompt.prompts,
                   "A prompt; again for more (default: the three that ship)")
      ->allow_extra_args(false);
  command->add_option("--prompts-file", flags->prompt.prompts_file, "A file with a prompt on each line");
  command->add_option("--ids", flags->prompt.ids, "A prompt as token ids: 1,2,3");
  command->add_option("--truncate", flags->prompt.truncate,
                      "left or right: cut a prompt that does not fit the context there");
  add_whole(*command, "-n,--max-new-tokens", flags->max_new_tokens,
            "New tokens per prompt (default 50; along the axes 32 at most)", 1);
  add_whole_list(*command, "--lengths", flags->lengths,
                 "Prompt lengths in tokens (default 32,128,512,0; 0: the longest that fits)");
  add_whole_list(*command, "--ablation-lengths", flags->ablation_lengths,
                 "Prompt lengths of the cache's ablation (default 32,128)", 1);
  add_whole_list(*command, "--batch-size", flags->batches, "Batch sizes (default 1,4,8)", 1);
  command->add_option("--corpus", flags->corpus, "The text to score (default: the one that ships)");
  add_whole(*command, "--context", flags->context, "Tokens per window of the perplexity");
  add_whole(*command, "--stride", flags->stride, "Tokens from window to window");
  add_whole(*command, "--noise-pairs", flags->noise_pairs,
            "Runs of equals before anything else (default 20; 0: none)");
  command->add_option("--skip", flags->skipped,
                      "Parts to leave out: noise,trade-off,lengths,ablation,batches,perplexity,edge");
  command->add_flag("--no-cache", flags->has_no_cache, "Generate the baseline without a KV cache");
  command->footer("Example: assay run demo -o results");
  command->callback(
      [flags, command, command_line, &exit_code] { exit_code = run(*flags, *command, command_line); });
}

void add_report(CLI::App& app, int& exit_code) {
  struct ReportFlags {
    std::string file, folder;
    bool is_json = false;
  };
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command =
      app.add_subcommand("report", "Write the reports of a results.json again, without a model");
  command->add_option("RESULTS", flags->file, "A results.json")->required();
  command->add_option("-o,--output", flags->folder, "The folder to write to (default: only print)");
  command->add_flag("--json", flags->is_json, "The paths written, as JSON");
  command->footer("Example: assay report assay-results/results.json -o copy");
  command->callback([flags, &exit_code] {
    const ResultSet results = read_results(flags->file);
    std::vector<std::filesystem::path> paths;
    if (!flags->folder.empty()) {
      const WrittenReports written = write_reports(results, flags->folder);
      paths = written.paths;
      if (!written.note.empty()) note(written.note);
    }
    if (flags->is_json)
      answer_json({{"paths", names_of(paths)}});
    else
      answer_text(
          to_terminal(document_of(results), terminal_width()) +
          fmt::format("\nThese are the results of {}{}.\n", flags->file,
                      flags->folder.empty()
                          ? ""
                          : "; open " + (std::filesystem::path(flags->folder) / "report.md").string()));
    exit_code = 0;
  });
}

}  // namespace assay::cli
