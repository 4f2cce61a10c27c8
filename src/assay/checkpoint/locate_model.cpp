// Finds the folder or file that a user's name for a model means.
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/checkpoint/folder_content.h"
#include "assay/checkpoint/gguf_folder.h"
#include "assay/checkpoint/hub_cache.h"
#include "assay/checkpoint/source.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

std::string environment(const char* key) {
  const char* value = std::getenv(key);
  return value != nullptr ? value : "";
}

fs::path executable_folder() {
  std::error_code code;
  const fs::path self = fs::read_symlink("/proc/self/exe", code);
  if (!code) return self.parent_path();
  // Without /proc: the name the program was started by.
  const auto* name =
      reinterpret_cast<const char*>(getauxval(AT_EXECFN));  // NOLINT(performance-no-int-to-ptr): its type
  return name != nullptr ? fs::absolute(name, code).parent_path() : fs::path();
}

// `org/name` as the cache spells it; empty when the name cannot be an entry of it.
std::string cache_folder_name(const std::string& name) {
  std::string folder = "models--";
  int slashes = 0;
  for (const char c : name) {
    if (c == '/') {
      folder += "--";
      ++slashes;
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.') {
      folder += c;
    } else {
      return "";
    }
  }
  const bool climbs = name.find("..") != std::string::npos;
  return slashes > 1 || climbs || name.empty() || name.front() == '/' || name.back() == '/' ? "" : folder;
}

std::string trimmed_line(const fs::path& file) {
  std::string text = read_text_file(file, 4096);
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
             text.end());
  return text;
}

// The snapshot that a reference names: one component, never a path out of the cache.
fs::path referenced(const fs::path& entry, const std::string& reference) {
  const std::string commit = trimmed_line(entry / "refs" / reference);
  if (commit.empty() || commit == "." || commit == ".." || commit.find('/') != std::string::npos)
    throw Error("{}: expected the name of a snapshot, found '{}'", (entry / "refs" / reference).string(),
                commit);
  return entry / "snapshots" / commit;
}

// Names of files inside a folder, joined by slashes: "fix/one", "refs/pr/1".
bool is_plain_path(const std::string& text) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string::npos) return false;
    begin = end + 1;
  }
  return true;
}

// The snapshot of a revision (a branch, a tag, a pull request or a commit); of the newest one where none is
// asked for.
fs::path snapshot_of(const fs::path& entry, const std::string& revision) {
  const fs::path snapshots = entry / "snapshots";
  std::error_code code;
  if (!revision.empty()) {
    const bool is_plain = is_plain_path(revision);
    if (is_plain && revision.find('/') == std::string::npos && fs::is_directory(snapshots / revision, code))
      return snapshots / revision;
    if (is_plain && fs::is_regular_file(entry / "refs" / revision, code)) return referenced(entry, revision);
    throw Error("{}: no revision '{}' in the cache", entry.string(), revision);
  }
  if (fs::exists(entry / "refs/main")) {
    fs::path main = referenced(entry, "main");
    if (fs::is_directory(main)) return main;
  }
  fs::path newest;
  if (fs::is_directory(snapshots))
    for (const auto& snapshot : fs::directory_iterator(snapshots))
      if (newest.empty() || snapshot.last_write_time() > fs::last_write_time(newest))
        newest = snapshot.path();
  if (newest.empty()) throw Error("{}: the cache entry holds no snapshot", entry.string());
  return newest;
}

// An entry of a cache that is given as a folder, such as .../models--org--name.
bool is_cache_entry(const fs::path& folder) {
  std::error_code code;
  const fs::path name = (folder.has_filename() ? folder : folder.parent_path()).filename();
  return name.string().starts_with("models--") && fs::is_directory(folder / "snapshots", code) &&
         !fs::exists(folder / "config.json", code);
}

// Empty where no cache has the name. Throws Error where one has, and not the revision.
std::optional<fs::path> cached_model(const std::string& name, const std::string& revision) {
  const std::string folder = cache_folder_name(name);
  if (folder.empty()) return std::nullopt;
  const std::vector<fs::path> caches = hub_caches();
  for (const fs::path& cache : caches)
    if (fs::is_directory(cache / folder)) return snapshot_of(cache / folder, revision);
  // The hub renamed its first models: `gpt2` is `openai-community/gpt2` today.
  const std::string renamed = "models--openai-community--" + name;
  for (const fs::path& cache : caches)
    if (name.find('/') == std::string::npos && fs::is_directory(cache / renamed))
      return snapshot_of(cache / renamed, revision);
  return std::nullopt;
}

}  // namespace

fs::path locate_shipped_model(const fs::path& data_folder) {
  std::vector<fs::path> places;
  if (!data_folder.empty()) places.push_back(data_folder / "demo");
  if (const std::string models = environment("ASSAY_MODELS"); !models.empty())
    places.push_back(fs::path(models) / "demo");
  const fs::path here = executable_folder();
  for (const char* step : {"../share/assay/models/demo", "../../models/demo", "../../../models/demo"})
    places.push_back(here / step);
  places.push_back(fs::path(ASSAY_INSTALLED_DATA) / "models/demo");
  places.push_back("models/demo");
  for (const fs::path& place : places)
    if (fs::exists(place / "config.json")) return fs::weakly_canonical(place);
  throw Error(
      "demo: the model that ships with the program was not found; set ASSAY_MODELS to the folder that holds "
      "demo/");
}

fs::path locate_model(const std::string& candidate, const fs::path& data_folder) {
  if (candidate.empty())
    throw Error("the model's name is empty: expected a folder, a Hugging Face cache entry or 'demo'");
  if (fs::is_directory(candidate)) {
    if (is_cache_entry(candidate)) return snapshot_of(candidate, "");
    // Results under a model's name, or an empty folder, do not stand in front of that model.
    if (shows_model(candidate)) return candidate;
    if (candidate != "demo") return cached_model(candidate, "").value_or(candidate);
  }
  if (candidate == "demo") return locate_shipped_model(data_folder);
  if (fs::is_regular_file(candidate)) return candidate;
  if (fs::exists(candidate)) throw Error("{}: expected a model folder, found a file", candidate);
  // `:PART` chooses among the GGUF files of what stands before it.
  if (const auto colon = candidate.rfind(':'); colon != std::string::npos && colon > 0 &&
                                               candidate.find('/', colon) == std::string::npos &&
                                               colon + 1 < candidate.size())
    return gguf_model_in(locate_model(candidate.substr(0, colon), data_folder), candidate.substr(colon + 1));
  const auto at = candidate.rfind('@');
  const std::string name = candidate.substr(0, at),
                    revision = at == std::string::npos ? "" : candidate.substr(at + 1);
  if (at != std::string::npos && fs::is_directory(name) && is_cache_entry(name))
    return snapshot_of(name, revision);
  if (const std::optional<fs::path> cached = cached_model(name, revision)) return *cached;
  if (cache_folder_name(name).empty()) throw NoSuchModel("{}: no such folder", candidate);
  std::vector<std::string> places;
  for (const fs::path& cache : hub_caches()) places.push_back(cache.string());
  throw NoSuchModel("{}: no such folder, and no entry of that name in the Hugging Face cache {}", candidate,
                    fmt::join(places, " or "));
}

}  // namespace assay
