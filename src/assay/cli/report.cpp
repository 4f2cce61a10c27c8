// assay report: the report of a results.json again, or its results in the format of another tool.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/cli/output_folder.h"
#include "assay/report/files.h"
#include "assay/report/formats.h"
#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/results/choice_json.h"
#include "assay/results/limited_choice.h"

namespace assay::cli {

namespace {

struct ReportFlags {
  std::string file, folder, format = "text";
  std::vector<std::string> limits;
  bool is_json = false;
};

using Formatter = std::string (*)(const ResultSet&);
struct ReportFormat {
  std::string_view name;
  Formatter text;
};
// All but the first, which is of a terminal.
constexpr ReportFormat kReportFormats[] = {
    {"md", [](const ResultSet& r) { return report::to_markdown(report::document_of(r)); }},
    {"github", [](const ResultSet& r) { return report::to_github(report::document_of(r), r); }},
    {"benchmark-action", [](const ResultSet& r) { return report::to_benchmark_action(r, Better::lower); }},
    {"benchmark-action-bigger",
     [](const ResultSet& r) { return report::to_benchmark_action(r, Better::higher); }},
    {"openmetrics", [](const ResultSet& r) { return report::to_openmetrics(r); }},
};

// Null for the text of a terminal. Throws UsageError.
Formatter formatter_of(const ReportFlags& flags) {
  if (flags.format == "text") return nullptr;
  std::vector<std::string_view> names = {"text"};
  for (const ReportFormat& format : kReportFormats) {
    if (flags.format == format.name) {
      if (flags.is_json) throw UsageError("--json: cannot be given with --format {}", format.name);
      return format.text;
    }
    names.push_back(format.name);
  }
  throw UsageError("--format: expected one of {}, found '{}'", fmt::join(names, ", "), flags.format);
}

void answer_as_text(const ReportFlags& flags, const ResultSet& results) {
  const std::string where =
      flags.folder.empty() ? "" : "; open " + (std::filesystem::path(flags.folder) / "report.html").string();
  answer_text(report::to_terminal(report::document_of(results), table_width()) +
              fmt::format("\nThese are the results of {}{}.\n", flags.file, where));
}

void answer_as_json(const ResultSet& results, const report::WrittenReports& written) {
  nlohmann::ordered_json json{{"paths", nlohmann::ordered_json::array()}};
  for (const auto& path : written.paths) json["paths"].push_back(path.string());
  if (results.limits)
    if (const auto choice = choose_within(results, *results.limits))
      json["recommendation_under_limits"] = to_json(*choice);
  answer_json("report", json);
}

// Whether results lie in the folder that are not these, written before: a report replaces its own run alone.
bool holds_other_run(const std::string& folder, const ResultSet& results) {
  const std::filesystem::path there = report::results_file(folder);
  if (!std::filesystem::exists(there)) return false;
  try {
    const ResultSet held = report::read_results(there);
    return held.created != results.created || held.model.sha256 != results.model.sha256;
  } catch (const Error&) {
    return true;
  }
}

int report_again(const ReportFlags& flags) {
  const Formatter formatter = formatter_of(flags);
  const std::optional<Limits> limits = limits_of(flags.limits);
  ResultSet results = report::read_results(flags.file);
  if (limits) results.limits = limits;
  report::WrittenReports written;
  if (!flags.folder.empty()) {
    if (holds_other_run(flags.folder, results)) keep_earlier_run(flags.folder, flags.is_json);
    written = report::write_reports(results, flags.folder);
    if (!written.note.empty()) note(written.note);
  }
  if (formatter != nullptr)
    answer(formatter(results));
  else if (flags.is_json)
    answer_as_json(results, written);
  else
    answer_as_text(flags, results);
  return 0;
}

}  // namespace

void add_report(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command =
      app.add_subcommand("report", "Write the report of a results.json again; needs no model");
  command->add_option("RESULTS", flags->file, "The results.json of a run, or its folder")->required();
  command->add_option("-o,--output", flags->folder, "Folder to write the report to [print it only]");
  command->add_option("--format", flags->format,
                      "What to print: text, md, github, benchmark-action, benchmark-action-bigger or "
                      "openmetrics [text]");
  add_limit_option(*command, flags->limits);
  command->add_flag("--json", flags->is_json, "Print the paths of the written files as JSON");
  command->footer("Example: assay report assay-results --limit memory=500MiB,ppl-ratio=1.02");
  command->callback([flags, &exit_code] { exit_code = report_again(*flags); });
}

}  // namespace assay::cli
