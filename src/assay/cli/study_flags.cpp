#include "assay/cli/study_flags.h"

#include <utility>

#include "assay/base/error.h"

namespace assay::cli {

namespace {
constexpr const char* kPrecision = "precision";
}

// A flag and the options it sets.
struct StudyFlags::Flag {
  std::string name;
  StudyOption::Kind kind = StudyOption::Kind::text;
  std::vector<std::pair<std::size_t, const StudyOption*>> sets;  // which study has it
  CLI::Option* given = nullptr;
  // Where the command line puts a value, by kind.
  bool is_set = false;
  std::int64_t whole = 0;
  std::vector<std::int64_t> wholes;
  std::string text;
  PromptFlags prompts;

  bool is_given() const {
    return kind == StudyOption::Kind::prompts ? !prompts.is_empty() : given->count() > 0;
  }

  void add_to(CLI::App& command, const StudyOption& option) {
    const std::string names =
        option.traits.letter == 0 ? "--" + name : fmt::format("-{},--{}", option.traits.letter, name);
    const std::int64_t min = option.traits.min, max = option.traits.max;
    switch (kind) {
      case StudyOption::Kind::flag:
        given = command.add_flag(names, is_set, option.help);
        return;
      case StudyOption::Kind::whole:
        given = add_whole(command, names, whole, option.help, min, max);
        return;
      case StudyOption::Kind::wholes:
        given = add_whole_list(command, names, wholes, option.help, min, max);
        return;
      case StudyOption::Kind::text:
      case StudyOption::Kind::words:
        given = command.add_option(names, text, option.help);
        if (kind == StudyOption::Kind::words) given->type_name("LIST");
        return;
      case StudyOption::Kind::prompts:
        given = command.add_option(names, prompts.prompts, option.help);
        given->allow_extra_args(false);
        command.add_option("--prompts-file", prompts.prompts_file, "File with a prompt on each line");
        return;
    }
  }

  OptionValue value(const Reading& reading) const {
    switch (kind) {
      case StudyOption::Kind::flag:
        return true;
      case StudyOption::Kind::whole:
        return whole;
      case StudyOption::Kind::wholes:
        return wholes;
      case StudyOption::Kind::words:
        return words_of(text);
      case StudyOption::Kind::prompts:
        return prompts.read(reading);
      case StudyOption::Kind::text:
        break;
    }
    return text;
  }
};

void StudyFlags::add(CLI::App& command, const std::string& name, std::size_t study,
                     const StudyOption& option) {
  for (const auto& flag : flags_)
    if (flag->name == name) {
      flag->sets.emplace_back(study, &option);
      return;
    }
  Flag& flag = *flags_.emplace_back(std::make_shared<Flag>());
  flag.name = name;
  flag.kind = option.kind;
  flag.sets.emplace_back(study, &option);
  if (name == kPrecision) return;
  if (CLI::Option* other = command.get_option_no_throw("--" + name)) command.remove_option(other);
  flag.add_to(command, option);
}

void StudyFlags::add_to(CLI::App& command, const std::vector<const Study*>& studies) {
  studies_ = studies;
  for (std::size_t i = 0; i < studies.size(); ++i)
    for (const StudyOption& option : studies[i]->options) add(command, option.name, i, option);
}

void StudyFlags::add_to_run(CLI::App& run, const std::vector<const Study*>& studies) {
  studies_ = studies;
  for (std::size_t i = 0; i < studies.size(); ++i)
    for (const StudyOption& option : studies[i]->options)
      if (!option.traits.name_in_run.empty()) add(run, option.traits.name_in_run, i, option);
}

FieldError StudyFlags::named_by_flag(const FieldError& error) const {
  for (const auto& flag : flags_)
    for (const auto& [study, option] : flag->sets)
      if (option->field() == error.field()) return FieldError(flag->name, "{}", error.problem());
  return error;
}

std::vector<PlannedStudy> StudyFlags::plan(const std::vector<std::string>& precisions,
                                           const Reading& reading) const {
  std::vector<PlannedStudy> plan;
  for (const Study* study : studies_) plan.push_back({.study = study, .options = study->defaults});
  for (const auto& flag : flags_) {
    const bool is_precision = flag->name == kPrecision;
    if (!is_precision && !flag->is_given()) continue;
    const OptionValue value = is_precision ? OptionValue(precisions) : flag->value(reading);
    const bool is_tokens = flag->name == "max-new-tokens";
    // Everything else that is one number or text changes how a case runs.
    const bool is_cases = is_precision ? !precisions.empty()
                                       : flag->kind == StudyOption::Kind::wholes ||
                                             flag->kind == StudyOption::Kind::words ||
                                             flag->kind == StudyOption::Kind::prompts ||
                                             flag->name == "length" || flag->name == "task";
    for (const auto& [study, option] : flag->sets) {
      option->set(plan[study].options, value);
      plan[study].has_asked_cases |= is_cases;
      plan[study].has_asked_tokens |= is_tokens;
    }
  }
  return plan;
}

}  // namespace assay::cli
