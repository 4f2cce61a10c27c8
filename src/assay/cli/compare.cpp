// assay compare: two runs, tested. assay history: earlier runs in a folder.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/gate.h"
#include "assay/cli/options.h"
#include "assay/report/files.h"
#include "assay/report/render.h"
#include "assay/report/table.h"
#include "assay/results/compare_results.h"

namespace assay::cli {

namespace {

struct CompareFlags {
  std::string a, b;
  GateFlags gate;
  bool is_json = false;
};

int compare(const CompareFlags& flags) {
  const std::vector<FailureRule> rules = flags.gate.rules();
  const ComparedResults compared =
      compare_results(report::read_results(flags.a), report::read_results(flags.b), flags.gate.margin());
  if (compared.rows.empty() && compared.quality.empty() && compared.failed.empty())
    throw Error("{} and {} have no measured case in common", flags.a, flags.b);
  return answer_comparison(compared, rules, flags.is_json, {});
}

struct HistoryFlags {
  std::string folder;
  bool is_json = false;
};

int history(const HistoryFlags& flags) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(flags.folder)) throw Error("{}: no such folder", flags.folder);
  std::vector<std::pair<std::string, ResultSet>> runs;
  for (auto at =
           fs::recursive_directory_iterator(flags.folder, fs::directory_options::skip_permission_denied);
       at != fs::recursive_directory_iterator(); ++at) {
    if (at.depth() > 4) at.disable_recursion_pending();
    if (at->path().filename() != "results.json" || !at->is_regular_file()) continue;
    try {
      runs.emplace_back(at->path().string(), report::read_results(at->path()));
    } catch (const Error& error) {
      note(fmt::format("left out: {}", error.what()));
    }
  }
  if (runs.empty()) throw Error("{}: holds no results.json", flags.folder);
  std::sort(runs.begin(), runs.end(), [](const auto& x, const auto& y) {
    return std::tie(x.second.created, x.first) < std::tie(y.second.created, y.first);
  });
  report::Table table{
      {"Created", "Model", "Precision", "Status", "Rows", "Latency (s)", "Tokens/s", "Perplexity", "File"},
      {false, false, false, false, true, true, true, true, false},
      {},
      {0, 0, 2, 4, 5, 1, 3, 1, 0}};
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& run : runs) {
    const auto& [path, results] = run;
    const auto first = [&results = results](std::string_view tag) {
      for (const Row& row : results.rows)
        if (row.status == RowStatus::ok && row.find(tag) != nullptr)
          return std::optional(row.find(tag)->value);
      return std::optional<double>();
    };
    const auto shown = [](const std::optional<double>& value) {
      return value ? fmt::format("{:.4g}", *value) : "-";
    };
    const auto latency = first("total_latency_s"), speed = first("tokens_per_sec"),
               perplexity = first("perplexity");
    table.rows.push_back({results.created, results.model.id, results.model.dtype,
                          std::string(name_of(results.status)), std::to_string(results.rows.size()),
                          shown(latency), shown(speed), shown(perplexity), path});
    const auto json = [](const std::optional<double>& v) {
      return v ? nlohmann::ordered_json(*v) : nlohmann::ordered_json();
    };
    rows.push_back(nlohmann::ordered_json{{"created", results.created},
                                          {"model", results.model.id},
                                          {"sha256", results.model.sha256},
                                          {"precision", results.model.dtype},
                                          {"status", name_of(results.status)},
                                          {"rows", results.rows.size()},
                                          {"total_latency_s", json(latency)},
                                          {"tokens_per_sec", json(speed)},
                                          {"perplexity", json(perplexity)},
                                          {"path", path}});
  }
  if (flags.is_json)
    answer_json({{"rows", rows}});
  else
    answer_text(report::to_text(table, terminal_width()));
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* command = app.add_subcommand("compare", "Compare two runs case by case, by statistical tests");
  command->add_option("A", flags->a, "results.json of the earlier run, or its folder")->required();
  command->add_option("B", flags->b, "results.json of the later run, or its folder")->required();
  flags->gate.add_to(*command);
  command->add_flag("--json", flags->is_json, "Print one JSON document to standard output");
  command->footer("Example: assay compare old new --fail-on latency:3%,size:0%");
  command->callback([flags, &exit_code] { exit_code = compare(*flags); });
}

void add_history(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<HistoryFlags>();
  CLI::App* command =
      app.add_subcommand("history", "List the runs whose results.json lie in a folder, oldest first");
  command->add_option("DIR", flags->folder, "Folder to search, with the folders in it")->required();
  command->add_flag("--json", flags->is_json, "Print one JSON document to standard output");
  command->footer("Example: assay history results");
  command->callback([flags, &exit_code] { exit_code = history(*flags); });
}

}  // namespace assay::cli
