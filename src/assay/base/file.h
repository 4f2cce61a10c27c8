// Files: exact reads in slabs, and writes that are either complete or absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace assay {

// A file opened for positioned reads (pread): a truncated file is an Error, never a bus error.
class ReadFile {
 public:
  explicit ReadFile(std::filesystem::path path);
  // The same over bytes in memory, which must outlive it; `name` stands for the path in messages.
  ReadFile(std::filesystem::path name, std::span<const std::byte> content);
  ~ReadFile();
  ReadFile(ReadFile&& other) noexcept;
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;
  ReadFile& operator=(ReadFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  // Fills `out` from `offset`; throws Error where the file ends first.
  void read_exactly(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;  // -1: the content is in memory
  const std::byte* content_ = nullptr;
  std::uint64_t size_ = 0;
};

// Throws Error where the file is one that Git LFS leaves in place of a large one: what a clone without it
// holds.
void refuse_lfs_pointer(const ReadFile& file);

// The whole file as a string. Throws Error when it is missing, not a regular file, longer than `limit` bytes,
// or a pointer of Git LFS.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{1} << 30);

// Writes `content` beside `path` and renames it into place: a reader sees the old file or the whole new one.
// Throws Error (folder missing or not writable, disk full); nothing partial is left.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// The same for content written in pieces: `produce` receives a sink it may call many times.
using ByteSink = std::function<void(std::span<const std::byte>)>;
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(const ByteSink&)>& produce);

class TemporaryFile;
// A file of a known size, written in any order and by several threads under a temporary name. Whatever ends
// before keep(), an exception included, removes it.
class NewFile {
 public:
  // Takes the room on the disk at once, where the file system can. Throws Error (folder missing or not
  // writable, disk full).
  NewFile(const std::filesystem::path& path, std::uint64_t size);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::uint64_t offset, std::span<const std::byte> data);  // throws Error
  // Where it stands until then: what was written can be read there.
  const std::filesystem::path& temporary_path() const;
  // Renames it into place when all bytes are on the disk. Throws Error.
  void keep();

 private:
  std::unique_ptr<TemporaryFile> file_;
};

// Several files, all written before the first is renamed into place: where one cannot be written none is
// changed. (Only a crash between two renames leaves some old and some new, each of them whole.)
struct FileContent {
  std::filesystem::path path;
  std::string content;
};
void write_files_atomically(std::span<const FileContent> files);

// Removes what writers that were killed left behind: temporary files in this folder whose process is gone.
void remove_stale_temporaries(const std::filesystem::path& folder);

// Whether results can be written there, asked before anything is measured: the folder, or the one in which it
// is to be made, takes a file. Leaves nothing behind. Throws Error.
void check_output_folder(const std::filesystem::path& folder);
// The same for a file; its folder must be there.
void check_output_file(const std::filesystem::path& path);

// Makes the folder (and its parents) and checks that a file can be written there. Throws Error.
void ensure_writable_folder(const std::filesystem::path& folder);

}  // namespace assay
