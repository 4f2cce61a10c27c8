// A child process that is spoken to in lines: requests on its standard input, answers on its standard output.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assay/base/units.h"

namespace assay {

class ChildProcess {
 public:
  // Starts `arguments` (the program first, found as a shell finds it) in a process group of its own, so that
  // a terminal's Ctrl-C reaches the parent alone. Standard error is the parent's. Throws Error.
  explicit ChildProcess(const std::vector<std::string>& arguments);
  ~ChildProcess();  // kills what still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  enum class End { line, closed, timed_out, stopped };
  struct Answer {
    End end = End::closed;
    std::string line;  // without its line break
  };
  // False where the child no longer reads.
  bool write_line(const std::string& line);
  // Waits for a line, until the time is over (0 = for ever) or `should_stop` (asked ten times a second) says
  // so.
  Answer read_line(Seconds at_most, const std::function<bool()>& should_stop);

  // Tells it to end, by closing its input and output, and waits for nothing: several end side by side.
  void begin_end();
  // Ends it and says how it ended: "exited with 1", "was killed by signal 11 (Segmentation fault)".
  std::string end();
  int id() const { return id_; }

 private:
  int id_ = -1, in_ = -1, out_ = -1;
  std::string read_;
  std::optional<TimePoint> end_begun_;
  std::optional<std::string> how_it_ended_;
};

// The running program's own file, for starting it again. Throws Error where the system does not tell.
std::string own_program();

// Held while it lives: one run per folder. Throws Error naming the folder where another process holds it for
// longer than `patience`.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder, Seconds patience = {1});
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

// Whether a process holds the lock of this folder now; takes no lock itself.
bool is_folder_locked(const std::string& folder);

}  // namespace assay
