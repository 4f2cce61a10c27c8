// results.json to everything that is made of one: the report on a terminal and in Markdown, tables, CSV,
// plots, and the same file written again.
#include <nlohmann/json.hpp>

#include "assay/report/csv.h"
#include "assay/report/figures.h"
#include "assay/report/plot.h"
#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/report/result_tables.h"
#include "assay/report/table.h"
#include "assay/report/written_results.h"
#include "assay/results/results_json.h"
#include "fuzz.h"
#include "json_mutator.h"

namespace assay::fuzz {
namespace {

void report_on(const ResultSet& results) {
  const report::Document document = report::document_of(results);
  for (const std::size_t width : {20, 80, 300}) report::to_terminal(document, width);
  report::to_markdown(document);
  report::pictures_of(document);
  for (const auto& [name, plot] : report::figures_of(results)) report::to_svg(plot);
  for (const report::Table& table : {report::build_results_table(results), report::tradeoff_table(results)}) {
    report::to_text(table, 40);
    report::to_csv(table);
  }
  report::results_csv(results);
  report::wide_results_csv(results);
  report::samples_csv(results);
}

// What was written is read, as the same.
void write_again(const ResultSet& results) {
  const std::string once = readable_json(report::results_json(results));
  std::string twice;
  const bool is_read = is_accepted([&] {
    twice = readable_json(
        report::results_json(results_from_json(parse_ordered_json(once, "results.json"), "results.json")));
  });
  expect(is_read, "results that were written cannot be read");
  expect(once == twice, "results that are written, read and written differ");
}

}  // namespace
}  // namespace assay::fuzz

ASSAY_FUZZ_FORM(assay::fuzz::one_document())

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  fuzz::is_accepted([&] {
    const ResultSet results =
        results_from_json(parse_ordered_json(fuzz::text_of(data, size), "results.json"), "results.json");
    fuzz::is_accepted([&] { fuzz::report_on(results); });
    fuzz::write_again(results);
  });
  return 0;
}
