#include "assay/cli/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <nlohmann/json.hpp>

#include "assay/report/render.h"

namespace assay::cli {

namespace {
volatile std::sig_atomic_t g_interrupted = 0;  // a signal handler can reach nothing else
std::atomic<std::int64_t> g_first_interrupt_ms = 0;
static_assert(decltype(g_first_interrupt_ms)::is_always_lock_free);

// Ctrl-C may come twice: from the terminal and from a parent such as `timeout` that hands it on.
constexpr std::int64_t kOneInterrupt_ms = 500;

std::int64_t monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1000} * now.tv_sec + now.tv_nsec / 1'000'000;
}

extern "C" void on_interrupt(int signal) {
  g_interrupted = 1;
  const std::int64_t now = monotonic_ms();
  std::int64_t first = 0;
  if (g_first_interrupt_ms.compare_exchange_strong(first, now) || now - first < kOneInterrupt_ms) return;
  std::signal(signal, SIG_DFL);
  raise(signal);
}
// A limit on the size of files: what is written then fails, again and again, and each write says so.
extern "C" void on_file_limit(int) {
  g_interrupted = 1;
}
}  // namespace

void keep_standard_streams() {
  // The lowest free number is theirs. What is to be written to is opened for reading: nothing gets lost
  // unseen.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != fd) return;
}

void answer(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) throw ReaderGone();
  throw Error("cannot write to standard output");
}

void answer_text(std::string_view text) {
  if (isatty(STDOUT_FILENO) != 1) return answer(text);
  std::string shown;
  for (const char c : text) {
    const bool is_control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    if (is_control)
      shown += "?";
    else
      shown += c;
  }
  answer(shown);
}

void answer_json(std::string_view kind, const nlohmann::ordered_json& document) {
  constexpr int kVersion = 1;
  nlohmann::ordered_json json{{"schema", fmt::format("assay.{}", kind)}, {"schema_version", kVersion}};
  json.update(document);
  answer(json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

namespace {

std::size_t columns_up_to(unsigned long widest) {
  constexpr unsigned long kNarrowest = 40, kUsual = 80;
  winsize size{};
  unsigned long width = kUsual;
  if (const char* columns = std::getenv("COLUMNS");
      columns != nullptr && std::strtoul(columns, nullptr, 10) > 0)
    width = std::strtoul(columns, nullptr, 10);
  else if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    width = size.ws_col;
  return std::clamp(width, kNarrowest, widest);
}

}  // namespace

std::size_t terminal_width() {
  return columns_up_to(report::kWidestProse);
}

std::size_t table_width() {
  constexpr unsigned long kWidestTable = 200;
  return columns_up_to(kWidestTable);
}

void note(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fputc('\n', stderr);
}

std::string time_left(std::optional<double> seconds) {
  if (!seconds) return "";
  if (*seconds < 90) return fmt::format("about {:.0f} s left; ", std::max(1.0, *seconds));
  return fmt::format("about {:.0f} min left; ", *seconds / 60);
}

void Progress::show(std::string_view text) {
  if (!is_shown_) return;
  // A line that wraps could not be written over.
  winsize size{};
  const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  const std::string line =
      "\r\x1b[K" + std::string(text.substr(0, is_known ? size.ws_col - 1U : text.size()));
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  is_dirty_ = true;
}

void Progress::clear() {
  if (is_dirty_) std::fputs("\r\x1b[K", stderr);
  is_dirty_ = false;
}

void watch_interrupts() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(signal, on_interrupt) == SIG_IGN) std::signal(signal, SIG_IGN);
  if (std::signal(SIGXFSZ, on_file_limit) == SIG_IGN) std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the write, with a sentence
}
bool is_interrupted() {
  return g_interrupted != 0;
}

void let_interrupts_end_reads() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    action.sa_flags &= ~SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace assay::cli
