// The flags of studies, made from their options.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/cli/options.h"
#include "assay/studies/registry.h"

namespace assay::cli {

class StudyFlags {
 public:
  // Adds every option of the studies to their command. Options of one name are one flag; a flag that the
  // command already has gives way, except --precision, whose list the studies take as it is.
  void add_to(CLI::App& command, const std::vector<const Study*>& studies);
  // Adds the options that `assay run` has, by their names there.
  void add_to_run(CLI::App& run, const std::vector<const Study*>& studies);

  // The studies, each with its defaults and the flags that were given. Throws UsageError and Error.
  std::vector<PlannedStudy> plan(const std::vector<std::string>& precisions,
                                 const Reading& reading = {}) const;

  // The error with the name of the flag that sets its field, where one does.
  FieldError named_by_flag(const FieldError& error) const;

 private:
  struct Flag;
  void add(CLI::App& command, const std::string& name, std::size_t study, const StudyOption& option);

  std::vector<const Study*> studies_;
  std::vector<std::shared_ptr<Flag>> flags_;
};

}  // namespace assay::cli
