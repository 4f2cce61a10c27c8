// Writes the files of a result set into a folder, each whole or not at all.
#pragma once

#include <filesystem>
#include <vector>

#include "assay/measure/results.h"

namespace assay {

// results.json, results.csv, samples.csv and report.md; returns their paths. Throws Error.
std::vector<std::filesystem::path> write_reports(const ResultSet& results,
                                                 const std::filesystem::path& folder);

// Reads a results.json back. Throws Error for a file that is none, or of another schema version.
ResultSet read_results(const std::filesystem::path& file);

}  // namespace assay
