// What people write about a run: a configuration or a recipe in JSON or TOML, and the short texts of the
// command line.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/toml.h"
#include "assay/config/fields_json.h"
#include "assay/config/recipe_file.h"
#include "assay/config/run_config.h"
#include "assay/results/compare_results.h"
#include "fuzz.h"
#include "json_mutator.h"

namespace assay::fuzz {
namespace {

void use(const RunConfig& config) {
  config.label();
  config.label_of_numbers();
  config.key();
  const auto json = to_json(config);
  RunConfig again;
  const bool is_read = is_accepted([&] { again = run_config_from_json(JsonReader(json)); });
  expect(is_read, "a configuration that was written cannot be read");
  expect(again == config, "a configuration that is written and read differs");
  is_accepted([&] { check_values(config); });
  if (!config.precision) return;
  is_accepted([&] {
    Precision precision = precision_of(*config.precision);
    apply_to(precision, config);
  });
}

void read_document(std::string_view text) {
  const nlohmann::ordered_json json = parse_toml_or_json(text, "run.toml");
  const JsonReader reader(json, "run.toml");
  is_accepted([&] { use(run_config_from_json(reader)); });
  is_accepted([&] {
    const Recipe recipe = recipe_from_json(reader, "run");
    const auto written = to_json(recipe);
    expect(is_accepted([&] { recipe_from_json(JsonReader(written), "run"); }),
           "a recipe that was written cannot be read");
  });
}

}  // namespace
}  // namespace assay::fuzz

ASSAY_FUZZ_FORM(assay::fuzz::one_document())

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::is_accepted([&] { fuzz::read_document(text); });
  if (text.starts_with("recipe:")) return 0;  // which names a file
  fuzz::is_accepted([&] { fuzz::use(run_config_from_text(text)); });
  fuzz::is_accepted([&] { failure_rules(std::string(text)); });
  return 0;
}
