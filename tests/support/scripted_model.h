// The experiment of a scripted model: three processes of three rounds, which deviate by known amounts.
#pragma once

#include <gtest/gtest.h>

#include <any>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "assay/assay.h"
#include "assay/studies/registry.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"
#include "support/scripted_session.h"

namespace assay::test {

// Three processes deviate by so much, as logarithms: mean 0, deviation 0.01, error 0.01 / sqrt(3), 2 degrees.
inline constexpr double kDeviation[] = {-0.01, 0, 0.01};
inline constexpr double kError = 0.01 / 1.7320508075688772;
inline constexpr double kT2 = 4.302652729911275;  // Student's t of 2 degrees at 95 %

inline std::shared_ptr<const Tokenizer> fixture_tokenizer() {
  static const auto loaded =
      std::make_shared<const Tokenizer>(Tokenizer::load(test::fixture_model("with_tokenizer")));
  return loaded;
}

class ScriptedModel : public ::testing::Test {
 protected:
  ExperimentContext context() {
    ExperimentContext made;
    made.sessions = &sessions_;
    made.context_length = 64;
    made.sweep.processes = 3;
    made.sweep.repeats = 3;
    made.tokenizer = fixture_tokenizer();
    return made;
  }
  static std::vector<std::string> warnings_of_kind(const Row& row, WarningKind kind) {
    std::vector<std::string> texts;
    for (const Warning& warning : row.warnings)
      if (warning.kind == kind) texts.push_back(warning.text);
    return texts;
  }

  test::Script script_;
  Sessions sessions_ = test::scripted_processes(script_);
};

// Runs whose time follows from the label alone; `wide` times the deviation of processes.
class ScriptedStudies : public ScriptedModel {
 protected:
  struct Time {
    double seconds = 1, wide = 1;
  };
  void take(std::map<std::string, Time> times) {
    times_ = std::move(times);
    script_.run = [this](const Case& spec, int process) {
      const auto at = times_.find(spec.label);
      const Time time = at == times_.end() ? Time{1, 0} : at->second;
      const double all = time.seconds * std::exp(time.wide * kDeviation[process % 3]);
      return scripted_sample(all / 2, {all / 4, all / 4});
    };
  }
  ExperimentResult run(const char* study, const std::function<void(std::any&)>& change) {
    const Study& found = study_named(study);
    std::any options = found.defaults;
    change(options);
    return found.run(context(), options);
  }
  std::map<std::string, Time> times_;
};

}  // namespace assay::test
