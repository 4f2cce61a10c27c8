// Writes the files of a result set into a folder: all of them or none, but for pictures.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "assay/report/document.h"
#include "assay/results/results.h"

namespace assay::report {

struct WrittenReports {
  std::vector<std::filesystem::path> paths;
  std::string note;  // what could not be written and why: PNG without librsvg
};

// results.json, results.csv, results_wide.csv, samples.csv, tradeoff.csv (where it was measured), report.md,
// report.html, and then the plots as SVG and PNG in plots/. Throws Error where a file cannot be written, and
// changes none then; plots that cannot be written or drawn are a note.
WrittenReports write_reports(const ResultSet& results, const std::filesystem::path& folder);

// Moves what an earlier run has written into the folder, its journal and configuration included, to earlier/N
// below it, where N is one more than the last, so that a new run replaces nothing. Gives that folder; empty
// where there is no results.json, and nothing is moved. Throws Error where a file cannot be moved.
std::filesystem::path keep_earlier_run(const std::filesystem::path& folder);

// A document as NAME.md, with its plots in plots/, and as NAME.html. Throws Error where one cannot be
// written.
WrittenReports write_document(const Document& document, const std::filesystem::path& folder,
                              const std::string& name);

// The file that a path to results means: itself, or the results.json of a folder.
std::filesystem::path results_file(const std::filesystem::path& path);
// Reads a results.json back, or the one in a folder. Throws Error for a file that is none, or of another
// schema version.
ResultSet read_results(const std::filesystem::path& path);

}  // namespace assay::report
