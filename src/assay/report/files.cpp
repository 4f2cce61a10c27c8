#include "assay/report/files.h"

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/report/csv.h"
#include "assay/report/summary.h"

namespace assay {

namespace fs = std::filesystem;

std::vector<fs::path> write_reports(const ResultSet& results, const fs::path& folder) {
  ensure_writable_folder(folder);
  // Malformed bytes of a generated text become U+FFFD: the file is JSON whatever the model wrote.
  const std::string json =
      to_json(results).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const std::pair<const char*, std::string> files[] = {
      {"results.csv", results_csv(results)},
      {"samples.csv", samples_csv(results)},
      {"report.md", summary_markdown(results)},
      {"results.json", json}};  // last: it says the others are there
  std::vector<fs::path> paths;
  for (const auto& [name, content] : files) {
    paths.push_back(folder / name);
    write_file_atomically(paths.back(), content);
  }
  return paths;
}

ResultSet read_results(const fs::path& file) {
  const std::string text = read_text_file(file);
  nlohmann::ordered_json json;
  try {
    json = nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::ordered_json::exception& e) {
    throw Error("{}: not valid JSON: {}", file.string(), e.what());
  }
  return results_from_json(json, file.string());
}

}  // namespace assay
