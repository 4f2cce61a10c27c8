// --budget: what a run measures within its time, and how it says what it leaves out.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "assay/harness/first_table.h"
#include "assay/harness/predict.h"
#include "assay/harness/sweep_options.h"
#include "assay/studies/left_out.h"
#include "assay/studies/registry.h"

namespace assay::cli {

struct BudgetFlags {
  std::string budget = "10min";
  std::string choice;  // that an earlier run made, as its config.json has it; empty: none

  void add_to(CLI::App& app);
  std::optional<double> seconds() const;  // unset: none; throws UsageError
};

// The commands that measure what is left out: those of the studies, or `assay run` with one study alone.
// `config`: the flags in force (config_of()). `command`: that of the run, "sweep lengths", which a study
// without one of its own takes.
CommandOf commands_of(const std::string& config, const std::string& folder, const std::string& command);

// A choice, with what it leaves out.
struct Chosen {
  Choice choice;
  std::vector<LeftOut> left_out;
  double first_case_s = 0;  // predicted, from the start until the first case has run
};
// By the predicted costs, or what --choice holds.
Chosen chosen_for(const BudgetFlags& flags, const std::vector<CostedStudy>& costs, double before_s,
                  const CommandOf& command_of);
nlohmann::ordered_json to_json(const Chosen& chosen);
Chosen chosen_from_json(const JsonReader& json);

// What is said before a run: how long it takes, what an interrupted one has left, a line for each thing that
// is left out, and why there is no first table after two minutes where there will be none.
std::vector<std::string> lines_of(const Chosen& chosen, double earlier_s = 0);

// What has been measured so far, as a table.
std::string first_table_of(const std::vector<FirstFigures>& figures);

}  // namespace assay::cli
