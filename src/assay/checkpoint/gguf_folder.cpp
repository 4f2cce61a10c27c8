#include "assay/checkpoint/gguf_folder.h"

#include <algorithm>
#include <cctype>

#include "assay/base/error.h"
#include "assay/checkpoint/gguf_shards.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

std::string in_lower_case(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// "q4_k" is a part of "model.Q4_K.gguf" and none of "model.Q4_K_M.gguf".
bool has_part(const std::string& name, const std::string& part) {
  const std::string text = in_lower_case(name), word = in_lower_case(part);
  const auto continues = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !continues(text[at - 1])) && (end == text.size() || !continues(text[end]))) return true;
  }
  return false;
}

// What people give of a file's name: all of it, that of any of its shards, without the ending, or a part.
std::string without_ending(std::string part) {
  constexpr std::string_view kEnding = ".gguf";
  if (!in_lower_case(part).ends_with(kEnding)) part += kEnding;
  part.replace(part.size() - kEnding.size(), kEnding.size(), kEnding);
  return std::string(gguf_shard_name(part).stem);
}

std::string stem_of(const fs::path& path) {
  return std::string(gguf_shard_name(path.filename().string()).stem);
}

std::string names_of_files(const std::vector<fs::path>& paths) {
  constexpr std::size_t kShown = 20;
  std::string names;
  for (std::size_t i = 0; i < paths.size() && i < kShown; ++i)
    names += (i == 0 ? "" : ", ") + printable(paths[i].filename().string());
  if (paths.size() > kShown) names += fmt::format(" and {} more", paths.size() - kShown);
  return names;
}

// The first shards of models, or the projectors that some have beside them: those that see or hear.
std::vector<fs::path> gguf_files_in(const fs::path& folder, bool are_projectors) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    const bool is_projector = in_lower_case(name).find("mmproj") != std::string::npos;
    if (!in_lower_case(name).ends_with(".gguf") || is_projector != are_projectors || !entry.is_regular_file())
      continue;
    if (gguf_shard_name(name).number == 1) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<fs::path> gguf_models_in(const fs::path& folder) {
  return gguf_files_in(folder, false);
}

fs::path gguf_model_in(const fs::path& folder, const std::string& part) {
  const std::vector<fs::path> all = gguf_models_in(folder);
  const std::string wanted = part.empty() ? part : without_ending(part);
  std::vector<fs::path> fitting;
  for (const fs::path& path : all) {
    if (!wanted.empty() && stem_of(path) == wanted) return path;  // whatever else has it as a part
    if (part.empty() || has_part(stem_of(path), wanted)) fitting.push_back(path);
  }
  if (fitting.size() == 1) return fitting.front();
  if (fs::is_regular_file(folder))
    throw Error("{}:{}: expected a folder in front of ':{}', found a file: give the file alone",
                folder.string(), printable(part), printable(part));
  if (const auto projectors = gguf_files_in(folder, true); all.empty() && !projectors.empty())
    throw Error("{}: expected the GGUF file of a language model in it, found only the projector of one: {}",
                folder.string(), names_of_files(projectors));
  if (all.empty()) throw Error("{}: expected a GGUF file in it, found none", folder.string());
  if (part.empty())
    throw Error(
        "{}: expected one model, found {} GGUF files: choose one with {}:PART, where PART is in the "
        "name of one of: {}",
        folder.string(), all.size(), folder.string(), names_of_files(all));
  if (fitting.empty())
    throw Error("{}: expected '{}' in the name of one GGUF file, found it in none of: {}", folder.string(),
                printable(part), names_of_files(all));
  throw Error("{}: expected '{}' in the name of one GGUF file, found it in {}: {}", folder.string(),
              printable(part), fitting.size(), names_of_files(fitting));
}

}  // namespace assay
