#include "assay/backend/common/kept_tuning.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "assay/base/error.h"
#include "assay/base/file.h"

namespace assay {

std::string tuning_file_named(std::string_view name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return fmt::format("{}/assay/{}", cache, name);
  return home == nullptr || *home != '/' ? std::string() : fmt::format("{}/.cache/assay/{}", home, name);
}

std::string text_of_tuning_file(const std::string& file) {
  constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 20;
  try {
    return read_text_file(file, kMaxFile);
  } catch (const Error&) {
    return "";
  }
}

Json entries_of_tuning(std::string_view text, std::size_t max_values) {
  try {
    return parse_json_object(text, "", max_values);
  } catch (const Error&) {
    return Json::object();
  }
}

std::unique_ptr<FolderLock> lock_to_measure(const std::string& file, Seconds patience) {
  if (file.empty() || std::filesystem::is_directory(file)) return nullptr;
  try {
    const std::string folder = std::filesystem::path(file).parent_path().string();
    std::filesystem::create_directories(folder);
    if (access(folder.c_str(), W_OK) != 0) return nullptr;
    return std::make_unique<FolderLock>(folder, patience);
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace assay
