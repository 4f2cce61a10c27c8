// The options of a study as data: each names a field of the study's options and says how a text becomes its
// value, so that the command line and whoever else offers them needs to know nothing about the study.
#pragma once

#include <algorithm>
#include <any>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "assay/base/format.h"
#include "assay/session/time_generate.h"

namespace assay {

using OptionValue = std::variant<bool, std::int64_t, std::vector<std::int64_t>, std::string,
                                 std::vector<std::string>, std::vector<Prompt>>;

// The optional properties of an option.
struct OptionTraits {
  char letter = 0;                                    // its short flag's: 'n'
  std::int64_t min = 0, max = std::int64_t{1} << 40;  // whole numbers lie between them
  std::string name_in_run = {};                       // its flag of `assay run`; empty: it has none
  std::string shown_default = {};                     // shown in place of the value: "the one that ships"
  // The field as errors name it (FieldError), where it is not the option's name with underscores.
  std::string field = {};
};

struct StudyOption {
  enum class Kind { flag, whole, wholes, text, words, prompts };  // the alternatives of OptionValue

  std::string name;  // "max-new-tokens"
  std::string help;  // a phrase with its default: "New tokens [50]"
  Kind kind = Kind::text;
  OptionTraits traits;
  // As errors name it: "max_new_tokens".
  std::string field() const {
    std::string underscored = name;
    std::replace(underscored.begin(), underscored.end(), '-', '_');
    return traits.field.empty() ? underscored : traits.field;
  }
  // Throws UsageError for a value that the field cannot have.
  std::function<void(std::any& options, const OptionValue& value)> set;
};

namespace detail {

template <typename Field>
constexpr StudyOption::Kind kind_of() {
  using Kind = StudyOption::Kind;
  if constexpr (std::is_same_v<Field, bool>) return Kind::flag;
  if constexpr (std::is_same_v<Field, std::int64_t> || std::is_same_v<Field, std::optional<std::int64_t>>)
    return Kind::whole;
  if constexpr (std::is_same_v<Field, std::vector<std::int64_t>>) return Kind::wholes;
  if constexpr (std::is_same_v<Field, std::vector<std::string>>) return Kind::words;
  if constexpr (std::is_same_v<Field, Prompt> || std::is_same_v<Field, std::vector<Prompt>>)
    return Kind::prompts;
  return Kind::text;
}

template <typename Field>
std::string text_of_default(const Field& value) {
  if constexpr (std::is_same_v<Field, std::int64_t>) return std::to_string(value);
  if constexpr (std::is_same_v<Field, std::vector<std::int64_t>> ||
                std::is_same_v<Field, std::vector<std::string>>)
    return fmt::format("{}", fmt::join(value, ","));
  return "";
}

inline StudyOption make_option(std::string name, std::string help, StudyOption::Kind kind,
                               OptionTraits traits, const std::string& default_text) {
  const std::string& shown = traits.shown_default.empty() ? default_text : traits.shown_default;
  if (!shown.empty()) help += " [" + shown + "]";
  return {std::move(name), std::move(help), kind, std::move(traits), {}};
}

}  // namespace detail

// An option that sets a field. The field's type gives its kind and, where it can be shown, its default. A
// field of one prompt takes the first that is given.
template <typename Options, typename Field>
// NOLINTNEXTLINE(performance-unnecessary-value-param): they are moved
StudyOption option(std::string name, Field Options::*field, std::string help, OptionTraits traits = {}) {
  if constexpr (std::is_same_v<Field, std::vector<Prompt>>) help += "; repeat for more";
  StudyOption made = detail::make_option(std::move(name), std::move(help), detail::kind_of<Field>(),
                                         std::move(traits), detail::text_of_default(Options{}.*field));
  made.set = [field](std::any& options, const OptionValue& value) {
    Field& target = std::any_cast<Options&>(options).*field;
    if constexpr (std::is_same_v<Field, Prompt>)
      target = std::get<std::vector<Prompt>>(value).at(0);
    else if constexpr (std::is_same_v<Field, std::optional<std::int64_t>>)
      target = std::get<std::int64_t>(value);
    else if constexpr (std::is_same_v<Field, std::optional<std::filesystem::path>>)
      target = std::get<std::string>(value);
    else
      target = std::get<Field>(value);
  };
  return made;
}

// A flag that sets a field to `value`, such as --no-cache to false.
template <typename Options>
StudyOption flag(std::string name, bool Options::*field, bool value, std::string help,
                 OptionTraits traits = {}) {
  StudyOption made =
      detail::make_option(std::move(name), std::move(help), StudyOption::Kind::flag, std::move(traits), "");
  made.set = [field, value](std::any& options, const OptionValue&) {
    std::any_cast<Options&>(options).*field = value;
  };
  return made;
}

// A field of an enumeration, by the names of its values.
template <typename Options, typename Choice>
StudyOption choice(std::string name, Choice Options::*field, Choice (*from_name)(std::string_view),
                   std::string_view (*name_of)(Choice), std::string help, OptionTraits traits = {}) {
  StudyOption made = detail::make_option(std::move(name), std::move(help), StudyOption::Kind::text,
                                         std::move(traits), std::string(name_of(Options{}.*field)));
  made.set = [field, from_name](std::any& options, const OptionValue& value) {
    std::any_cast<Options&>(options).*field = from_name(std::get<std::string>(value));
  };
  return made;
}

}  // namespace assay
