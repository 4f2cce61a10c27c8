#include "assay/report/document_files.h"

#include "assay/base/file.h"
#include "assay/report/html/html.h"
#include "assay/report/png.h"
#include "assay/report/render.h"

namespace assay::report {

WrittenReports write_document(const Document& document, const std::filesystem::path& folder) {
  WrittenReports written;
  const auto write = [&](const std::filesystem::path& path, const std::string& content) {
    write_file_atomically(path, content);
    written.paths.push_back(path);
  };
  ensure_writable_folder(folder);
  write(folder / "report.md", to_markdown(document));
  write(folder / "report.html", to_html(document));
  std::vector<std::string> svgs;
  const std::vector<std::pair<std::string, std::string>> pictures = pictures_of(document);
  for (const auto& [path, svg] : pictures) {
    ensure_writable_folder((folder / path).parent_path());
    write(folder / path, svg);
    svgs.push_back(svg);
  }
  const DrawnPictures drawn = draw_apart(svgs);
  for (std::size_t i = 0; i < pictures.size(); ++i)
    if (!drawn.pngs[i].empty()) write((folder / pictures[i].first).replace_extension("png"), drawn.pngs[i]);
  if (!drawn.why_not.empty()) written.note = "Plots were written as SVG only: " + drawn.why_not;
  return written;
}

}  // namespace assay::report
