#include "assay/base/error.h"

#include <cerrno>
#include <cstring>

namespace assay {

std::string Error::sentence(fmt::string_view text, fmt::format_args args) {
  return escape_controls(fmt::vformat(text, args));
}

std::string last_system_error() {
  return std::strerror(errno);
}

}  // namespace assay
