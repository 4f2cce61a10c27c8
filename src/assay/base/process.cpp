#include "assay/base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "assay/base/cpu.h"
#include "assay/base/error.h"

namespace assay {

namespace {

constexpr std::size_t kLongestLine = std::size_t{1}
                                     << 28;  // the length of an answer: a broken child must not fill memory

// Two ends that no other child inherits.
std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("cannot make a pipe: {}", last_system_error());
  return ends;
}

std::string how(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fmt::format("was killed by signal {} ({}){}", signal, strsignal(signal),
                       signal == SIGKILL ? ", as the kernel does when memory runs out" : "");
  }
  return fmt::format("exited with {}", WEXITSTATUS(status));
}

// While one lives, writing into a pipe that nobody reads any more is an error, not the end of this process.
class SurvivesClosedPipe {
 public:
  SurvivesClosedPipe() {
    sigemptyset(&closed_pipe_);
    sigaddset(&closed_pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &closed_pipe_, &before_);
  }
  ~SurvivesClosedPipe() {
    constexpr timespec kAtOnce{0, 0};
    if (sigismember(&before_, SIGPIPE) == 0) sigtimedwait(&closed_pipe_, nullptr, &kAtOnce);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SurvivesClosedPipe(const SurvivesClosedPipe&) = delete;
  SurvivesClosedPipe& operator=(const SurvivesClosedPipe&) = delete;

 private:
  sigset_t closed_pipe_, before_;
};

// While one lives, this thread may run wherever the process might when it began. A child inherits that, and
// would see a single core where a pool has pinned the thread that starts it.
class OnAllowedProcessors {
 public:
  OnAllowedProcessors() : is_known_(sched_getaffinity(0, sizeof(before_), &before_) == 0) {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (const int cpu : allowed_processors()) CPU_SET(static_cast<std::size_t>(cpu), &all);
    if (is_known_) sched_setaffinity(0, sizeof(all), &all);
  }
  ~OnAllowedProcessors() {
    if (is_known_) sched_setaffinity(0, sizeof(before_), &before_);
  }
  OnAllowedProcessors(const OnAllowedProcessors&) = delete;
  OnAllowedProcessors& operator=(const OnAllowedProcessors&) = delete;

 private:
  cpu_set_t before_{};
  bool is_known_;
};

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  const auto in = make_pipe(), out = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  int code = 0;
  {
    const OnAllowedProcessors everywhere;
    code = posix_spawnp(&id_, pointers[0], &actions, &attributes, pointers.data(), environ);
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(in[0]);
  close(out[1]);
  in_ = in[1];
  out_ = out[0];
  if (code != 0) {
    id_ = -1;
    close(in_);
    close(out_);
    throw Error("{}: cannot be started: {}", arguments.front(), std::strerror(code));
  }
}

ChildProcess::~ChildProcess() {
  end();
}

bool ChildProcess::write_line(const std::string& line) {
  const SurvivesClosedPipe survives;
  const std::string text = line + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(in_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

ChildProcess::Answer ChildProcess::read_line(Seconds at_most, const std::function<bool()>& should_stop) {
  const TimePoint begin = Clock::now();
  if (end_begun_) return {End::closed, ""};
  for (std::size_t searched = 0;;) {
    if (const std::size_t end = read_.find('\n', searched); end != std::string::npos) {
      Answer answer{End::line, read_.substr(0, end)};
      read_.erase(0, end + 1);
      return answer;
    }
    searched = read_.size();  // a long answer comes in thousands of parts
    if (should_stop && should_stop()) return {End::stopped, ""};
    const double left = at_most.value > 0 ? at_most.value - elapsed(begin, Clock::now()).value : 1;
    if (left <= 0) return {End::timed_out, ""};
    pollfd waiting{out_, POLLIN, 0};
    constexpr double kAskAgain_s = 0.1;
    if (poll(&waiting, 1, 1 + static_cast<int>(1e3 * std::min(left, kAskAgain_s))) <= 0) continue;
    std::array<char, 65536> buffer;
    const ssize_t n = read(out_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || read_.size() > kLongestLine) return {End::closed, ""};
    read_.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

void ChildProcess::begin_end() {
  if (end_begun_) return;
  end_begun_ = Clock::now();
  close(in_);
  close(out_);
  in_ = out_ = -1;
}

std::string ChildProcess::end() {
  if (how_it_ended_) return *how_it_ended_;
  begin_end();
  int status = 0;
  // One that has closed its output is ending by itself: a moment later its exit status is known.
  constexpr double kPatience_s = 0.19;
  while (waitpid(id_, &status, WNOHANG) == 0) {
    if (elapsed(*end_begun_, Clock::now()).value >= kPatience_s) {
      kill(-id_, SIGKILL);  // the whole group: what it has started itself too
      waitpid(id_, &status, 0);
      how_it_ended_ = "was ended";
      return *how_it_ended_;
    }
    usleep(2'000);
  }
  kill(-id_, SIGKILL);
  how_it_ended_ = how(status);
  return *how_it_ended_;
}

std::string own_program() {
  std::error_code code;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code) throw Error("the program's own file cannot be found: {}", code.message());
  return path.string();
}

FolderLock::FolderLock(const std::string& folder, Seconds patience) {
  const std::string path = (std::filesystem::path(folder) / ".lock").string();
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw Error("{}: cannot be opened: {}", path, last_system_error());
  // A child of a run that was killed holds the lock until it has become another program.
  constexpr double kAskAgain_s = 0.05;
  for (double waited_s = 0;; waited_s += kAskAgain_s) {
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    if (waited_s >= patience.value) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(kAskAgain_s));
  }
  close(fd_);
  throw Error("{}: another run is writing into this folder", folder);
}

bool is_folder_locked(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / ".lock").string();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  // A shared lock is refused where another process has an exclusive one; closing gives it back.
  const bool is_locked = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  return is_locked;
}

FolderLock::~FolderLock() {
  close(fd_);
}

}  // namespace assay
