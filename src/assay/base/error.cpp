#include "assay/base/error.h"

#include <cerrno>
#include <cstring>

namespace assay {

std::string detail::error_sentence(fmt::string_view text, fmt::format_args args) {
  return escape_controls(fmt::vformat(text, args));
}

FieldError::FieldError(std::string field, Problem problem)
    : UsageError("{}: {}", field, problem.text),
      field_(std::move(field)),
      problem_(std::move(problem.text)) {}

std::string last_system_error() {
  return std::strerror(errno);
}

}  // namespace assay
