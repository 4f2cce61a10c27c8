#include "assay/report/files.h"

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/json_reader.h"
#include "assay/report/csv.h"
#include "assay/report/figures.h"
#include "assay/report/png.h"
#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/report/result_tables.h"
#include "assay/results/results_json.h"

namespace assay::report {

namespace fs = std::filesystem;

namespace {

template <typename Write>
void write_plots(const ResultSet& results, const fs::path& folder, const Write& write,
                 WrittenReports& written) {
  std::vector<std::pair<std::string, std::string>> pictures;
  for (const auto& [name, plot] : figures_of(results)) pictures.emplace_back(name, to_svg(plot));
  if (results.rows.size() > 1) pictures.emplace_back("table", table_svg(build_results_table(results)));
  if (pictures.empty()) return;
  ensure_writable_folder(folder);
  written.note = why_no_png().empty() ? "" : "Plots were written as SVG only: " + why_no_png();
  for (const auto& [name, svg] : pictures) {
    write(folder / (name + ".svg"), svg);
    if (written.note.empty()) write(folder / (name + ".png"), png_of_svg(svg));
  }
}

}  // namespace

WrittenReports write_reports(const ResultSet& results, const fs::path& folder) {
  ensure_writable_folder(folder);
  WrittenReports written;
  const auto write = [&](const fs::path& path, const std::string& content) {
    written.paths.push_back(path);
    write_file_atomically(path, content);
  };
  write(folder / "results.csv", results_csv(results));
  write(folder / "results_wide.csv", wide_results_csv(results));
  write(folder / "samples.csv", samples_csv(results));
  if (const Table table = tradeoff_table(results); !table.rows.empty())
    write(folder / "tradeoff.csv", to_csv(table));
  write_plots(results, folder / "plots", write, written);
  write(folder / "report.md", to_markdown(document_of(results)));
  // Malformed bytes of a generated text become U+FFFD: the file is JSON whatever the model wrote. It comes
  // last: it says that the others are there.
  write(folder / "results.json", readable_json(to_json(results)));
  return written;
}

ResultSet read_results(const fs::path& file) {
  return results_from_json(parse_ordered_json(read_text_file(file), file.string()), file.string());
}

}  // namespace assay::report
