#include "assay/cli/gate.h"

#include <exception>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/report/prose/prose.h"
#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/report/written_results.h"

namespace assay::cli {

namespace {

constexpr int kRuleBroken = 4;

nlohmann::ordered_json quality_json(const QualityRow& row) {
  const auto or_null = [](bool is_there, const auto& value) {
    return is_there ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  const statistics::Interval interval = row.interval.value_or(statistics::Interval{});
  const bool is_task = row.metric == kAccuracyMetric;
  return {{"scenario", name_of(row.scenario)},
          {"label", row.label},
          {"metric", row.metric},
          {"a", or_null(row.a.has_value(), row.a.value_or(0))},
          {"b", row.b},
          // For an accuracy, the interval is that of b - a.
          {"low", or_null(row.interval.has_value(), interval.low)},
          {"high", or_null(row.interval.has_value(), interval.high)},
          {"count", row.count},
          {"to_wrong", or_null(is_task, row.counts.lost)},
          {"to_right", or_null(is_task, row.counts.gained)},
          {"untested", row.untested}};
}

void add_rows(const ComparedResults& compared, nlohmann::ordered_json& json) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ComparedRow& row : compared.rows) {
    nlohmann::ordered_json own = report::comparison_json(row.comparison, report::sentence_of(row));
    own["scenario"] = name_of(row.scenario);
    own["label"] = row.label;
    own["configuration"] = row.configuration;
    own["unlike"] = row.unlike;
    own["untested"] = row.untested;
    rows.push_back(std::move(own));
  }
  nlohmann::ordered_json all_cases = nlohmann::ordered_json::array();
  for (const ComparedRow& row : compared.all_cases)
    all_cases.push_back(report::comparison_json(row.comparison, report::sentence_of(row)));
  nlohmann::ordered_json quality = nlohmann::ordered_json::array();
  for (const QualityRow& row : compared.quality) quality.push_back(quality_json(row));
  json["rows"] = rows;
  json["quality"] = quality;
  json["all_cases"] = all_cases;
  json["unlike"] = compared.unlike;
  json["only_a"] = compared.only_a;
  json["only_b"] = compared.only_b;
  json["failed"] = compared.failed;
  json["same_run"] = compared.is_same_run;
}

}  // namespace

void GateFlags::add_to(CLI::App& app) {
  add_real(app, "--margin", margin_percent, "Margin within which a difference counts as none, in % [2]");
  app.add_option(
         "--fail-on", fail_on,
         "Exit with code 4 if B is worse than A by more than a bound, joined by commas (latency:3%, "
         "throughput:3%, memory:0%, size:0%, perplexity:1%, accuracy:1%; also slower, faster, worse), or if "
         "B breaks a limit (kl:0.02, agreement:0.98) [none]")
      ->check(not_empty);
}

std::vector<FailureRule> GateFlags::rules() const {
  return fail_on.empty() ? std::vector<FailureRule>() : failure_rules(fail_on);
}

double GateFlags::margin() const {
  if (margin_percent < 0) throw UsageError("--margin: expected 0 or more, found {}", margin_percent);
  return margin_percent / 100;
}

namespace {

// A rule that cannot be judged does not hide one that is broken.
void note_refused(const std::exception_ptr& refused) try {
  std::rethrow_exception(refused);
} catch (const Error& error) {
  note(error.what());
}

}  // namespace

std::string limits_note(std::size_t limits) {
  return fmt::format(
      "{} limits of quality are judged together (Holm): the chance of any false verdict is {:.0f} % at most",
      limits, 100 * kFalseLimitVerdict);
}

int answer_comparison(const ComparedResults& compared, const std::vector<FailureRule>& rules, bool is_json,
                      nlohmann::ordered_json json) {
  std::vector<std::string> broken, notes;
  nlohmann::ordered_json judged = nlohmann::ordered_json::array();
  std::size_t limits_judged = 0;
  std::exception_ptr refused;  // what was compared is shown all the same
  for (std::size_t i = 0; i < rules.size(); ++i) try {
      const FailureRule& rule = rules[i];
      const RuleOutcome outcome = judge_rule(compared, rules, i);
      const std::vector<std::string> lines = report::broken_by(outcome);
      for (const std::string& line : lines) {
        notes.push_back(fmt::format("--fail-on {} is broken: {}", rule.text, line));
        broken.push_back(line);
      }
      if (lines.empty() && outcome.detectable_difference > 0)
        notes.push_back(fmt::format(
            "--fail-on {} holds; a difference of {:.2g} % would have been found nine in ten times", rule.text,
            100 * outcome.detectable_difference));
      if (outcome.limits_judged > 1) limits_judged = static_cast<std::size_t>(outcome.limits_judged);
      judged.push_back({{"rule", rule.text},
                        {"broken", lines},
                        {"detectable_difference", outcome.detectable_difference},
                        {"limits_judged_together", outcome.limits_judged}});
    } catch (const Error&) {
      if (!refused) refused = std::current_exception();
    }
  if (!is_json) {
    answer_text(report::to_terminal(report::document_of(compared), table_width()));
  } else if (!refused || !broken.empty()) {
    add_rows(compared, json);
    json["broken"] = broken;
    json["rules"] = judged;
    answer_json("comparison", json);
  }
  if (limits_judged > 1) notes.push_back(limits_note(limits_judged));
  for (const std::string& line : notes) note(line);
  if (refused && broken.empty()) std::rethrow_exception(refused);
  if (refused) note_refused(refused);
  return broken.empty() ? 0 : kRuleBroken;
}

}  // namespace assay::cli
