// A folder that appears under its name complete, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

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

// Bytes put aside on disk, in a file without a name: it vanishes with the process.
class ScratchFile {
 public:
  explicit ScratchFile(const std::filesystem::path& folder);  // throws Error
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // Returns where the bytes begin. Throws Error (disk full).
  std::uint64_t append(std::span<const std::byte> data);
  void read_exactly(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::filesystem::path folder_;
};

}  // namespace assay
