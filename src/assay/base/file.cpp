#include "assay/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "assay/base/error.h"

namespace assay {

namespace fs = std::filesystem;

// A temporary file that disappears unless it is kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target) {
    static std::atomic<unsigned> counter{0};
    path_ = target;
    path_ += fmt::format(".{}-{}.tmp", getpid(), counter++);
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0) throw Error("cannot write {}: {}", target.string(), last_system_error());
  }
  ~TemporaryFile() {
    if (fd_ >= 0) close(fd_);
    if (!kept_) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const fs::path& path() const { return path_; }

  void write(std::span<const std::byte> data) {
    while (!data.empty()) {
      const ssize_t n = ::write(fd_, data.data(), data.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw Error("cannot write {}: {}", target_.string(), last_system_error());
      data = data.subspan(static_cast<std::size_t>(n));
    }
  }
  void write_at(std::uint64_t offset, std::span<const std::byte> data) {
    while (!data.empty()) {
      const ssize_t n = pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw Error("cannot write {}: {}", target_.string(), last_system_error());
      offset += static_cast<std::uint64_t>(n);
      data = data.subspan(static_cast<std::size_t>(n));
    }
  }
  // fallocate, not posix_fallocate: where a file system cannot, that one writes the whole file.
  void take_room(std::uint64_t size) {
    if (size == 0) return;
    int result = 0;
    do result = fallocate(fd_, 0, 0, static_cast<off_t>(size));
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EOPNOTSUPP) result = ftruncate(fd_, static_cast<off_t>(size));
    if (result != 0)
      throw Error("cannot write {}: {} ({} bytes are needed)", target_.string(), last_system_error(), size);
  }
  void keep() {
    finish();
    put_in_place();
  }
  // All bytes are on the disk.
  void finish() {
    const int fd = std::exchange(fd_, -1);
    const bool synced = fsync(fd) == 0 || errno == EINVAL;  // EINVAL: the file system has no fsync
    if (close(fd) != 0 || !synced) throw Error("cannot write {}: {}", target_.string(), last_system_error());
  }
  void put_in_place() {
    if (rename(path_.c_str(), target_.c_str()) != 0)
      throw Error("cannot write {}: {}", target_.string(), last_system_error());
    kept_ = true;
  }

 private:
  fs::path target_, path_;
  int fd_ = -1;
  bool kept_ = false;
};

ReadFile::ReadFile(fs::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe must not hang; it is refused below as not a regular file.
  fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) throw Error("cannot open {}: {}", path_.string(), last_system_error());
  struct stat info {};
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd_);
    throw Error("cannot read {}: expected a regular file", path_.string());
  }
  size_ = static_cast<std::uint64_t>(info.st_size);
}

ReadFile::ReadFile(fs::path name, std::span<const std::byte> content)
    : path_(std::move(name)), content_(content.data()), size_(content.size()) {}

ReadFile::ReadFile(ReadFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      content_(other.content_),
      size_(other.size_) {}

ReadFile::~ReadFile() {
  if (fd_ >= 0) close(fd_);
}

void ReadFile::read_exactly(std::uint64_t offset, std::span<std::byte> out) const {
  constexpr std::size_t kSlab = std::size_t{64} << 20;
  std::size_t done = 0;
  if (fd_ < 0 && offset < size_) {
    done = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), size_ - offset));
    std::copy_n(content_ + offset, done, out.data());
  }
  while (done < out.size()) {
    const std::size_t want = std::min(kSlab, out.size() - done);
    const ssize_t n = fd_ < 0 ? 0 : pread(fd_, out.data() + done, want, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error("cannot read {}: {}", path_.string(), last_system_error());
    if (n == 0)
      throw Error("{} is truncated: expected {} bytes at offset {}, found {}", path_.string(), out.size(),
                  offset, done);
    done += static_cast<std::size_t>(n);
  }
}

void refuse_lfs_pointer(const ReadFile& file) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
  constexpr std::uint64_t kLongest = 1024;  // by Git LFS's specification
  char begin[kBegin.size()];
  if (file.size() < sizeof begin || file.size() >= kLongest) return;
  file.read_exactly(0, std::as_writable_bytes(std::span(begin)));
  if (std::string_view(begin, sizeof begin) == kBegin)
    throw Error(
        "{}: expected the file itself, found the pointer that Git LFS leaves in its place: fetch it with "
        "'git lfs pull' in that repository",
        file.path().string());
}

std::string read_text_file(const fs::path& path, std::uint64_t limit) {
  const ReadFile file(path);
  if (file.size() > limit)
    throw Error("{} is too large: {} bytes, at most {} expected", path.string(), file.size(), limit);
  refuse_lfs_pointer(file);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_exactly(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  write_file_atomically(
      path, [&](const ByteSink& sink) { sink(std::as_bytes(std::span(content.data(), content.size()))); });
}

namespace {

fs::path writable_target(const fs::path& path) {
  // A link is followed, so that what it points to is replaced and not the link; a device or a pipe stays what
  // it is.
  std::error_code code;
  fs::path target = fs::is_symlink(path, code) ? fs::weakly_canonical(path, code) : path;
  if (fs::exists(target, code) && !fs::is_regular_file(target, code))
    throw Error("cannot write {}: expected a regular file or a new name", path.string());
  return target;
}

// "results.csv.4711-3.tmp": 4711; 0 where it is no name of a temporary file.
pid_t writer_of(const std::string& name) {
  constexpr std::string_view kEnd = ".tmp";
  if (!name.ends_with(kEnd)) return 0;
  const std::string stem = name.substr(0, name.size() - kEnd.size());
  const std::size_t dot = stem.rfind('.'), dash = stem.rfind('-');
  if (dot == std::string::npos || dash == std::string::npos || dash < dot + 2 || dash + 1 == stem.size())
    return 0;
  const auto is_number = [](std::string_view text) {
    return text.size() < 10 && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const std::string process = stem.substr(dot + 1, dash - dot - 1);
  if (!is_number(process) || !is_number(stem.substr(dash + 1))) return 0;
  return static_cast<pid_t>(std::strtol(process.c_str(), nullptr, 10));
}

}  // namespace

void write_files_atomically(std::span<const FileContent> files) {
  std::vector<std::unique_ptr<TemporaryFile>> all;
  for (const FileContent& file : files) {
    all.push_back(std::make_unique<TemporaryFile>(writable_target(file.path)));
    all.back()->write(std::as_bytes(std::span(file.content.data(), file.content.size())));
    all.back()->finish();
  }
  for (const auto& file : all) file->put_in_place();
}

void remove_stale_temporaries(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (const pid_t writer = writer_of(entry.path().filename().string());
        writer > 0 && kill(writer, 0) != 0 && errno == ESRCH)
      stale.push_back(entry.path());
  for (const fs::path& path : stale) fs::remove(path, code);
}

void write_file_atomically(const fs::path& path, const std::function<void(const ByteSink&)>& produce) {
  TemporaryFile file(writable_target(path));
  produce([&](std::span<const std::byte> data) { file.write(data); });
  file.keep();
}

NewFile::NewFile(const fs::path& path, std::uint64_t size)
    : file_(std::make_unique<TemporaryFile>(writable_target(path))) {
  file_->take_room(size);
}

NewFile::~NewFile() = default;

void NewFile::write(std::uint64_t offset, std::span<const std::byte> data) {
  file_->write_at(offset, data);
}

const fs::path& NewFile::temporary_path() const {
  return file_->path();
}

void NewFile::keep() {
  file_->keep();
}

void check_output_folder(const fs::path& folder) {
  std::error_code code;
  fs::path there = fs::absolute(folder);
  while (fs::status(there, code).type() == fs::file_type::not_found) there = there.parent_path();
  const auto refuse = [&](const std::string& why) {
    throw Error("cannot make the output folder {}: {}", folder.string(), why);
  };
  if (const fs::file_type type = fs::status(there, code).type(); type == fs::file_type::none)
    refuse(code.message());
  else if (type != fs::file_type::directory)
    refuse(fmt::format("{} is not a folder", there.string()));
  try {
    const TemporaryFile probe(there / "probe");  // as ensure_writable_folder() asks
  } catch (const Error& error) {
    refuse(error.what());
  }
}

void check_output_file(const fs::path& path) {
  const TemporaryFile probe(writable_target(path));
}

void ensure_writable_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code || !fs::is_directory(folder))
    throw Error("cannot make the output folder {}: {}", folder.string(),
                code ? code.message() : "it is not a folder");
  const TemporaryFile probe(folder /
                            "probe");  // access() is not asked: it says yes to root on read-only mounts
}

}  // namespace assay
