// --dry-run: what would run, with its predicted time and memory.
#include <map>

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/cli/measure.h"
#include "assay/harness/case_json.h"
#include "assay/harness/predict.h"
#include "assay/harness/time_left.h"
#include "assay/report/prose/prose.h"
#include "assay/report/table.h"
#include "assay/results/results_json.h"

namespace assay::cli {

namespace {

// What differs from what was asked for, said before hours of work.
std::vector<std::string> warnings_of_plan(const std::vector<PredictedCase>& cases) {
  std::vector<std::string> lines;
  std::map<std::string, int> times;
  for (const PredictedCase& p : cases) {
    for (const Warning& warning : p.spec.warnings)
      lines.push_back(
          fmt::format("{}, {}: {}", name_of(p.spec.scenario), p.spec.label, report::sentence_of(warning)));
    if (++times[p.spec.key()] == 2)
      lines.push_back(fmt::format("{}, {}: the case was asked for more than once and is measured once",
                                  name_of(p.spec.scenario), p.spec.label));
  }
  return lines;
}

}  // namespace

int Measuring::show_plan(const std::vector<Case>& cases, const std::vector<PlannedStudy>& plan) {
  const std::vector<PredictedCase> predicted = predict_cases(experiment(), experiment_->source(), cases);
  std::optional<Chosen> chosen;
  if (!plan.empty() && flags_.budget.seconds()) chosen = chosen_now(plan, {}, 0);
  if (flags_.output.is_json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const PredictedCase& p : predicted) {
      nlohmann::ordered_json row = to_json(p.spec);
      row["predicted_s"] = p.seconds;
      row["predicted_memory_bytes"] = p.memory.value;
      row["warnings"] = to_json(p.spec.warnings);
      if (!p.why_not.empty()) row["error"] = p.why_not;  // it will fail
      rows.push_back(std::move(row));
    }
    nlohmann::ordered_json json{{"cases", rows}};
    if (chosen) json["budget"] = to_json(*chosen);
    answer_json("plan", json);
    return 0;
  }
  report::Table table{{"Scenario", "Case", "Configuration", "One run (s)", "Memory (MiB)"},
                      {false, false, false, true, true},
                      {},
                      {0, 0, 1, 0, 0}};
  std::string failures;
  std::vector<std::pair<Scenario, std::vector<Case>>> sweeps;  // by scenario
  std::map<std::string, double> seconds;                       // by key
  for (const PredictedCase& p : predicted) {
    table.rows.push_back({std::string(name_of(p.spec.scenario)), p.spec.label, p.spec.configuration.label(),
                          p.why_not.empty() ? fmt::format("{:.3g}", p.seconds) : "fails",
                          fmt::format("{:.0f}", p.memory.megabytes())});
    if (!p.why_not.empty()) {
      failures += fmt::format("{}, {} will fail: {}.\n", name_of(p.spec.scenario), p.spec.label, p.why_not);
      continue;
    }
    if (sweeps.empty() || sweeps.back().first != p.spec.scenario)
      sweeps.emplace_back(p.spec.scenario, std::vector<Case>{});
    sweeps.back().second.push_back(p.spec);
    seconds[p.spec.key()] = p.seconds;
  }
  double all = 0;
  for (const auto& [scenario, members] : sweeps)
    all +=
        predicted_sweep_s(members, experiment().sweep, [&](const Case& spec) { return seconds[spec.key()]; });
  for (const std::string& line : warnings_of_plan(predicted)) note("warning: " + line);
  answer(report::to_text(table, table_width()) + failures +
         fmt::format("{} about {:.0f} s to warm up and to "
                     "time. Loading weights, audits and perplexities come "
                     "on top.\n",
                     predicted.size() == 1 ? "1 case takes" : fmt::format("{} cases take", predicted.size()),
                     all));
  if (chosen) {
    answer(fmt::format(
        "Within the budget of {}, with loading, audits and perplexities, this machine's usual speed "
        "makes it {}.\n",
        report::shown_duration(chosen->choice.budget_s),
        report::shown_duration(chosen->choice.predicted_s())));
    for (const std::string& line : lines_of(*chosen)) answer_text(line + "\n");
  }
  return 0;
}

}  // namespace assay::cli
