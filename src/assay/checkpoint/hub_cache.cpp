#include "assay/checkpoint/hub_cache.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <initializer_list>

namespace assay {

namespace fs = std::filesystem;

namespace {

std::string variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr ? value : "";
}

// The first that is set and not empty.
std::string first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::string value = variable(name); !value.empty()) return value;
  return "";
}

std::string home_of(const std::string& user) {
  if (user.empty())
    if (std::string home = variable("HOME"); !home.empty()) return home;
  const auto* const entry = user.empty() ? getpwuid(getuid()) : getpwnam(user.c_str());
  return entry != nullptr && entry->pw_dir != nullptr ? entry->pw_dir : "";
}

std::string with_home(std::string_view path) {
  if (!path.starts_with("~")) return std::string(path);
  const std::size_t end = std::min(path.find('/'), path.size());
  std::string home = home_of(std::string(path.substr(1, end - 1)));
  if (home.empty()) return std::string(path);
  while (home.size() > 1 && home.back() == '/') home.pop_back();
  return home + std::string(path.substr(end));
}

}  // namespace

std::string expanded_path(std::string_view path) {
  const std::string text = with_home(path);
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const bool is_braced = text.compare(i, 2, "${") == 0;
    const std::size_t begin = i + (is_braced ? 2 : 1);
    std::size_t end = begin;
    if (text[i] == '$')
      while (end < text.size() &&
             (is_braced ? text[end] != '}'
                        : std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
        ++end;
    const std::string name = text.substr(begin, end - begin);
    const bool is_whole = text[i] == '$' && !name.empty() && (!is_braced || end < text.size());
    const char* value = is_whole ? std::getenv(name.c_str()) : nullptr;
    if (value == nullptr) {
      out += text[i++];
      continue;
    }
    out += value;
    i = end + (is_braced ? 1 : 0);
  }
  return out;
}

std::vector<fs::path> hub_caches() {
  std::vector<fs::path> caches;
  if (const std::string cache = first_of({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}); !cache.empty()) {
    caches.emplace_back(expanded_path(cache));
  } else if (const std::string home = first_of({"HF_HOME"}); !home.empty()) {
    caches.push_back(fs::path(expanded_path(home)) / "hub");
  } else {
    const std::string shared = first_of({"XDG_CACHE_HOME"});
    caches.push_back(fs::path(expanded_path(shared.empty() ? "~/.cache" : shared)) / "huggingface/hub");
  }
  if (const std::string older =
          first_of({"TRANSFORMERS_CACHE", "PYTORCH_TRANSFORMERS_CACHE", "PYTORCH_PRETRAINED_BERT_CACHE"});
      !older.empty())
    caches.emplace_back(expanded_path(older));
  return caches;
}

}  // namespace assay
