// What the commands that measure share: their flags, their experiment, and how a result leaves the program.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assay/base/process.h"
#include "assay/cli/budget.h"
#include "assay/cli/console.h"
#include "assay/cli/live_screen.h"
#include "assay/cli/options.h"
#include "assay/harness/case.h"
#include "assay/harness/context.h"
#include "assay/report/files.h"
#include "assay/results/results.h"
#include "assay/studies/registry.h"

namespace assay::cli {

struct MeasureFlags {
  ModelFlags model;
  OutputFlags output;
  std::string folder;
  std::int64_t processes = 0, repeats = 0, seed = 1;
  double max_time_s = 0, narrow_percent = 2, time_s = 20, case_timeout_s = 600;
  std::int64_t memory_mb = 0, worker_memory_mb = 0;
  bool is_dry_run = false, resumes = false;
  // No text is read or written, and one model is loaded at a time.
  bool is_of_speed_alone = false;
  bool takes_models = false;        // --with
  std::vector<std::string> others;  // models beside the first
  std::string baseline;             // empty: the first configuration of all
  BudgetFlags budget;
  std::vector<std::string> limits;  // --limit, where configurations are compared

  void add_to(CLI::App& app, bool is_model_required);
  std::vector<std::string> precisions() const { return words_of(model.precision); }
  Reading reading() const { return {model.config.newlines, output.is_quiet}; }
};

// The work of a command: the experiment, the folder's lock and journal, progress, and the way out of the
// result.
class Measuring {
 public:
  // Checks the flags and reads the model's configuration; writes nothing. Throws Error, UsageError.
  Measuring(const MeasureFlags& flags, const CLI::App& command, std::string command_line);
  ~Measuring();

  ExperimentContext& experiment() { return experiment_->get(); }
  const WorkerExperiment& workers() const { return *experiment_; }
  // Puts the configuration that --baseline names first, and its model, of what studies compare. Throws
  // UsageError for a name that none has.
  void name_baseline();
  // Prints what would run, with its predicted time and memory. The exit code.
  // With what the budget leaves out of the studies, none of which may be given.
  int show_plan(const std::vector<Case>& cases, const std::vector<PlannedStudy>& plan = {});
  // Hashes the model and opens the output folder with its journal. Called when the baseline is loaded: a
  // model that cannot be loaded leaves no folder.
  void begin();
  // For the time left, where it is shown; else empty.
  PredictedSeconds predicted_seconds();
  // Chooses what of the studies fits the budget, and says so. Loads the baseline, to see how fast it is; a
  // resumed run keeps its choice.
  void choose(const std::vector<PlannedStudy>& plan);
  // An empty result set of the baseline, which it loads; throws what loading throws.
  ResultSet new_results();
  // Prints a result, whose files are written already; the last argument: an error in writing them, if any.
  using Answer = std::function<void(const ResultSet&, const report::WrittenReports&, std::exception_ptr)>;
  // Writes the reports, prints the answer, gives the exit code.
  int finish(ResultSet results);
  int finish(ResultSet results, const Answer& answer);

 private:
  void follow(SweepOptions& sweep);
  void add_facts(ResultSet& results) const;
  Chosen chosen_now(const std::vector<PlannedStudy>& plan, const SpeedFactors& factors, double before_s);
  std::string identity_of_flags() const;
  void answer_json_of(const ResultSet& results, const report::WrittenReports& written) const;
  void answer_text_of(const ResultSet& results, const report::WrittenReports& written,
                      const std::exception_ptr& unwritten) const;

  const MeasureFlags& flags_;
  std::string command_line_, config_;
  const bool is_run_;  // every study in one
  const TimePoint begin_ = Clock::now();
  std::vector<LeftOut> left_out_;
  FirstTable first_table_;
  LiveScreen screen_;
  report::LiveTable live_;
  std::string status_;
  std::unique_ptr<FolderLock> lock_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<WorkerExperiment> experiment_;
  std::string sha256_;
  std::vector<OtherModel> others_;
};

// Studies as a command: what would run where --dry-run asks for it, else their results.
int measure(const MeasureFlags& flags, const CLI::App& command, const std::string& command_line,
            const std::vector<PlannedStudy>& plan);

}  // namespace assay::cli
