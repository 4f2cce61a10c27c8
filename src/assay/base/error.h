// Throwing: `throw Error("{}: expected {}, found {}", file, wanted, found)`. The text is checked against its
// arguments where it is compiled.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "assay/base/error_types.h"
#include "assay/base/format.h"

namespace assay {

template <typename... Args>
struct FormatText {
  template <typename Text>
  requires std::is_convertible_v<const Text&, std::string_view> FMT_CONSTEVAL FormatText(const Text& of)
      : text(of) {}  // implicit: a literal is one

  fmt::format_string<Args...> text;
};

namespace detail {
// Formats and escapes; out of line, so that the many places that throw stay small.
std::string error_sentence(fmt::string_view text, fmt::format_args args);
}  // namespace detail

template <typename... Args>
Error::Error(FormatText<std::type_identity_t<Args>...> text, Args&&... args)
    : std::runtime_error(detail::error_sentence(text.text, fmt::make_format_args(args...))) {}

template <typename... Args>
FieldError::FieldError(std::string_view field, FormatText<std::type_identity_t<Args>...> text, Args&&... args)
    : FieldError(std::string(field), Problem{fmt::format(text.text, std::forward<Args>(args)...)}) {}

// What errno says: "No such file or directory".
std::string last_system_error();

}  // namespace assay
