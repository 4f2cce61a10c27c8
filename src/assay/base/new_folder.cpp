#include "assay/base/new_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "assay/base/error.h"

namespace assay {

namespace fs = std::filesystem;

NewFolder::NewFolder(const fs::path& target, bool may_replace) : may_replace_(may_replace) {
  if (target.empty()) throw Error("cannot make a folder: its name is empty");
  std::error_code code;
  // Without a slash at the end, and through links, so that what a link points to is replaced.
  // Absolute first: of a single new name it would leave a path without a folder.
  target_ = fs::weakly_canonical(fs::absolute(target, code), code);
  if (code) throw Error("cannot make the folder {}: {}", target.string(), code.message());
  if (!target_.has_filename()) target_ = target_.parent_path();
  if (target_ == target_.root_path()) throw Error("cannot replace the folder {}", target_.string());
  if (fs::exists(target_, code)) {
    if (!fs::is_directory(target_)) throw Error("{} exists, and is no folder", target.string());
    if (!may_replace_) throw Error("{} exists already: expected a new name", target.string());
  }
  fs::create_directories(target_.parent_path(), code);
  if (code) throw Error("cannot make the folder {}: {}", target_.parent_path().string(), code.message());
  // What a killed process of the same number left is not in the way.
  constexpr int kAttempts = 100;
  for (int i = 0; i < kAttempts && path_.empty(); ++i) {
    fs::path path = target_;
    path += fmt::format(".{}-{}.partial", getpid(), i);
    if (fs::create_directory(path, code)) path_ = path;
    if (code) throw Error("cannot make the folder {}: {}", path.string(), code.message());
  }
  if (path_.empty()) throw Error("cannot make the folder {}: its .partial names are taken", target_.string());
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void NewFolder::keep() {
  // RENAME_NOREPLACE: what has come into being there meanwhile is not ours to replace.
  if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) == 0) {
    path_.clear();
    return;
  }
  if (errno == EEXIST && may_replace_ &&
      renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0)
    return;  // path_ is the old folder now, and goes with this object
  // File systems without the two: the folder is away for a moment, but never half there.
  if (errno != EINVAL && errno != ENOSYS)
    throw Error("cannot put the folder {} into place: {}", target_.string(), last_system_error());
  std::error_code code;
  if (may_replace_ && fs::exists(target_, code)) {
    fs::path old = path_;
    old += ".old";
    fs::rename(target_, old);
    fs::rename(path_, target_);
    path_ = old;
    return;
  }
  fs::rename(path_, target_);
  path_.clear();
}

}  // namespace assay
