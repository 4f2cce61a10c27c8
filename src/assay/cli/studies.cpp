// assay sweep, ablate, probe, tradeoff: the commands of the studies, made from their table.
#include <map>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/measure.h"
#include "assay/cli/study_flags.h"

namespace assay::cli {

namespace {

// The first words of commands of two, "sweep lengths".
std::string description_of_group(const std::string& group) {
  if (group == "sweep") return "Measure over one parameter";
  if (group == "ablate") return "Turn one feature off, and audit whether results change";
  return "Measure";
}

void add_study(CLI::App& parent, const std::string& word, const Study& study, int& exit_code,
               const std::string& command_line) {
  struct Flags {
    MeasureFlags measure;
    StudyFlags study;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = parent.add_subcommand(word, study.description);
  flags->measure.takes_models = study.takes_models;
  flags->measure.add_to(*command, true);
  std::vector<const Study*> all{&study};
  for (const std::string& follower : study.followers) all.push_back(&study_named(follower));
  flags->study.add_to(*command, all);
  command->footer("Example: " + study.example);
  command->callback([flags, command, command_line, &exit_code] {
    try {
      exit_code = measure(flags->measure, *command, command_line,
                          flags->study.plan(flags->measure.precisions(), flags->measure.reading()));
    } catch (const FieldError& error) {
      throw flags->study.named_by_flag(error);
    }
  });
}

}  // namespace

void add_studies(CLI::App& app, int& exit_code, const std::string& command_line) {
  struct Group {
    CLI::App* command = nullptr;
    std::vector<std::string> words;
  };
  std::map<std::string, Group> groups;
  for (const Study& study : studies()) {
    if (study.command.empty() || study.has_own_command) continue;
    const std::size_t blank = study.command.find(' ');
    if (blank == std::string::npos) {
      add_study(app, study.command, study, exit_code, command_line);
      continue;
    }
    const std::string name = study.command.substr(0, blank), word = study.command.substr(blank + 1);
    Group& group = groups[name];
    if (group.command == nullptr) {
      group.command = app.add_subcommand(name);
      group.command->require_subcommand(1);
      group.command->footer("Example: " + study.example);
    }
    group.words.push_back(word);
    group.command->description(
        fmt::format("{}: {}", description_of_group(name), fmt::join(group.words, ", ")));
    add_study(*group.command, word, study, exit_code, command_line);
  }
}

}  // namespace assay::cli
