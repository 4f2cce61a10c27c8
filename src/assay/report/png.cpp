#include "assay/report/png.h"

#include <dlfcn.h>

#include <cstring>
#include <memory>

#include "assay/base/error.h"

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
    rsvg_ = dlopen("librsvg-2.so.2", RTLD_NOW | RTLD_LOCAL);
    cairo_ = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
    glib_ = dlopen("libgobject-2.0.so.0", RTLD_NOW | RTLD_LOCAL);
    if (rsvg_ == nullptr || cairo_ == nullptr || glib_ == nullptr) {
      why_not_ = "PNG needs librsvg (librsvg2-2 in Debian), which is not installed";
      return;
    }
    find(rsvg_, "rsvg_handle_new_from_data", new_from_data);
    find(rsvg_, "rsvg_handle_get_intrinsic_size_in_pixels", intrinsic_size);
    find(rsvg_, "rsvg_handle_render_document", render_document);
    find(cairo_, "cairo_image_surface_create", surface_create);
    find(cairo_, "cairo_create", create);
    find(cairo_, "cairo_surface_write_to_png_stream", write_png);
    find(cairo_, "cairo_surface_destroy", surface_destroy);
    find(cairo_, "cairo_destroy", destroy);
    find(glib_, "g_object_unref", unref);
  }
  const std::string& why_not() const { return why_not_; }

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
  template <typename Function>
  void find(void* library, const char* name, Function& function) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr) why_not_ = std::string("the installed librsvg or cairo lacks ") + name;
    std::memcpy(&function, &symbol, sizeof(symbol));
  }
  void *rsvg_ = nullptr, *cairo_ = nullptr, *glib_ = nullptr;
  std::string why_not_;
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

std::string why_no_png() {
  return libraries().why_not();
}

std::string png_of_svg(const std::string& svg, double scale) {
  const Libraries& use = libraries();
  if (!use.why_not().empty()) throw Error("{}", use.why_not());
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

}  // namespace assay::report
