// assay task: the accuracy of precisions and models on items of the user's own.
#include <memory>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/measure.h"
#include "assay/studies/task.h"

namespace assay::cli {

void add_task(CLI::App& app, int& exit_code, const std::string& command_line) {
  struct Flags {
    MeasureFlags measure;
    std::string file;
  };
  const Study& study = study_named("task");
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(study.command, study.description);
  flags->measure.takes_models = study.takes_models;
  flags->measure.add_to(*command, true);
  command
      ->add_option(
          "FILE", flags->file,
          "JSONL file with an item on each line: prompt, choices and answer; contexts, continuation and "
          "answer; prompt and completion; or HellaSwag, ARC, PIQA, WinoGrande, MMLU, LAMBADA as "
          "downloaded")
      ->required();
  command->footer("Example: " + study.example);
  command->callback([flags, command, command_line, &study, &exit_code] {
    TaskOptions options;
    options.precisions = flags->measure.precisions();
    options.file = flags->file;
    // Precisions that were typed are measured whatever the budget.
    const bool has_asked = !options.precisions.empty();
    exit_code = measure(flags->measure, *command, command_line,
                        {{.study = &study, .options = options, .has_asked_cases = has_asked}});
  });
}

}  // namespace assay::cli
