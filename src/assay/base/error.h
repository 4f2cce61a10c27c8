// The one exception type: a sentence for the user, on one line, that names what was expected and what was
// found.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "assay/base/format.h"

namespace assay {

// What the world did wrong: a bad file, a bad model, no memory. The program prints "error: " + what() and
// exits with 1.
class Error : public std::runtime_error {
 public:
  template <typename... Args>
  explicit Error(fmt::format_string<Args...> text, Args&&... args)
      : std::runtime_error(escape_controls(fmt::format(text, std::forward<Args>(args)...))) {}
};

// What the caller typed wrong: a flag, a value out of its range. Exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace assay
