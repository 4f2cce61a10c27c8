#include "assay/studies/task.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/harness/task_json.h"
#include "assay/harness/worker_protocol.h"
#include "assay/statistics/paired_counts.h"
#include "assay/studies/precision_cases.h"
#include "assay/studies/session_result.h"

namespace assay {

namespace {

struct TaskOfConfiguration {
  RunConfig configuration;
  SessionFacts facts;
  std::optional<TaskScores> scores;
  std::string reason;
  TaskFigures figures = {};
};

std::filesystem::path task_file(const TaskOptions& options) {
  if (!options.file) throw FieldError("task", "expected a file of items, found none");
  return *options.file;
}

std::vector<RunConfig> task_configurations(const ExperimentContext& context, const TaskOptions& options) {
  if (!options.configurations.empty()) return options.configurations;
  std::vector<RunConfig> all =
      choose_configurations(context, precisions_or_default(context, options.precisions)).configurations;
  return options.is_brief && options.precisions.empty() ? one_of_each_kind(all) : all;
}

std::string task_key(const RunConfig& configuration) {
  Case spec;
  spec.scenario = Scenario::task;
  spec.label = configuration.label();
  return choice_key(spec);
}

std::vector<RunConfig> chosen_for_task(const ExperimentContext& context, const TaskOptions& options) {
  std::vector<RunConfig> all = task_configurations(context, options);
  if (const ChosenStudy* chosen = context.choice ? context.choice->find("task") : nullptr)
    std::erase_if(all, [&](const RunConfig& c) { return chosen->left_out.count(task_key(c)) > 0; });
  return all;
}

Value share_value(const std::vector<bool>& are_right) {
  const auto right = std::count(are_right.begin(), are_right.end(), true);
  const auto n = std::ssize(are_right);
  return {static_cast<double>(right) / static_cast<double>(n), statistics::wilson_interval(right, n), {}};
}

// Half of the items right have a 95 % interval of 10 points either way here, and a wider one below: more than
// most precisions change an accuracy by.
constexpr std::int64_t kFewItems = 100;

std::optional<Warning> few_items_warning(const std::vector<bool>& are_right) {
  const auto n = std::ssize(are_right), right = std::count(are_right.begin(), are_right.end(), true);
  if (n >= kFewItems) return std::nullopt;
  const statistics::Interval interval = statistics::wilson_interval(right, n);
  return Warning{
      WarningKind::few_items,
      fmt::format("{} of {} right leave{} an accuracy from {:.0f} to {:.0f} % (95 % interval)", right,
                  counted(n, "item"), n == 1 ? "s" : "", 100 * interval.low, 100 * interval.high),
      static_cast<double>(n), static_cast<double>(kFewItems)};
}

class TaskRun {
 public:
  TaskRun(const ExperimentContext& context, const TaskOptions& options)
      : context_(context),
        file_(task_file(options)),
        items_(read_task_items(file_)),
        configurations_(chosen_for_task(context, options)) {}

  ExperimentResult run() {
    ExperimentResult result;
    std::vector<TaskOfConfiguration> all;
    prepare_processes(context_, configurations_, "task", [&](const RunConfig& c) { return journal_key(c); });
    for (std::size_t i = 0; i < configurations_.size(); ++i) {
      const SweepOptions& sweep = context_.sweep;
      if (sweep.should_stop && sweep.should_stop()) break;
      const RunConfig& configuration = configurations_[i];
      if (i > 0 && is_too_late(context_, "task", journal_key(configuration))) {
        result.left_out.push_back(
            {.study = "task", .what = configuration.label(), .reason = std::string(kSlower)});
        continue;
      }
      if (sweep.on_progress)
        sweep.on_progress("task: " + configuration.label(), static_cast<std::int64_t>(i),
                          std::ssize(configurations_), std::nullopt);
      TaskOfConfiguration scored{configuration, {}, {}, ""};
      if (!score(scored)) break;
      all.push_back(std::move(scored));
    }
    context_.sessions->end_prepared();
    result.is_interrupted = all.size() + result.left_out.size() < configurations_.size();
    for (const TaskOfConfiguration& scored : all) result.rows.push_back(row_of(scored, all.front()));
    add_flips(all, result);
    return result;
  }

 private:
  std::string journal_key(const RunConfig& configuration) const {
    return configuration.key() + " | " + items_.sha256;
  }

  // False once the whole run is stopped.
  bool score(TaskOfConfiguration& scored) {
    const RunConfig& configuration = scored.configuration;
    auto measured =
        measured_once(context_, configuration, "task", journal_key(configuration), "scores",
                      task_scores_from_json, [&](Session& session) { return session.task(file_.string()); });
    scored.scores = std::move(measured.value);
    scored.facts = std::move(measured.facts);
    scored.reason = std::move(measured.reason);
    if (scored.scores) scored.figures = figures_of(items_, scored.scores->items);
    return !measured.is_stopped;
  }

  Row row_of(const TaskOfConfiguration& scored, const TaskOfConfiguration& baseline) const {
    Row row;
    row.scenario = Scenario::task;
    row.label = scored.configuration.label();
    row.parameters = parameters_of(scored.configuration, scored.facts);
    row.parameters.emplace_back("task", file_.filename().string());
    row.parameters.emplace_back("task_sha256", items_.sha256);
    row.parameters.emplace_back("protocol", fmt::format("lm-eval {}", items_.form));
    row.setting = setting_of(scored.configuration, scored.facts);
    row.warnings = scored.facts.warnings;
    if (scored.configuration.model) row.parameters.emplace_back("model", *scored.configuration.model);
    if (!scored.scores) {
      row.status = RowStatus::error;
      row.reason = scored.reason;
      return row;
    }
    row.warnings.insert(row.warnings.end(), scored.scores->warnings.begin(), scored.scores->warnings.end());
    add_values(scored, row);
    if (&scored != &baseline && baseline.scores) {
      const statistics::PairedCounts counts = counts_of(scored, baseline);
      row.set("accuracy_change", Value{counts.difference(), statistics::difference_interval(counts), {}});
      row.set("flips", static_cast<double>(counts.flips()));
      row.set("flips_to_wrong", static_cast<double>(counts.lost));
      row.set("mcnemar_p", statistics::mcnemar_p_value(counts));
    }
    return row;
  }

  void add_values(const TaskOfConfiguration& scored, Row& row) const {
    const TaskFigures& figures = scored.figures;
    row.set("accuracy", share_value(figures.is_right));
    if (auto warning = few_items_warning(figures.is_right)) row.warnings.push_back(std::move(*warning));
    if (figures.acc_norm) row.set("accuracy_norm", share_value(figures.is_right_norm));
    if (figures.acc_bytes) row.set("accuracy_bytes", share_value(figures.is_right_bytes));
    if (figures.completion_perplexity) row.set("completion_perplexity", *figures.completion_perplexity);
    if (figures.token_perplexity) row.set("completion_token_perplexity", *figures.token_perplexity);
    row.set("items", static_cast<double>(items_.items.size()));
    row.set("memory_bytes", static_cast<double>(scored.facts.model.memory_bytes));
    TaskAnswers& answers = row.answers.emplace();
    for (std::size_t i = 0; i < items_.items.size(); ++i)
      answers.items.push_back(
          {.line = items_.items[i].line,
           .log_likelihoods = scored.scores->items[i].log_likelihoods,
           .is_right = figures.is_right[i],
           .is_right_norm = figures.is_right_norm.empty() ? figures.is_right[i] : figures.is_right_norm[i]});
  }

  static statistics::PairedCounts counts_of(const TaskOfConfiguration& scored,
                                            const TaskOfConfiguration& baseline) {
    return statistics::paired_counts(scored.figures.is_right, baseline.figures.is_right);
  }

  static void add_flips(const std::vector<TaskOfConfiguration>& all, ExperimentResult& result) {
    if (all.empty() || !all.front().scores) return;
    std::vector<TaskFlips> found;
    std::vector<double> p_values;
    for (const TaskOfConfiguration& scored : all) {
      if (&scored == &all.front() || !scored.scores) continue;
      const statistics::PairedCounts counts = counts_of(scored, all.front());
      const statistics::Interval interval = statistics::difference_interval(counts);
      p_values.push_back(statistics::mcnemar_p_value(counts));
      found.push_back({.subject = scored.configuration.label(),
                       .baseline = all.front().configuration.label(),
                       .items = counts.items(),
                       .to_wrong = counts.lost,
                       .to_right = counts.gained,
                       .change = counts.difference(),
                       .low = interval.low,
                       .high = interval.high,
                       .p_value = p_values.back(),
                       .detectable_change = statistics::detectable_share(counts)});
    }
    constexpr double kErrorLevel = 0.05;
    const std::vector<int> divisors = statistics::holm_divisors(p_values, kErrorLevel);
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i].is_shown = p_values[i] <= kErrorLevel / divisors[i];
      result.findings.emplace_back(std::move(found[i]));
    }
  }

  const ExperimentContext& context_;
  const std::filesystem::path file_;
  const TaskItems items_;
  const std::vector<RunConfig> configurations_;
};

// It is no sweep: there is nothing to list, only to check.
std::vector<Case> task_cases(const ExperimentContext& context, const TaskOptions& options) {
  read_task_items(task_file(options));
  task_configurations(context, options);
  return {};
}

struct Requests {
  Case one;  // a prefill that has the mean length
  double count = 0;
};

Requests requests_of(const ExperimentContext& context, const TaskOptions& options) {
  const TaskItems items = read_task_items(task_file(options));
  std::int64_t count = 0, tokens = 0;
  for (const TaskItem& item : items.items) {
    // The first request of an item stands for all: their contexts are mostly one.
    const TaskRequest& request = item.requests.front();
    const auto own = std::ssize(encode(context.tokenizer.get(), request.context + request.continuation));
    tokens += std::ssize(item.requests) * std::min<std::int64_t>(own, context.context_length);
    count += std::ssize(item.requests);
  }
  const auto length = std::clamp<std::int64_t>(tokens / std::max<std::int64_t>(1, count), 1,
                                               std::max<std::int64_t>(1, context.context_length - 1));
  return {baseline_case(context, Scenario::task, "request",
                        {std::vector<TokenId>(static_cast<std::size_t>(length))}, 1),
          static_cast<double>(count)};
}

double predicted_task_s(const ExperimentContext& context, const TaskOptions& options,
                        const PredictedSeconds& seconds_of) {
  Requests requests = requests_of(context, options);
  double all = 0;
  for (const RunConfig& configuration : task_configurations(context, options)) {
    requests.one.configuration = configuration;
    all += requests.count * seconds_of(requests.one);
  }
  return all;
}

// A case for each configuration, which is loaded and scored once.
void add_task_costs(const ExperimentContext& context, const TaskOptions& options, const CostOf& cost_of,
                    CostedStudy& costed) {
  const Requests requests = requests_of(context, options);
  const std::vector<RunConfig> configurations = task_configurations(context, options);
  add_measured_once(configurations,
                    {Need::perplexity, task_key,
                     [&](const CaseCost& cost) { return requests.count * cost.prefill_s; }, requests.one},
                    cost_of, costed);
  add_precisions(context, options.precisions, configurations, costed);
}

}  // namespace

Study task_study() {
  using Options = TaskOptions;
  return to_study<Options>(
      {.name = "task",
       .title = "Task accuracy",
       .description = "Compare the accuracy of precisions on a task of your own",
       .command = "task",
       .example = "assay task demo models/demo/tasks/continuations.jsonl --precision float32,nf4",
       .options = {option("precision", &Options::precisions, "Precisions to compare"),
                   option("task", &Options::file, "File with an item of a task on each line",
                          {.name_in_run = "task",
                           .shown_default = "none: no task is scored; of the model that ships, the task "
                                            "that ships, in a few precisions"})},
       .is_in_suite = true,
       .has_own_command = true,
       .takes_models = true,
       .cases = task_cases,
       .run = [](const ExperimentContext& context,
                 const Options& options) { return TaskRun(context, options).run(); },
       .predict_s = predicted_task_s,
       .add_costs = add_task_costs,
       .applies = [](const ExperimentContext&, const Options& options) { return options.file.has_value(); },
       .share = [](const SharedOptions& shared,
                   Options& options) { options.precisions = shared.precisions; }});
}

ExperimentResult compare_task(const ExperimentContext& context, const TaskOptions& options) {
  return task_study().run(context, options);
}

}  // namespace assay
