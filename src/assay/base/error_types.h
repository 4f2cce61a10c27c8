// What the library throws. To catch it, this header is enough; base/error.h has what throwing needs.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace assay {

// A format string that was checked against the types of its arguments; base/error.h.
template <typename... Args>
struct FormatText;

// What the world did wrong: a bad file, a bad model, no memory. what() is a sentence for the user, on one
// line, that names what was expected and what was found. The program prints "error: " + what() and exits
// with 1.
class Error : public std::runtime_error {
 public:
  template <typename... Args>
  explicit Error(FormatText<std::type_identity_t<Args>...> text, Args&&... args);
};

// Nothing has the name that a model was given by.
class NoSuchModel : public Error {
 public:
  using Error::Error;
};

// The system gave this process less memory than it asked for.
class NotEnoughMemory : public Error {
 public:
  using Error::Error;
};

// A device failed in a way that leaves this process unable to use it: every later call would fail too.
class DeviceFault : public Error {
 public:
  using Error::Error;
};

// A stop callback of the caller said so: what was under way is left undone.
class Stopped : public Error {
 public:
  using Error::Error;
};

// What the caller asked wrong: a flag, a value out of its range. Exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// A field of the caller's options has a value that it cannot have. what() is "FIELD: problem"; a front end
// that shows its users the field under another name, such as a flag, puts that name before problem().
class FieldError : public UsageError {
 public:
  template <typename... Args>
  explicit FieldError(std::string_view field, FormatText<std::type_identity_t<Args>...> text, Args&&... args);
  const std::string& field() const { return field_; }
  const std::string& problem() const { return problem_; }

 private:
  struct Problem {
    std::string text;
  };
  FieldError(std::string field, Problem problem);
  std::string field_, problem_;
};

}  // namespace assay
