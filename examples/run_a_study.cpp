// Measures latency against prompt length on a loaded model, prints the report, and writes its files.
// usage: run_a_study MODEL FOLDER
#include <cstdio>
#include <exception>
#include <string>

#include "assay/assay.h"

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MODEL FOLDER\n", argv[0]);
    return 2;
  }
  const assay::LoadedModel loaded =
      assay::load_model_and_tokenizer({argv[1]}, assay::run_config_from_text("float32"));

  assay::SweepOptions sweep;
  sweep.repeats = 6;  // the fewest that give an interval; unset: until the intervals are narrow
  assay::LocalExperiment experiment(loaded, sweep);

  assay::LengthsOptions options;
  options.lengths = {16, 64};
  options.new_tokens = 8;
  const assay::ResultSet results =
      assay::results_of(experiment, assay::run_for_varied_lengths(experiment, options));

  std::fputs(assay::report::to_terminal(assay::report::document_of(results), 80).c_str(), stdout);
  for (const auto& path : assay::report::write_reports(results, argv[2]).paths)
    std::printf("%s\n", path.c_str());
} catch (const assay::FieldError& error) {  // an option that cannot be
  std::fprintf(stderr, "error: option %s: %s\n", error.field().c_str(), error.problem().c_str());
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
