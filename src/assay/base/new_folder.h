// A folder that appears under its name complete, or not at all.
#pragma once

#include <filesystem>

namespace assay {

// Files are written to path(), a sibling "NAME.PID-N.partial", and keep() renames it into place. Whatever
// ends before keep(), an exception included, removes the sibling; a process that is killed leaves it behind,
// under a name that nobody takes for the finished folder.
class NewFolder {
 public:
  // Makes the parents of `target` too. Throws Error where `target` exists and may not be replaced, and where
  // no folder can be made.
  NewFolder(const std::filesystem::path& target, bool may_replace);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Puts it into place, in exchange for a folder that stands there, which is then removed. Throws Error.
  void keep();

 private:
  std::filesystem::path target_, path_;
  bool may_replace_;
};

}  // namespace assay
