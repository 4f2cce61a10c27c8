// Runs the program as a user does, and keeps what it said.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>
#include "support/documents.h"
#include "support/lines.h"
#include "support/paths.h"

extern char** environ;

namespace assay::test {

struct ProgramOptions {
  std::string input = {};                                             // on standard input
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to the test's own
  std::filesystem::path folder = {};                                  // to run in; empty = the test's own
  std::string stdout_path = {};  // standard output goes to this file instead of ProgramResult::out
  bool interrupts = false;       // Ctrl-C at the program's first output, on whichever stream
  int interrupt = SIGINT;        // what Ctrl-C stands for
  std::chrono::milliseconds interrupts_again_after{0};  // 0 = once only
  bool closes_stdout_early = false;                     // after the first bytes, as `| head -c 1` does
  bool watches_memory = false;                          // for ProgramResult::peak_bytes
  std::chrono::milliseconds timeout{60'000};
};

struct ProgramResult {
  int exit_code = -1;  // -1: killed by `signal`
  int signal = 0;
  bool is_timed_out = false;
  std::int64_t peak_bytes =
      0;  // bytes of resident memory, as last seen; what waitpid tells counts its parent too
  std::string out, err;
};

namespace detail {

inline void check(int code, const char* what) {
  if (code != 0) throw std::runtime_error(std::string(what) + " failed");
}

class Pipe {
 public:
  Pipe() { check(pipe2(ends_.data(), O_CLOEXEC), "pipe2"); }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_read() { close_end(ends_[0]); }
  void close_write() { close_end(ends_[1]); }
  // False at the end of the stream.
  bool read_some(std::string& into) {
    std::array<char, 65536> buffer;
    const ssize_t n = read(read_end(), buffer.data(), buffer.size());
    if (n > 0) into.append(buffer.data(), static_cast<std::size_t>(n));
    if (n <= 0) close_read();
    return n > 0;
  }

 private:
  static void close_end(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

// The test's environment without what would steer the program, and with `added`.
inline std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& added) {
  static constexpr std::string_view kSteering[] = {
      "HF_HOME=", "HF_HUB_CACHE=", "ASSAY_MODELS=", "NO_COLOR=", "CLICOLOR_FORCE=", "XDG_CACHE_HOME="};
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view entry = *at;
    bool is_kept = std::none_of(std::begin(kSteering), std::end(kSteering),
                                [&](auto key) { return entry.starts_with(key); });
    for (const auto& [key, value] : added) is_kept = is_kept && !entry.starts_with(key + "=");
    if (is_kept) all.emplace_back(entry);
  }
  for (const auto& [key, value] : added) all.push_back(key + "=" + value);
  return all;
}

inline std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

inline pid_t spawn(std::vector<std::string> arguments, const ProgramOptions& options, int in, int out,
                   int err) {
  arguments.insert(arguments.begin(), program_path());
  std::vector<std::string> environment = environment_with(options.environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  if (options.stdout_path.empty())
    posix_spawn_file_actions_adddup2(&actions, out, 1);
  else
    posix_spawn_file_actions_addopen(&actions, 1, options.stdout_path.c_str(), O_WRONLY | O_CREAT, 0644);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  if (!options.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
  // Ctrl-C ends it also where these tests run in the background of a shell that ignores it.
  posix_spawnattr_t attributes;
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGHUP, SIGXFSZ}) sigaddset(&signals, signal);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int code = posix_spawn(&child, program_path().c_str(), &actions, &attributes,
                               pointers(arguments).data(), pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  check(code, ("posix_spawn of " + program_path()).c_str());
  return child;
}

// The most memory that was ever resident; 0 where the process has ended.
inline std::int64_t peak_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

}  // namespace detail

// What is to be killed soon is not given more time.
inline const int kSlowdown = kIsSanitized ? 5 : 1;

inline ProgramResult run_program(const std::vector<std::string>& arguments,
                                 const ProgramOptions& options = {}) {
  using Clock = std::chrono::steady_clock;
  std::FILE* input = std::tmpfile();
  if (input == nullptr) throw std::runtime_error("tmpfile failed");
  std::fwrite(options.input.data(), 1, options.input.size(), input);
  std::rewind(input);
  detail::Pipe out, err;
  const pid_t child = detail::spawn(arguments, options, fileno(input), out.write_end(), err.write_end());
  std::fclose(input);
  out.close_write();
  err.close_write();
  ProgramResult result;
  bool is_interrupted = false;
  const auto timeout =
      options.timeout < std::chrono::seconds(10) ? options.timeout : kSlowdown * options.timeout;
  for (const auto deadline = Clock::now() + timeout; out.read_end() >= 0 || err.read_end() >= 0;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      kill(child, SIGKILL);
      result.is_timed_out = true;
      break;
    }
    std::array<pollfd, 2> ends{pollfd{out.read_end(), POLLIN, 0}, pollfd{err.read_end(), POLLIN, 0}};
    if (options.watches_memory) result.peak_bytes = std::max(result.peak_bytes, detail::peak_of(child));
    if (poll(ends.data(), ends.size(), options.watches_memory ? 1 : static_cast<int>(left)) <= 0) continue;
    if (ends[0].revents != 0 && out.read_some(result.out) && options.closes_stdout_early) out.close_read();
    if (ends[1].revents != 0) err.read_some(result.err);
    if (options.interrupts && !is_interrupted && !(result.out + result.err).empty()) {
      kill(child, options.interrupt);
      is_interrupted = true;
      if (options.interrupts_again_after.count() == 0) continue;
      std::this_thread::sleep_for(options.interrupts_again_after);
      kill(child, options.interrupt);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  expect_document_of_its_schema(result.out);
  return result;
}

// It ended with `code`, its last words on standard error are one sentence that holds every word, and standard
// output is empty. Notes may stand before the sentence.
inline void expect_failure(const ProgramResult& result, int code, std::initializer_list<std::string> words) {
  SCOPED_TRACE("standard error was: " + result.err);
  EXPECT_FALSE(result.is_timed_out);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.exit_code, code);
  EXPECT_EQ(result.out, "");
  const std::vector<std::string> lines = lines_of(result.err);
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(lines.back().starts_with("error: "));
  EXPECT_EQ(
      std::count_if(lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("error: "); }),
      1);
  for (const std::string& word : words)
    EXPECT_NE(lines.back().find(word), std::string::npos) << "not said: " << word;
  for (const char c : result.err)
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << "a control character";
}

inline void expect_success(const ProgramResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err.find("error: "), std::string::npos) << result.err;
  EXPECT_EQ((result.out + result.err).find('\x1b'), std::string::npos) << "escape codes in a pipe";
}

}  // namespace assay::test
