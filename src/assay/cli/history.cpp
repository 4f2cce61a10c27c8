// assay history: earlier runs in a folder, and what changed from one to the next.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/report/files.h"
#include "assay/report/history_document.h"
#include "assay/report/prose/prose.h"
#include "assay/report/render.h"
#include "assay/report/written_results.h"
#include "assay/results/metric.h"

namespace assay::cli {

namespace {

struct HistoryFlags {
  std::string folder, output, metrics = "total_latency_s,working_memory_bytes,perplexity";
  double margin_percent = 2;
  bool is_json = false;
};

std::vector<RunRecord> runs_in(const std::string& folder) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(folder)) throw Error("{}: no such folder", folder);
  std::vector<RunRecord> runs;
  for (auto at = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied);
       at != fs::recursive_directory_iterator(); ++at) {
    if (at.depth() > 4) at.disable_recursion_pending();
    if (at->path().filename() != "results.json" || !at->is_regular_file()) continue;
    try {
      runs.push_back({at->path().string(), report::read_results(at->path())});
    } catch (const Error& error) {
      note(fmt::format("left out: {}", error.what()));
    }
  }
  if (runs.empty()) throw Error("{}: holds no results.json", folder);
  std::sort(runs.begin(), runs.end(), [](const RunRecord& x, const RunRecord& y) {
    return std::tie(x.results.created, x.path) < std::tie(y.results.created, y.path);
  });
  return runs;
}

nlohmann::ordered_json json_of_change(const RunChange& change, std::span<const RunRecord> runs) {
  if (!change.before) return nullptr;
  nlohmann::ordered_json json{{"path", runs[*change.before].path},
                              {"latency", report::shown_latency_change(change)},
                              {"memory", report::shown_change(change, "working_memory_bytes")},
                              {"perplexity", report::shown_change(change, "perplexity")},
                              {"failed", change.compared.failed},
                              {"why_not", change.why_not}};
  if (const ComparedRow* row = change.latency())
    json["comparison"] = report::comparison_json(row->comparison, report::sentence_of(*row));
  return json;
}

nlohmann::ordered_json json_of_runs(std::span<const RunRecord> runs, std::span<const RunChange> changes) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ResultSet& results = runs[i].results;
    const auto first = [&](std::string_view tag) {
      for (const Row& row : results.rows)
        if (row.status == RowStatus::ok && row.find(tag) != nullptr)
          return nlohmann::ordered_json(row.find(tag)->value);
      return nlohmann::ordered_json();
    };
    rows.push_back({{"created", results.created},
                    {"model", results.model.id},
                    {"sha256", results.model.sha256},
                    {"precision", results.model.dtype},
                    {"status", name_of(results.status)},
                    {"rows", results.rows.size()},
                    {"total_latency_s", first("total_latency_s")},
                    {"tokens_per_sec", first("tokens_per_sec")},
                    {"perplexity", first("perplexity")},
                    {"path", runs[i].path},
                    {"against_run_before", json_of_change(changes[i], runs)}});
  }
  return {{"rows", rows}};
}

int history(const HistoryFlags& flags) {
  const std::vector<std::string> metrics = words_of(flags.metrics);
  for (const std::string& tag : metrics)
    if (find_metric(tag) == nullptr)
      throw UsageError("--metric: expected names of `assay help metrics` joined by commas, found '{}'", tag);
  if (flags.margin_percent < 0)
    throw UsageError("--margin: expected 0 or more, found {}", flags.margin_percent);
  const std::vector<RunRecord> runs = runs_in(flags.folder);
  const std::vector<RunChange> changes = changes_over(runs, flags.margin_percent / 100);
  const report::Document document = report::history_document(runs, changes, metrics);
  if (!flags.output.empty()) report::write_document(document, flags.output, "history");
  if (flags.is_json)
    answer_json("history", json_of_runs(runs, changes));
  else
    answer_text(report::to_terminal(document, table_width()));
  return 0;
}

}  // namespace

void add_history(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<HistoryFlags>();
  CLI::App* command = app.add_subcommand(
      "history", "List the runs whose results.json lie in a folder, oldest first, and what changed");
  command->add_option("DIR", flags->folder, "Folder to search, with the folders in it")->required();
  command->add_option("-o,--output", flags->output,
                      "Folder for history.html and history.md with the trends [none: they are not written]");
  command->add_option("--metric", flags->metrics,
                      "Metrics whose trends to plot, joined by commas, as `assay help metrics` names them "
                      "[total_latency_s,working_memory_bytes,perplexity]");
  add_real(*command, "--margin", flags->margin_percent,
           "Margin within which a difference counts as none, in % [2]");
  command->add_flag("--json", flags->is_json, "Print one JSON document to standard output");
  command->footer("Example: assay history results -o trends");
  command->callback([flags, &exit_code] { exit_code = history(*flags); });
}

}  // namespace assay::cli
