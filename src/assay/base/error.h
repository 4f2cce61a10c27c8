// The one exception type: a sentence for the user, on one line, that names what was expected and what was
// found.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

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

// A field of the caller's options has a value that it cannot have. what() is "FIELD: problem"; a front end
// that shows its users the field under another name, such as a flag, puts that name before problem().
class FieldError : public UsageError {
 public:
  template <typename... Args>
  explicit FieldError(std::string_view field, fmt::format_string<Args...> text, Args&&... args)
      : FieldError(std::string(field), Problem{fmt::format(text, std::forward<Args>(args)...)}) {}
  const std::string& field() const { return field_; }
  const std::string& problem() const { return problem_; }

 private:
  struct Problem {
    std::string text;
  };
  FieldError(std::string field, Problem problem)
      : UsageError("{}: {}", field, problem.text),
        field_(std::move(field)),
        problem_(std::move(problem.text)) {}
  std::string field_, problem_;
};

// What errno says: "No such file or directory".
std::string last_system_error();

}  // namespace assay
