// assay interleave: two builds of the program, measured in turns and compared.
#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/process.h"
#include "assay/base/sha256.h"
#include "assay/checkpoint/source.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/gate.h"
#include "assay/cli/options.h"
#include "assay/cli/output_folder.h"
#include "assay/report/files.h"
#include "assay/session/perplexity.h"
#include "assay/studies/interleave.h"

namespace assay::cli {

namespace {

struct InterleaveFlags {
  std::string a, b, folder, corpus;
  ModelFlags model;
  PromptFlags prompt;
  GateFlags gate;
  OutputFlags output;
  std::int64_t processes = 0, repeats = 0, seed = 1, new_tokens = 50;
  double max_time_s = 600;
  bool skips_text = false;
  Reading reading() const { return {model.config.newlines, output.is_quiet}; }
};

// Its version, which every build tells.
std::string version_of(const std::string& program) {
  constexpr std::string_view kName = "assay ";
  if (program.find('/') != std::string::npos && !std::filesystem::exists(program))
    throw Error("{}: expected a program, a build of assay: no such file", program);
  ChildProcess child({program, "--version"});
  const ChildProcess::Answer answer = child.read_line(Seconds{10}, is_interrupted);
  if (answer.end == ChildProcess::End::stopped || is_interrupted()) throw Error("interrupted");
  if (answer.end != ChildProcess::End::line || answer.line.rfind(kName, 0) != 0)
    throw Error("{}: expected a build of assay, which answers --version with its name, found {}", program,
                answer.end == ChildProcess::End::line ? fmt::format("'{}'", answer.line.substr(0, 80))
                                                      : "a program that " + child.end());
  return answer.line.substr(kName.size());
}

// The smallest difference that a rule asks for, or that a margin leaves.
double detectable_of(const std::vector<FailureRule>& rules, double margin) {
  double smallest = 0;
  for (const FailureRule& rule : rules)
    if (rule.margin > 0 &&
        (rule.what == FailureRule::What::latency || rule.what == FailureRule::What::faster ||
         rule.what == FailureRule::What::throughput))
      smallest = smallest > 0 ? std::min(smallest, rule.margin) : rule.margin;
  return smallest > 0 ? smallest : margin;
}

void add_facts(ResultSet& results, const std::string& program, const std::string& version,
               const std::string& sha256, const std::string& command_line) {
  results.command = command_line;
  results.model.sha256 = sha256;
  results.build = {version, "", ""};
  results.configuration.emplace_back("program", program);
  if (is_interrupted()) results.status = RunStatus::interrupted;
}

int interleave(const InterleaveFlags& flags, const std::string& command_line) {
  const std::vector<FailureRule> rules = flags.gate.rules();
  const double margin = flags.gate.margin();
  if (flags.max_time_s <= 0)
    throw UsageError("--max-time: expected a number above 0, found {}", flags.max_time_s);
  const std::string version_a = version_of(flags.a), version_b = version_of(flags.b);
  if (!flags.folder.empty()) check_output_folder(flags.folder);
  Progress progress(flags.output.shows_progress());
  WorkerExperimentOptions workers;
  workers.program = {flags.a, "worker"};
  workers.other_program = {flags.b, "worker"};
  workers.candidates = candidates_of(flags.model.model);
  workers.common = flags.model.config;
  workers.baseline = flags.model.configuration();
  if (flags.processes > 0) workers.sweep.processes = flags.processes;
  if (flags.repeats > 0) workers.sweep.repeats = flags.repeats;
  workers.sweep.max_time_s = flags.max_time_s;
  workers.sweep.seed = static_cast<std::uint64_t>(flags.seed);
  workers.sweep.should_stop = is_interrupted;
  workers.sweep.on_progress = [&progress](const std::string& now, std::int64_t, std::int64_t,
                                          std::optional<double> left) {
    progress.show(time_left(left) + now);
  };
  const WorkerExperiment experiment(workers);
  InterleaveOptions options;
  options.precisions = words_of(flags.model.precision);
  if (!flags.prompt.is_empty()) options.prompts = flags.prompt.read(flags.reading());
  options.new_tokens = flags.new_tokens;
  options.scores_text = !flags.skips_text;
  if (!flags.corpus.empty()) {
    read_corpus(flags.corpus, flags.reading().newlines);  // bad ones are known before anything is said
    options.corpus = flags.corpus;
  }
  options.detectable = detectable_of(rules, margin);
  const std::string sha256 = experiment.source().content_hash();
  if (!flags.output.is_json && !flags.output.is_quiet)
    answer(fmt::format("A: {} (assay {})\nB: {} (assay {})\nModel: {}\n\n", flags.a, version_a, flags.b,
                       version_b, experiment.id()));
  Interleaved both = run_interleaved(experiment, options);
  progress.clear();
  add_facts(both.a, flags.a, version_a, sha256, command_line);
  add_facts(both.b, flags.b, version_b, sha256, command_line);
  nlohmann::ordered_json json{{"a", nullptr}, {"b", nullptr}};
  if (!flags.folder.empty())
    for (const auto& [name, results] : {std::pair("a", &both.a), std::pair("b", &both.b)}) {
      const std::filesystem::path folder = std::filesystem::path(flags.folder) / name;
      keep_earlier_run(folder, flags.output.is_quiet);
      const report::WrittenReports written = report::write_reports(*results, folder);
      json[name] = (folder / "results.json").string();
      if (!written.note.empty() && !flags.output.is_quiet) note(written.note);
    }
  const ComparedResults compared = compare_results(both.a, both.b, margin);
  if (is_interrupted()) {
    answer_comparison(compared, {}, flags.output.is_json, std::move(json));
    return kInterrupted;
  }
  if (compared.rows.empty() && compared.failed.empty()) {
    const auto failed = std::find_if(both.a.rows.begin(), both.a.rows.end(),
                                     [](const Row& row) { return row.status != RowStatus::ok; });
    throw Error("no case could be measured: {}", failed == both.a.rows.end() ? "none began" : failed->reason);
  }
  return answer_comparison(compared, rules, flags.output.is_json, std::move(json));
}

}  // namespace

void add_interleave(CLI::App& app, int& exit_code, const std::string& command_line) {
  auto flags = std::make_shared<InterleaveFlags>();
  CLI::App* command =
      app.add_subcommand("interleave", "Measure two builds of assay in turns, and compare them");
  command->add_option("A", flags->a, "The earlier build: its program")->required();
  command->add_option("B", flags->b, "The later build: its program")->required();
  flags->model.precision.clear();
  flags->model.add_to(*command);
  command->get_option("--precision")
      ->description("Precisions, joined by commas [float32]")
      ->type_name("LIST");
  command
      ->add_option("-p,--prompt", flags->prompt.prompts, "Prompt, a case of its own; repeat for more [one]")
      ->allow_extra_args(false);
  command->add_option("--prompts-file", flags->prompt.prompts_file, "File with a prompt on each line");
  add_whole(*command, "-n,--max-new-tokens", flags->new_tokens, "New tokens per prompt [50]", 1);
  command->add_option("--corpus", flags->corpus, "Text to score [the one that ships]");
  command->add_flag("--no-perplexity", flags->skips_text, "Score no text");
  add_whole(*command, "--processes", flags->processes,
            "Processes of each build, and no more [as many as the smallest bound of --fail-on needs, or else "
            "--margin]",
            1);
  add_whole(*command, "-r,--repeats", flags->repeats, "Timed runs of each case in each process [3 to 10]", 1);
  add_real(*command, "--max-time", flags->max_time_s,
           "Seconds after which no process of a precision is added [600]");
  add_whole(*command, "--seed", flags->seed, "Seed for the order of cases within a round [1]");
  flags->gate.add_to(*command);
  command->add_option("-o,--output", flags->folder,
                      "Folder for the results of both, in a/ and b/ [none: nothing is written]");
  flags->output.add_to(*command);
  command->footer("Example: assay interleave old/assay new/assay demo --fail-on latency:3%,perplexity:1%");
  command->callback([flags, command_line, &exit_code] { exit_code = interleave(*flags, command_line); });
}

}  // namespace assay::cli
