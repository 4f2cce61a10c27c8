#include "assay/cli/measure.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/sha256.h"
#include "assay/checkpoint/source.h"
#include "assay/cli/commands.h"
#include "assay/cli/config.h"
#include "assay/cli/other_model.h"
#include "assay/cli/output_folder.h"
#include "assay/harness/case_json.h"
#include "assay/harness/journal.h"
#include "assay/harness/predict.h"
#include "assay/harness/sweep.h"
#include "assay/harness/time_left.h"
#include "assay/report/files.h"
#include "assay/report/prose/prose.h"
#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/report/written_results.h"
#include "assay/results/choice_json.h"
#include "assay/results/results_json.h"
#include "assay/results/takeaways.h"
#include "assay/studies/find_baseline.h"
#include "assay/studies/suite_plan.h"

namespace assay::cli {

namespace {

bool has_failures(const ResultSet& results) {
  return std::any_of(results.rows.begin(), results.rows.end(),
                     [](const Row& row) { return row.status != RowStatus::ok; });
}

}  // namespace

void MeasureFlags::add_to(CLI::App& app, bool is_model_required) {
  model.precision.clear();
  model.add_to(app, is_model_required);
  if (takes_models) {
    app.add_option("--with", others,
                   "Another model to measure beside the first, in the same tables; repeat for more [none]")
        ->allow_extra_args(false);
    app.add_option("--baseline", baseline,
                   "Precision or model that the others are compared with, as it was given or as a row calls "
                   "it [the first]");
    add_limit_option(app, limits);
  }
  app.get_option("--precision")
      ->description(
          "Precisions, joined by commas; nf4+head or nf4+head:int8 quantizes the LM head too, "
          "nf4+activations:int8 the activations; stored: as a quantized model holds its weights [all where a "
          "study compares them, else float32]")
      ->type_name("LIST");
  app.add_option("-o,--output", folder,
                 "Folder for the report, and for the journal that --resume reads [none: nothing is written]");
  add_whole(
      app, "--processes", processes,
      "Processes per configuration, each started and loaded afresh [5 to 10; fewer where loading is slow]",
      1);
  add_whole(app, "-r,--repeats", repeats, "Timed runs of each case in each process [at least 3]", 1);
  add_real(app, "--narrow", narrow_percent,
           "Half-width of the confidence intervals at which no more processes are added, in % [2]");
  add_real(app, "--time", time_s,
           "Seconds that a study may spend on processes and runs beyond the minimum [20]");
  add_real(app, "--max-time", max_time_s, "Seconds after which a study starts no further round [no limit]");
  add_whole(app, "--seed", seed, "Seed for the order of cases within a round [1]");
  add_whole(app, "--max-memory", memory_mb,
            "Memory limit of all workers together, in MiB [90 % of the available memory]", 1);
  add_whole(app, "--worker-memory", worker_memory_mb, "Memory limit of one worker, in MiB [no limit]", 1);
  add_real(app, "--case-timeout", case_timeout_s, "Seconds after which a case counts as timed out [600]");
  budget.add_to(app);
  app.add_flag("--dry-run", is_dry_run, "Show the cases with predicted time and memory; run nothing");
  app.add_flag("--resume", resumes, "Continue the run that was interrupted in the same folder");
  app.add_option("--config", "JSON or TOML file whose keys are long flag names; flags override it");
  output.add_to(app);
}

Measuring::Measuring(const MeasureFlags& flags, const CLI::App& command, std::string command_line)
    : flags_(flags),
      command_line_(std::move(command_line)),
      is_run_(command.get_name() == "run"),
      first_table_([this](const std::vector<FirstFigures>& figures) {
        screen_.clear();
        note(first_table_of(figures));
      }),
      screen_(flags.output.shows_progress()) {
  limits_of(flags.limits);
  flags.budget.seconds();
  if (flags.narrow_percent <= 0)
    throw UsageError("--narrow: expected a number above 0, found {}", flags.narrow_percent);
  if (flags.time_s < 0) throw UsageError("--time: expected 0 or more seconds, found {}", flags.time_s);
  if (flags.max_time_s < 0)
    throw UsageError("--max-time: expected 0 or more seconds, found {}", flags.max_time_s);
  if (flags.case_timeout_s <= 0)
    throw UsageError("--case-timeout: expected a number above 0, found {}", flags.case_timeout_s);
  if (flags.resumes && flags.folder.empty())
    throw UsageError("--resume: needs --output, the folder to resume");
  if (!flags.folder.empty() && !flags.is_dry_run) check_output_folder(flags.folder);
  config_ = config_of(command);
  WorkerExperimentOptions options;
  options.program = {own_program(), "worker"};
  options.candidates = candidates_of(flags.model.model);
  for (const std::string& other : flags.others)
    options.other_models.push_back(other_model(other, flags.model.config));
  options.common = flags.model.config;
  options.baseline = flags.model.configuration();
  // Flags that were not given are 0.
  options.needs_tokenizer = !flags.is_of_speed_alone;
  if (flags.is_of_speed_alone) options.memory_budget = Bytes{};
  if (flags.memory_mb > 0) options.memory_budget = Bytes{flags.memory_mb << 20};
  if (flags.worker_memory_mb > 0) options.worker_memory_limit = Bytes{flags.worker_memory_mb << 20};
  options.case_time_limit = {flags.case_timeout_s};
  if (flags.processes > 0) options.sweep.processes = flags.processes;
  if (flags.repeats > 0) options.sweep.repeats = flags.repeats;
  options.sweep.narrow = flags.narrow_percent / 100;
  options.sweep.time_s = flags.time_s;
  if (flags.max_time_s > 0) options.sweep.max_time_s = flags.max_time_s;
  options.sweep.seed = static_cast<std::uint64_t>(flags.seed);
  options.sweep.should_stop = is_interrupted;
  follow(options.sweep);
  experiment_ = std::make_unique<WorkerExperiment>(options);
}

// A terminal shows all the time what a pipe gets once.
void Measuring::follow(SweepOptions& sweep) {
  if (!screen_.is_shown()) {
    if (flags_.output.is_quiet) return;
    sweep.on_progress = [this](const std::string&, std::int64_t, std::int64_t, std::optional<double>) {
      first_table_.show_if_due();
    };
    sweep.on_cases = first_table_.teller();
    return;
  }
  sweep.on_progress = [this](const std::string& now, std::int64_t, std::int64_t, std::optional<double> left) {
    status_ = time_left(left) + now;
    screen_.show(status_, live_);
  };
  sweep.on_cases = [this](const std::string& study, const std::vector<CaseResult>& cases) {
    add_to(live_, study, cases);
    screen_.show(status_, live_);
  };
}

void Measuring::name_baseline() {
  if (flags_.baseline.empty()) return;
  ExperimentContext& context = experiment();
  context.named_baseline = find_baseline(context, flags_.precisions(), flags_.baseline);
  if (context.named_baseline->model) experiment_->put_first(*context.named_baseline->model);
  context.baseline = *context.named_baseline;
}

// A choice is kept by the journal itself: a run may be resumed with or without its config.json.
std::string Measuring::identity_of_flags() const {
  nlohmann::ordered_json flags = parse_ordered_json(config_, "the flags");
  flags.erase("choice");
  flags.erase("limit");  // it changes what is concluded, not what is measured
  return flags.dump();
}

Chosen Measuring::chosen_now(const std::vector<PlannedStudy>& plan, const SpeedFactors& factors,
                             double before_s) {
  const CostOf cost_of = cost_predictor(experiment(), experiment_->source(), factors);
  return chosen_for(flags_.budget, costs_of(experiment(), plan, cost_of), before_s,
                    commands_of(config_, flags_.folder, is_run_ ? "run" : plan.front().study->command));
}

void Measuring::choose(const std::vector<PlannedStudy>& plan) {
  if (!flags_.budget.seconds()) return;
  ExperimentContext& context = experiment();
  const auto make = [&] {
    SpeedFactors factors;
    if (flags_.budget.choice.empty())
      context.sessions->attempt(
          context.baseline, [&] { factors = measure_factors(context, experiment_->source()); },
          context.sweep.should_stop);
    return chosen_now(plan, factors, elapsed(begin_, Clock::now()).value);
  };
  Chosen chosen = resumed(
      journal_.get(), "budget", "choice", chosen_from_json, [](const Chosen& made) { return to_json(made); },
      make);
  const double earlier_s = journal_ == nullptr ? 0 : journal_->earlier_s();
  context.sweep.deadline = deadline_of(chosen.choice, begin_, earlier_s);
  if (!flags_.folder.empty()) {
    nlohmann::ordered_json flags = parse_ordered_json(config_, "the flags");
    flags["choice"] = assay::to_json(chosen.choice).dump();
    write_file_atomically(std::filesystem::path(flags_.folder) / "config.json",
                          flags.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }
  Chosen told = chosen;
  if (!flags_.budget.choice.empty()) told.left_out.clear();  // the run that chose has said it
  if (!flags_.output.is_quiet)
    for (const std::string& line : lines_of(told, earlier_s)) note(line);
  context.choice = std::make_shared<const Choice>(std::move(chosen.choice));
  left_out_ = std::move(chosen.left_out);
}

void Measuring::begin() {
  sha256_ = experiment_->source().content_hash();
  std::string identity = sha256_;  // tells the models of a run from all others
  const std::vector<ContextModel>& models = experiment().models;
  for (std::size_t i = 1; i < models.size(); ++i) {
    others_.push_back({models[i].name, models[i].source->content_hash()});
    identity += others_.back().name + others_.back().sha256;
  }
  if (flags_.folder.empty()) return;
  ensure_writable_folder(flags_.folder);
  lock_ = std::make_unique<FolderLock>(flags_.folder);
  const std::filesystem::path folder(flags_.folder);
  if (!flags_.resumes) keep_earlier_run(folder, flags_.output.is_quiet);
  journal_ = std::make_unique<Journal>(folder / "journal.jsonl",
                                       sha256_hex(identity + identity_of_flags() + ASSAY_VERSION),
                                       flags_.resumes, Clock::now, begin_);
  experiment_->get().sweep.journal = journal_.get();
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  journal_->append("begun", "run", now.count());  // for `assay run --watch`
  if (flags_.resumes)
    for (const std::filesystem::path& own : {folder, folder / "plots"}) remove_stale_temporaries(own);
  write_file_atomically(folder / "config.json", config_);
}

PredictedSeconds Measuring::predicted_seconds() {
  if (!flags_.output.shows_progress()) return {};
  return seconds_predictor(experiment(), experiment_->source());
}

Measuring::~Measuring() = default;

ResultSet Measuring::new_results() {
  return assay::new_results(experiment());
}

void Measuring::add_facts(ResultSet& results) const {
  results.command = command_line_;
  results.model.sha256 = sha256_;
  results.other_models = others_;
  const nlohmann::ordered_json flags = parse_ordered_json(config_, "the flags");
  for (const auto& [name, value] : flags.items()) {
    if (name == "choice") continue;  // the results have it
    results.configuration.emplace_back("--" + name,
                                       value.is_string() ? value.get<std::string>() : value.dump());
  }
  results.limits = limits_of(flags_.limits);
  if (experiment_->get().choice) results.choice = *experiment_->get().choice;
  results.left_out.insert(results.left_out.begin(), left_out_.begin(), left_out_.end());
  if (is_interrupted()) results.status = RunStatus::interrupted;
}

void Measuring::answer_json_of(const ResultSet& results, const report::WrittenReports& written) const {
  nlohmann::ordered_json json = report::results_json(results);
  json["results"] =
      flags_.folder.empty()
          ? nlohmann::ordered_json(nullptr)
          : nlohmann::ordered_json((std::filesystem::path(flags_.folder) / "results.json").string());
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const auto& path : written.paths) files.push_back(path.string());
  json["files"] = files;
  if (const auto recommended = recommendation_of(results)) {
    const auto or_null = [](const std::string& label) {
      return label.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(label);
    };
    json["recommendation"] = {{"small_device", or_null(recommended->small_device)},
                              {"server", or_null(recommended->server)},
                              {"best_quality", or_null(recommended->best_quality)}};
  }
  if (results.limits)
    if (const auto choice = choose_within(results, *results.limits))
      json["recommendation_under_limits"] = assay::to_json(*choice);
  answer_json("results", json);
}

void Measuring::answer_text_of(const ResultSet& results, const report::WrittenReports& written,
                               const std::exception_ptr& unwritten) const {
  answer_text("\n" + report::to_terminal(report::document_of(results), table_width()));
  if (unwritten) std::rethrow_exception(unwritten);
  if (!written.paths.empty())
    answer_text(fmt::format("\nEverything is in {}; open {}.\n", flags_.folder,
                            (std::filesystem::path(flags_.folder) / "report.html").string()));
  else if (!flags_.output.is_quiet)
    note("Nothing was written: --output FOLDER keeps the results and a full report.");
}

int Measuring::finish(ResultSet results) {
  return finish(std::move(results), [this](const ResultSet& all, const report::WrittenReports& written,
                                           const std::exception_ptr& unwritten) {
    if (flags_.output.is_json)
      answer_json_of(all, written);
    else
      answer_text_of(all, written, unwritten);
  });
}

int Measuring::finish(ResultSet results, const Answer& answer) {
  screen_.clear();
  add_facts(results);
  report::WrittenReports written;
  std::exception_ptr unwritten;
  try {
    if (!flags_.folder.empty()) written = report::write_reports(results, flags_.folder);
  } catch (const Error&) {
    if (flags_.output.is_json) throw;
    unwritten = std::current_exception();  // what was measured is shown all the same
  }
  answer(results, written, unwritten);
  if (!written.note.empty() && !flags_.output.is_quiet) note(written.note);
  if (results.status == RunStatus::interrupted) {
    // The time of what was cut off counts too.
    if (journal_ != nullptr) {
      journal_->append("interrupted", "run", true);
      if (!flags_.output.is_quiet) note("Interrupted: the same command with --resume continues this run.");
    }
    return kInterrupted;
  }
  for (const AuditRow& row : results.audit)
    if (row.has_failed())
      throw Error("the audit found results that differ although they must not: {}, {}: {}", row.configuration,
                  row.what, row.first_divergence);
  return has_failures(results) ? kSomeCasesFailed : 0;
}

int measure(const MeasureFlags& flags, const CLI::App& command, const std::string& command_line,
            const std::vector<PlannedStudy>& plan) {
  Measuring measuring(flags, command, command_line);
  measuring.name_baseline();
  const std::vector<Case> cases = cases_of(measuring.experiment(), plan);
  if (flags.is_dry_run) return measuring.show_plan(cases, plan);
  ResultSet results = measuring.new_results();
  measuring.begin();
  if (!flags.output.is_json && !flags.output.is_quiet)
    answer(fmt::format("Loaded: {} | device={} | dtype={}\n", results.model.id,
                       measuring.experiment().sessions->facts(measuring.experiment().baseline).device,
                       results.model.dtype));
  measuring.choose(plan);
  results.add(run_studies(measuring.experiment(), plan,
                          plan.size() > 1 ? measuring.predicted_seconds() : PredictedSeconds{}));
  return measuring.finish(std::move(results));
}

}  // namespace assay::cli
