// A document that stands for itself, as files: what has no rows of a result set.
#pragma once

#include <filesystem>

#include "assay/report/document.h"
#include "assay/report/files.h"

namespace assay::report {

// report.md, report.html, and the document's figures as SVG and PNG in plots/. Throws Error where a file
// cannot be written; a PNG that cannot be drawn is a note.
WrittenReports write_document(const Document& document, const std::filesystem::path& folder);

}  // namespace assay::report
