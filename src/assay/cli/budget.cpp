#include "assay/cli/budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/cli/console.h"
#include "assay/harness/sweep.h"
#include "assay/report/prose/prose.h"
#include "assay/report/table.h"
#include "assay/results/choice_json.h"

namespace assay::cli {

namespace {

// As a shell reads it back.
std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./,:=+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// The flag of a study that takes values of its cases.
std::string flag_of_values(const Study& study, bool is_run) {
  for (const StudyOption& option : study.options) {
    const bool has_values =
        option.kind == StudyOption::Kind::wholes || option.kind == StudyOption::Kind::words;
    if (option.name == "precision") return option.name;
    if (has_values) return is_run ? option.traits.name_in_run : option.name;
  }
  return "";
}

// Seconds from the start of a run until its first case has run.
double first_case_s(const std::vector<CostedStudy>& costs, const Choice& choice) {
  for (const CostedStudy& study : costs)
    for (const CostedCase& c : study.cases)
      if (const ChosenStudy* chosen = choice.find(study.name);
          chosen != nullptr && chosen->left_out.count(c.key) == 0)
        return choice.before_s + c.load_s + c.run_s(chosen->most_tokens.value_or(c.new_tokens));
  return choice.before_s;
}

std::string skipping_all_but(const std::string& name) {
  std::vector<std::string> others;
  for (const Study& study : studies())
    if (study.is_in_suite && study.can_be_skipped && study.name != name) others.push_back(study.name);
  return fmt::format("{}", fmt::join(others, ","));
}

}  // namespace

void BudgetFlags::add_to(CLI::App& app) {
  app.add_option("--budget", budget,
                 "Time that the run may take: 90s, 10min, 2h, or none to measure everything; what does not "
                 "fit is named [10min]");
  app.add_option("--choice", choice,
                 "What an earlier run chose to measure, as its config.json has it [none]");
}

std::optional<double> BudgetFlags::seconds() const {
  if (budget == "none") return std::nullopt;
  double number = 0;
  const char* end = budget.data() + budget.size();
  const auto [at, error] = std::from_chars(budget.data(), end, number, std::chars_format::fixed);
  constexpr double kMost_s = 1e9;
  if (error == std::errc())
    for (const auto& [unit, each] : {std::pair("s", 1.0), {"min", 60.0}, {"h", 3600.0}})
      if (std::string_view(at, static_cast<std::size_t>(end - at)) == unit && number > 0 &&
          number * each <= kMost_s)
        return number * each;
  throw UsageError("--budget: expected a time such as 90s, 10min or 2h, or none, found '{}'", budget);
}

CommandOf commands_of(const std::string& config, const std::string& folder, const std::string& run_as) {
  const nlohmann::ordered_json flags = parse_ordered_json(config, "the flags");
  return [flags, folder, run_as](const std::string& name, const std::vector<std::string>& values) {
    const Study& study = study_named(name);
    const bool is_run = run_as == "run";
    std::string command = "assay " + (is_run || study.command.empty() ? run_as : study.command);
    const std::string flag = values.empty() ? "" : flag_of_values(study, is_run);
    const auto add = [&](const std::string& key, const std::string& value) {
      command += key == "model" ? " " + shell_word(value) : fmt::format(" --{} {}", key, shell_word(value));
    };
    for (const auto& [key, value] : flags.items()) {
      if (key == "budget" || key == "choice" || key == flag || (is_run && key == "skip")) continue;
      if (value.is_boolean())
        command += " --" + key;
      else if (value.is_array())
        for (const auto& one : value) add(key, one.get<std::string>());
      else
        add(key, value.get<std::string>());
    }
    if (!flag.empty()) add(flag, fmt::format("{}", fmt::join(values, ",")));
    if (is_run) add("skip", skipping_all_but(name));
    if (!folder.empty()) add("output", folder + "-" + name);
    return command + " --budget none";
  };
}

Chosen chosen_for(const BudgetFlags& flags, const std::vector<CostedStudy>& costs, double before_s,
                  const CommandOf& command_of) {
  Chosen chosen;
  chosen.choice = flags.choice.empty()
                      ? choose(costs, flags.seconds().value(), before_s)
                      : choice_from_json({parse_ordered_json(flags.choice, "--choice"), "--choice"});
  chosen.left_out = left_out_of(costs, chosen.choice, command_of);
  chosen.first_case_s = first_case_s(costs, chosen.choice);
  return chosen;
}

nlohmann::ordered_json to_json(const Chosen& chosen) {
  nlohmann::ordered_json left_out = nlohmann::ordered_json::array();
  for (const LeftOut& one : chosen.left_out) left_out.push_back(assay::to_json(one));
  return {{"choice", assay::to_json(chosen.choice)}, {"left_out", left_out}};
}

Chosen chosen_from_json(const JsonReader& json) {
  Chosen chosen{choice_from_json(json.at("choice")), {}, 0};
  for (const JsonReader& one : json.at("left_out").items())
    chosen.left_out.push_back(left_out_from_json(one));
  return chosen;
}

namespace {

// As it was typed: a budget is no estimate.
std::string shown_budget(double seconds) {
  const bool is_whole = seconds > 60 && std::fmod(seconds, 60) == 0;
  return is_whole ? fmt::format("{:g} min", seconds / 60) : fmt::format("{:g} s", seconds);
}

}  // namespace

std::vector<std::string> lines_of(const Chosen& chosen, double earlier_s) {
  const Choice& choice = chosen.choice;
  const double predicted = choice.predicted_s();
  std::vector<std::string> lines;
  if (predicted > choice.budget_s)
    lines.push_back(fmt::format(
        "This run takes about {}, more than the budget of {}: what flags ask for, and the first case, are "
        "measured all the same.",
        report::shown_duration(predicted), shown_budget(choice.budget_s)));
  else if (!choice.is_whole())
    lines.push_back(
        fmt::format("This run takes about {} of the budget of {}; everything would take {} "
                    "(--budget none).",
                    report::shown_duration(predicted), shown_budget(choice.budget_s),
                    report::shown_duration(choice.whole_s())));
  if (earlier_s > 0)
    lines.push_back(fmt::format("Before it was resumed, the run took {} of its budget of {}.",
                                report::shown_duration(earlier_s), shown_budget(choice.budget_s)));
  if (chosen.first_case_s > kFirstTable_s)
    lines.push_back(fmt::format(
        "There is no first table after two minutes: loading the baseline and its first run take about {}.",
        report::shown_duration(chosen.first_case_s)));
  for (const std::string& sentence : report::sentences_of(chosen.left_out)) lines.push_back(sentence);
  return lines;
}

std::string first_table_of(const std::vector<FirstFigures>& figures) {
  report::Table table{{"Study", "Case", "Latency (s)", "Tokens/s", "Timed runs"},
                      {false, false, true, true, true},
                      {},
                      {1, 0, 0, 0, 2}};
  for (const FirstFigures& one : figures)
    table.rows.push_back({one.sweep, one.label, fmt::format("{:.3g}", one.seconds),
                          one.tokens_per_s > 0 ? fmt::format("{:.1f}", one.tokens_per_s) : "-",
                          std::to_string(one.timed_runs)});
  return "So far, without intervals and verdicts (a case without timed runs shows its first run):\n" +
         report::to_text(table, table_width());
}

}  // namespace assay::cli
