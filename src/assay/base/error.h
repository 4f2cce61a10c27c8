// The one exception type: a sentence for the user, on one line, that names what was expected and what was
// found.
#pragma once

#include <stdexcept>
#include <string>

#include "assay/base/format.h"

namespace assay {

// What the world did wrong: a bad file, a bad model, no memory. The program prints "error: " + what() and
// exits with 1.
class Error : public std::runtime_error {
 public:
  template <typename... Args>
  explicit Error(fmt::format_string<Args...> text, Args&&... args)
      : std::runtime_error(sentence(text, fmt::make_format_args(args...))) {}

 private:
  // Formats and escapes; out of line, so that the many places that throw stay small.
  static std::string sentence(fmt::string_view text, fmt::format_args args);
};

// What the caller typed wrong: a flag, a value out of its range. Exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// What errno says: "No such file or directory".
std::string last_system_error();

}  // namespace assay
