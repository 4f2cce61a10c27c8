// assay run: the main job, and its report.
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/experiments/perplexity.h"
#include "assay/experiments/run_baseline.h"
#include "assay/report/files.h"
#include "assay/report/summary.h"

namespace assay::cli {

namespace {

struct Flags {
  ModelFlags model;
  OutputFlags output;
  PromptFlags prompt;
  std::string folder = "assay-results", corpus;
  std::int64_t max_new_tokens = 50, repeats = 3, context = 0, stride = 0;
  bool has_no_cache = false;
};

std::vector<std::string> names_of(const std::vector<std::filesystem::path>& paths) {
  return {paths.begin(), paths.end()};
}

BaselineOptions options_of(const Flags& flags) {
  if (flags.folder.empty()) throw UsageError("--output: expected a folder, found an empty name");
  PromptFlags prompt = flags.prompt;
  if (prompt.is_empty()) prompt.prompts_file = shipped_file("texts/prompts.txt").string();
  BaselineOptions options;
  options.prompts = prompt.read();
  options.corpus =
      flags.corpus.empty() ? shipped_file("texts/evaluate.txt") : std::filesystem::path(flags.corpus);
  read_corpus(options.corpus);  // what cannot be scored is known before the work
  options.max_new_tokens = flags.max_new_tokens;
  options.repeats = flags.repeats;
  options.uses_cache = !flags.has_no_cache;
  options.truncation = truncation_from_name(flags.prompt.truncate);
  options.context = flags.context;
  options.stride = flags.stride;
  options.should_stop = is_interrupted;
  return options;
}

int run(const Flags& flags, const std::string& command_line) {
  BaselineOptions options = options_of(flags);
  const LoadedModel loaded = flags.model.load(true);
  ensure_writable_folder(flags.folder);  // before the work, not after it
  if (!flags.output.is_json) answer(loaded.load_line() + "\n");
  Progress progress(flags.output.shows_progress());
  options.on_progress = [&](const std::string& now, std::int64_t done, std::int64_t all) {
    progress.show(fmt::format("[{}/{}] {}", done + 1, all, now));
  };
  ResultSet results = run_baseline(loaded, options);
  progress.clear();
  results.command = command_line;
  const auto paths = write_reports(results, flags.folder);
  if (flags.output.is_json) {
    answer_json({{"results", (std::filesystem::path(flags.folder) / "results.json").string()},
                 {"status", results.status},
                 {"files", names_of(paths)}});
  } else {
    answer(summary_text(results));
    std::string names;
    for (const auto& path : paths) names += " " + path.string();
    if (!flags.output.is_quiet) note("written:" + names);
  }
  if (results.status == "interrupted") return kInterrupted;
  const bool has_failures = std::any_of(results.rows.begin(), results.rows.end(),
                                        [](const Row& row) { return row.status != "ok"; });
  return has_failures ? kSomeCasesFailed : 0;
}

}  // namespace

void add_run(CLI::App& app, int& exit_code, const std::string& command_line) {
  auto flags = std::make_shared<Flags>();
  flags->model.model = "demo";
  CLI::App* command = app.add_subcommand("run", "Load, generate, time, score, and write the report");
  flags->model.add_to(*command, false);
  command
      ->add_option("-p,--prompt", flags->prompt.prompts,
                   "A prompt; again for more (default: the three that ship)")
      ->allow_extra_args(false);
  command->add_option("--prompts-file", flags->prompt.prompts_file, "A file with a prompt on each line");
  command->add_option("--ids", flags->prompt.ids, "A prompt as token ids: 1,2,3");
  command->add_option("--truncate", flags->prompt.truncate,
                      "left or right: cut a prompt that does not fit the context there");
  add_whole(*command, "-n,--max-new-tokens", flags->max_new_tokens, "New tokens per prompt (default 50)", 1);
  add_whole(*command, "-r,--repeats", flags->repeats, "Timed generations per prompt (default 3)", 1);
  command->add_option("--corpus", flags->corpus, "The text to score (default: the one that ships)");
  add_whole(*command, "--context", flags->context, "Tokens per window of the perplexity");
  add_whole(*command, "--stride", flags->stride, "Tokens from window to window");
  command->add_flag("--no-cache", flags->has_no_cache, "Generate without a KV cache");
  command->add_option("-o,--output", flags->folder, "The folder to write to (default assay-results)");
  flags->output.add_to(*command);
  command->footer("Example: assay run demo -o results");
  command->callback([flags, command_line, &exit_code] { exit_code = run(*flags, command_line); });
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
    if (!flags->folder.empty()) paths = write_reports(results, flags->folder);
    if (flags->is_json)
      answer_json({{"paths", names_of(paths)}});
    else
      answer(summary_text(results));
    exit_code = 0;
  });
}

}  // namespace assay::cli
