// assay run: the main job, and its report.
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
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

BaselineOptions options_of(const Flags& flags) {
  if (flags.max_new_tokens < 1)
    throw UsageError("--max-new-tokens: expected a whole number from 1, found {}", flags.max_new_tokens);
  if (flags.repeats < 1)
    throw UsageError("--repeats: expected a whole number from 1, found {}", flags.repeats);
  if (flags.context < 0 || flags.stride < 0)
    throw UsageError("--context and --stride: expected no negative number");
  PromptFlags prompt = flags.prompt;
  if (prompt.is_empty()) prompt.prompts_file = shipped_file("texts/prompts.txt").string();
  BaselineOptions options;
  for (Prompt& p : prompt.read()) options.prompts.push_back(std::get<std::string>(std::move(p)));
  options.corpus =
      flags.corpus.empty() ? shipped_file("texts/evaluate.txt") : std::filesystem::path(flags.corpus);
  options.max_new_tokens = flags.max_new_tokens;
  options.repeats = flags.repeats;
  options.uses_cache = !flags.has_no_cache;
  options.context = flags.context;
  options.stride = flags.stride;
  options.should_stop = is_interrupted;
  return options;
}

int run(const Flags& flags, const std::string& command_line) {
  BaselineOptions options = options_of(flags);
  ensure_writable_folder(flags.folder);  // before the work, not after it
  const LoadedModel loaded = flags.model.load(true);
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
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    for (const auto& path : paths) files.push_back(path.string());
    answer_json({{"results", (std::filesystem::path(flags.folder) / "results.json").string()},
                 {"status", results.status},
                 {"files", files}});
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
      ->expected(1)
      ->take_all();
  command->add_option("--prompts-file", flags->prompt.prompts_file, "A file with a prompt on each line");
  command->add_option("-n,--max-new-tokens", flags->max_new_tokens, "New tokens per prompt (default 50)");
  command->add_option("-r,--repeats", flags->repeats, "Timed generations per prompt (default 3)");
  command->add_option("--corpus", flags->corpus, "The text to score (default: the one that ships)");
  command->add_option("--context", flags->context, "Tokens per window of the perplexity");
  command->add_option("--stride", flags->stride, "Tokens from window to window");
  command->add_flag("--no-cache", flags->has_no_cache, "Generate without a KV cache");
  command->add_option("-o,--output", flags->folder, "The folder to write to (default assay-results)");
  flags->output.add_to(*command);
  command->footer("Example: assay run demo -o results");
  command->callback([flags, command_line, &exit_code] { exit_code = run(*flags, command_line); });
}

void add_report(CLI::App& app, int& exit_code) {
  auto file = std::make_shared<std::string>();
  auto folder = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("report", "Write the reports of a results.json again, without a model");
  command->add_option("RESULTS", *file, "A results.json")->required();
  command->add_option("-o,--output", *folder, "The folder to write to (default: only print)");
  command->footer("Example: assay report assay-results/results.json -o copy");
  command->callback([file, folder, &exit_code] {
    const ResultSet results = read_results(*file);
    if (!folder->empty()) write_reports(results, *folder);
    answer(summary_text(results));
    exit_code = 0;
  });
}

}  // namespace assay::cli
