#include "assay/report/files.h"

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/format.h"
#include "assay/base/json_reader.h"
#include "assay/report/csv.h"
#include "assay/report/html/html.h"
#include "assay/report/png.h"
#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/report/result_tables.h"
#include "assay/report/written_results.h"
#include "assay/results/results_json.h"

namespace assay::report {

namespace fs = std::filesystem;

namespace {

constexpr const char* kTable = "plots/table.svg";
constexpr const char* kEarlier = "earlier";
// The results come last: as long as they are there, so is a run.
constexpr const char* kFilesOfARun[] = {"plots",       "report.html",      "report.md",   "tradeoff.csv",
                                        "samples.csv", "results_wide.csv", "results.csv", "journal.jsonl",
                                        "config.json", "results.json"};

// Their failure is a note: what was measured is on the disk by then.
void write_plots(const ResultSet& results, const Document& document, const fs::path& folder,
                 WrittenReports& written) try {
  std::vector<std::pair<std::string, std::string>> pictures = pictures_of(document);
  if (results.rows.size() > 1) pictures.emplace_back(kTable, table_svg(build_results_table(results)));
  if (pictures.empty()) return;
  ensure_writable_folder((folder / kTable).parent_path());
  const auto write = [&](const fs::path& path, const std::string& content) {
    write_file_atomically(path, content);
    written.paths.push_back(path);
  };
  std::vector<std::string> svgs;
  for (const auto& [path, svg] : pictures) {
    write(folder / path, svg);
    svgs.push_back(svg);
  }
  const DrawnPictures drawn = draw_apart(svgs);
  std::size_t missing = 0;
  for (std::size_t i = 0; i < pictures.size(); ++i)
    if (drawn.pngs[i].empty())
      ++missing;
    else
      write((folder / pictures[i].first).replace_extension("png"), drawn.pngs[i]);
  if (missing == pictures.size())
    written.note = "Plots were written as SVG only: " + drawn.why_not;
  else if (missing > 0)
    written.note =
        fmt::format("{} of {} plots were written as SVG only: {}", missing, pictures.size(), drawn.why_not);
} catch (const Error& error) {
  written.note = fmt::format("Not every plot was written: {}", error.what());
}

}  // namespace

WrittenReports write_reports(const ResultSet& results, const fs::path& folder) {
  ensure_writable_folder(folder);
  std::vector<FileContent> files = {{folder / "results.csv", results_csv(results)},
                                    {folder / "results_wide.csv", wide_results_csv(results)},
                                    {folder / "samples.csv", samples_csv(results)}};
  if (const Table table = tradeoff_table(results); !table.rows.empty())
    files.push_back({folder / "tradeoff.csv", to_csv(table)});
  const Document document = document_of(results);
  files.push_back({folder / "report.md", to_markdown(document)});
  files.push_back({folder / "report.html", to_html(document, results)});
  // Malformed bytes of a generated text become U+FFFD: the file is JSON whatever the model wrote. It comes
  // last: it says that the others are there.
  files.push_back({folder / "results.json", readable_json(results_json(results))});
  write_files_atomically(files);
  WrittenReports written;
  for (const FileContent& file : files) written.paths.push_back(file.path);
  write_plots(results, document, folder, written);
  return written;
}

fs::path keep_earlier_run(const fs::path& folder) {
  if (!fs::exists(folder / "results.json")) return {};
  int number = 1;
  while (fs::exists(folder / kEarlier / std::to_string(number))) ++number;
  fs::path kept = folder / kEarlier / std::to_string(number);
  std::error_code code;
  fs::create_directories(kept, code);
  if (code) throw Error("cannot make the folder {}: {}", kept.string(), code.message());
  for (const char* name : kFilesOfARun) {
    if (!fs::exists(fs::symlink_status(folder / name))) continue;
    fs::rename(folder / name, kept / name, code);
    if (code)
      throw Error("cannot move {} of an earlier run to {}: {}", (folder / name).string(), kept.string(),
                  code.message());
  }
  return kept;
}

WrittenReports write_document(const Document& document, const fs::path& folder, const std::string& name) {
  ensure_writable_folder(folder);
  std::vector<FileContent> files;
  for (const auto& [path, svg] : pictures_of(document)) files.push_back({folder / path, svg});
  if (!files.empty()) ensure_writable_folder((folder / kTable).parent_path());
  files.push_back({folder / (name + ".md"), to_markdown(document)});
  files.push_back({folder / (name + ".html"), to_html(document)});
  write_files_atomically(files);
  WrittenReports written;
  for (const FileContent& file : files) written.paths.push_back(file.path);
  return written;
}

fs::path results_file(const fs::path& path) {
  return fs::is_directory(path) ? path / "results.json" : path;
}

ResultSet read_results(const fs::path& path) {
  const fs::path file = results_file(path);
  return results_from_json(parse_ordered_json(read_text_file(file), file.string()), file.string());
}

}  // namespace assay::report
