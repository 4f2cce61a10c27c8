#include "assay/report/png.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "assay/base/error.h"
#include "assay/base/format.h"

#if defined(__SANITIZE_ADDRESS__)
// Fonts and caches that those libraries keep to the end of the process; the sanitizer asks for this by name.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libfontconfig\nleak:libpango\nleak:libglib\nleak:libgobject\nleak:librsvg\nleak:libcairo\n";
}
extern "C" const char* __lsan_default_options() {
  return "print_suppressions=0";
}
#endif

namespace assay::report {

namespace {

// The few functions of librsvg 2.52 or later, cairo and glib that are used, with their C signatures.
struct Rectangle {
  double x, y, width, height;
};
using WriteFunction = int (*)(void* closure, const unsigned char* data, unsigned length);

class Libraries {
 public:
  Libraries() {
    void *rsvg = open("librsvg-2.so.2"), *cairo = open("libcairo.so.2"), *glib = open("libgobject-2.0.so.0");
    if (why_not_) return;
    find(rsvg, "rsvg_handle_new_from_data", new_from_data);
    find(rsvg, "rsvg_handle_get_intrinsic_size_in_pixels", intrinsic_size);
    find(rsvg, "rsvg_handle_render_document", render_document);
    find(cairo, "cairo_image_surface_create", surface_create);
    find(cairo, "cairo_create", create);
    find(cairo, "cairo_surface_write_to_png_stream", write_png);
    find(cairo, "cairo_surface_destroy", surface_destroy);
    find(cairo, "cairo_destroy", destroy);
    find(glib, "g_object_unref", unref);
  }
  const std::optional<std::string>& why_not() const { return why_not_; }

  void* (*new_from_data)(const unsigned char* data, std::size_t length, void** error) = nullptr;
  int (*intrinsic_size)(void* handle, double* width, double* height) = nullptr;
  int (*render_document)(void* handle, void* cairo, const Rectangle* viewport, void** error) = nullptr;
  void* (*surface_create)(int format, int width, int height) = nullptr;
  void* (*create)(void* surface) = nullptr;
  int (*write_png)(void* surface, WriteFunction write, void* closure) = nullptr;
  void (*surface_destroy)(void* surface) = nullptr;
  void (*destroy)(void* cairo) = nullptr;
  void (*unref)(void* object) = nullptr;

 private:
  void* open(const char* name) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) why_not_ = "PNG needs librsvg (librsvg2-2 in Debian), which is not installed";
    return library;
  }
  template <typename Function>
  void find(void* library, const char* name, Function& function) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr) why_not_ = std::string("the installed librsvg or cairo lacks ") + name;
    std::memcpy(&function, &symbol, sizeof(symbol));
  }
  std::optional<std::string> why_not_;
};

const Libraries& libraries() {
  static const Libraries loaded;  // never unloaded: they keep threads and caches of their own
  return loaded;
}

int append(void* closure, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
  return 0;
}

}  // namespace

std::optional<std::string> why_no_png() {
  return libraries().why_not();
}

std::string png_of_svg(const std::string& svg, double scale) {
  const Libraries& use = libraries();
  if (use.why_not()) throw Error("{}", *use.why_not());
  const std::unique_ptr<void, void (*)(void*)> handle(
      use.new_from_data(reinterpret_cast<const unsigned char*>(svg.data()), svg.size(), nullptr), use.unref);
  double width = 0, height = 0;
  if (handle == nullptr || use.intrinsic_size(handle.get(), &width, &height) == 0)
    throw Error("librsvg refuses a plot");
  const Rectangle viewport{0, 0, width * scale, height * scale};
  constexpr int kArgb32 = 0;
  const std::unique_ptr<void, void (*)(void*)> surface(
      use.surface_create(kArgb32, static_cast<int>(viewport.width), static_cast<int>(viewport.height)),
      use.surface_destroy);
  const std::unique_ptr<void, void (*)(void*)> cairo(use.create(surface.get()), use.destroy);
  std::string png;
  if (use.render_document(handle.get(), cairo.get(), &viewport, nullptr) == 0 ||
      use.write_png(surface.get(), append, &png) != 0)
    throw Error("a plot could not be drawn as PNG");
  return png;
}

namespace {

// Both ends of a pipe, closed at the end.
struct Pipe {
  int ends[2] = {-1, -1};
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(int which) {
    if (ends[which] >= 0) close(ends[which]);
    ends[which] = -1;
  }
};

// A text with its length before it, at once: those after it may never come.
void send(std::FILE* to, const std::string& text) {
  const std::uint64_t size = text.size();
  std::fwrite(&size, sizeof(size), 1, to);
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

// The text at the head of what has been received, if it is all there.
std::optional<std::string> take(std::string& received) {
  std::uint64_t size = 0;
  if (received.size() < sizeof(size)) return std::nullopt;
  std::memcpy(&size, received.data(), sizeof(size));
  if (received.size() - sizeof(size) < size) return std::nullopt;
  std::string text = received.substr(sizeof(size), size);
  received.erase(0, sizeof(size) + size);
  return text;
}

void limit(const DrawingLimits& limits) {
#if !defined(__SANITIZE_ADDRESS__)  // whose shadow counts as memory
  long long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%lld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  const auto memory = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + limits.memory.value);
  const rlimit space{memory, memory};
  setrlimit(RLIMIT_AS, &space);
#endif
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  // SIGALRM ends the process.
  const auto microseconds = std::max<std::int64_t>(1, static_cast<std::int64_t>(1e6 * limits.time.value));
  constexpr std::int64_t kMillion = 1'000'000;
  const itimerval timer{{0, 0}, {microseconds / kMillion, microseconds % kMillion}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

// Each answer is a picture; "!" and a sentence where there is none.
[[noreturn]] void draw_and_exit(int fd, const std::vector<std::string>& svgs, const DrawingLimits& limits) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // it holds what its parent had open, the lock of the folder too
  for (const int signal : {SIGTERM, SIGHUP, SIGPIPE, SIGALRM}) std::signal(signal, SIG_DFL);
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C is for its parent, which still wants the pictures or ends both
  try {
    std::FILE* answers = fdopen(fd, "w");
    limit(limits);
    for (const std::string& svg : svgs) {
      std::string answer;
      try {
        answer = png_of_svg(svg);
      } catch (const Error& error) {
        answer = std::string("!") + error.what();
      }
      send(answers, answer);
    }
  } catch (...) {
    _exit(1);  // no memory
  }
  _exit(0);
}

// What the process wrote until it ended.
std::string received_from(int fd) {
  std::string received;
  char buffer[65536];
  for (;;) {
    const ssize_t n = TEMP_FAILURE_RETRY(read(fd, buffer, sizeof(buffer)));
    if (n <= 0) return received;
    received.append(buffer, static_cast<std::size_t>(n));
  }
}

// Empty where it drew to the end.
std::string why_it_ended(pid_t child, const DrawingLimits& limits) {
  int status = 0;
  TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return fmt::format("the process that draws them took longer than {:g} s", limits.time.value);
  if (WIFSIGNALED(status))
    return fmt::format("the process that draws them was killed by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "the process that draws them had not enough memory";
}

}  // namespace

DrawnPictures draw_apart(const std::vector<std::string>& svgs, const DrawingLimits& limits) {
  if (svgs.empty()) return {};
  DrawnPictures drawn;
  drawn.pngs.resize(svgs.size());
  Pipe answers;
  pid_t child = -1;
  if (pipe2(answers.ends, O_CLOEXEC) != 0 || (child = fork()) < 0) {
    drawn.why_not = fmt::format("no process can be started to draw them: {}", std::strerror(errno));
    return drawn;
  }
  if (child == 0) draw_and_exit(answers.ends[1], svgs, limits);
  answers.close_end(1);
  std::string received = received_from(answers.ends[0]);
  drawn.why_not = why_it_ended(child, limits);
  for (std::string& png : drawn.pngs) {
    std::optional<std::string> answer = take(received);
    if (!answer) break;
    if (answer->starts_with("!"))
      drawn.why_not = answer->substr(1);
    else
      png = std::move(*answer);
  }
  return drawn;
}

}  // namespace assay::report
