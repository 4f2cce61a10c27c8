// assay compare: two runs, tested.
#include <filesystem>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/format.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/gate.h"
#include "assay/cli/options.h"
#include "assay/report/files.h"
#include "assay/report/result_document.h"
#include "assay/report/table.h"
#include "assay/results/compare_results.h"

namespace assay::cli {

namespace {

struct CompareFlags {
  std::string a, b, folder;
  GateFlags gate;
  bool is_json = false;
};

// Which files A and B are, for a document that stands alone.
report::Section runs_of(const CompareFlags& flags, const ResultSet& a, const ResultSet& b) {
  report::Table table{{"Run", "File", "Created", "Model", "Program", "Processor"},
                      {false, false, false, false, false, false},
                      {}};
  constexpr std::size_t kLongest = 200;
  const auto add = [&](const char* name, const std::string& file, const ResultSet& results) {
    table.rows.push_back({name, report::one_line(file, kLongest), results.created,
                          report::one_line(results.model.id, kLongest), "Assay " + results.build.version,
                          report::one_line(results.machine.cpu, kLongest)});
  };
  add("A", flags.a, a);
  add("B", flags.b, b);
  report::Section section{"Runs", {}};
  section.add(std::move(table));
  return section;
}

// The same file, or a copy of it.
bool are_same_run(const CompareFlags& flags) {
  const std::filesystem::path a = report::results_file(flags.a), b = report::results_file(flags.b);
  return std::filesystem::equivalent(a, b) || read_text_file(a) == read_text_file(b);
}

int compare(const CompareFlags& flags) {
  const std::vector<FailureRule> rules = flags.gate.rules();
  const ResultSet a = report::read_results(flags.a), b = report::read_results(flags.b);
  const ComparedResults compared = are_same_run(flags) ? compare_with_itself(a, flags.gate.margin())
                                                       : compare_results(a, b, flags.gate.margin());
  if (compared.rows.empty() && compared.quality.empty() && compared.failed.empty())
    throw Error("{} and {} have no measured case in common", flags.a, flags.b);
  if (!flags.folder.empty()) {
    report::Document document = report::document_of(compared);
    document.sections.insert(document.sections.begin(), runs_of(flags, a, b));
    report::write_document(document, flags.folder, "comparison");
  }
  return answer_comparison(compared, rules, flags.is_json, {});
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* command = app.add_subcommand("compare", "Compare two runs case by case, by statistical tests");
  command->add_option("A", flags->a, "results.json of the earlier run, or its folder")->required();
  command->add_option("B", flags->b, "results.json of the later run, or its folder")->required();
  command->add_option("-o,--output", flags->folder,
                      "Folder for comparison.html and comparison.md [none: they are not written]");
  flags->gate.add_to(*command);
  command->add_flag("--json", flags->is_json, "Print one JSON document to standard output");
  command->footer("Example: assay compare old new --fail-on latency:3%,size:0%");
  command->callback([flags, &exit_code] { exit_code = compare(*flags); });
}

}  // namespace assay::cli
