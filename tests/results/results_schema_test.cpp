// docs/results.schema.json names every key that results.json can hold, and what each may be.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/file.h"
#include "assay/report/written_results.h"
#include "assay/results/results_json.h"
#include "support/paths.h"
#include "support/result_sets.h"
#include "support/schema_checker.h"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;
using test::SchemaChecker;

Json schema() {
  return Json::parse(read_text_file(source_folder() + "/docs/results.schema.json"));
}

// Every key that can be there is there.
ResultSet everything() {
  ResultSet results = test::full_results();
  results.run_id = "0123456789abcdef";
  results.configuration = {{"seed", "1"}};
  Row& row = results.rows[0];
  row.places = {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}};
  row.step_s = {{0.1}, {0.1}, {0.1}, {0.1}, {0.1}, {}};
  row.losses = loss_blocks(std::vector<double>(20, 2.0));
  row.answers = TaskAnswers{{{1, {-2.5, -3}, true, false}}};
  row.absent = {{"energy_per_token_j", "no counter"}};
  Value value = *row.find("total_latency_s");
  value.processes = 2;
  row.set("total_latency_s", value);
  results.machine.instruction_sets = {{"amx", "none"}};
  results.machine.caches = {{1, "Data", {32768}, "0"}};
  results.model.coverage.tensors = {{"a", "nf4", ""}, {"b", "float32", "it is an embedding"}};
  results.model.coverage.quantized = 1;
  results.other_comparisons = results.comparisons;
  results.limits = limits_from_text("laptop,memory=2GiB");
  results.choice = Choice{600, 2, {{"edge", 3, 2, 16, {"a"}, {"b"}, true, 5, 50}}};
  results.left_out = {{"edge", "very long", "it did not fit", "assay probe demo", 50}};
  const Comparison& c = results.comparisons[0];
  results.findings = {NoiseFinding{*results.noise, 0.02},
                      TextDivergence{"nf4", {{3, 5, 0.1, 0.2}}},
                      LengthTrend{{c}},
                      StepFit{false, {1, 2}, 0.9},
                      StepCrossing{5, 1, 9},
                      CacheWithoutGain{c},
                      PaddingOverhead{1, 2, c},
                      SlowerBatch{c},
                      KvCacheSaving{"int8", "float32", 0.25, c},
                      EdgeDifference{c, "prefill", 80, 3, 4},
                      ThreadChoice{"2 threads", true, c},
                      TaskFlips{"nf4", "float32", 200, 8, 3, -0.025, -0.06, 0.01, 0.23, true, 0.05},
                      KlComparison{"nf4", "fp4", "float32", 0.01, 0.02, 0.008, 0.012, true, false, 300},
                      StatedFinding{"A remark."}};
  EXPECT_EQ(results.findings.size(), std::variant_size_v<Finding>);
  return results;
}

TEST(ResultsSchema, KnowsEveryKey) {
  const Json root = schema();
  const SchemaChecker checker(root);
  EXPECT_EQ(checker.check(report::results_json(everything()), root, "results"), "");
  EXPECT_EQ(checker.check(report::results_json(ResultSet{}), root, "results"), "");
}

TEST(ResultsSchema, RefusesWhatIsDamaged) {
  const Json root = schema();
  const SchemaChecker checker(root);
  const Json sound = report::results_json(everything());
  const std::pair<const char*, Json> damages[] = {{"/rows/0/values/total_latency_s/value", "fast"},
                                                  {"/rows/0/status", "fine"},
                                                  {"/rows/0/losses/sums/0", -1},
                                                  {"/rows/0/answers/0/is_right", 1},
                                                  {"/comparisons/0/pairs", 1.5},
                                                  {"/findings/0/noise/bias", "much"},
                                                  {"/findings/2/steps/0/sentence", "of a finding"},
                                                  {"/findings/12/new_key", 1},
                                                  {"/findings/12/kind", "another"},
                                                  {"/new_key", 1},
                                                  {"/schema_version", 3}};
  for (const auto& [pointer, value] : damages) {
    Json json = sound;
    json[Json::json_pointer(pointer)] = value;
    EXPECT_NE(checker.check(json, root, "results"), "") << pointer;
  }
  Json json = sound;
  json["rows"][0].erase("label");
  EXPECT_EQ(checker.check(json, root, "results"), "results.rows.0: lacks label");
}

TEST(ResultsJson, LosesNothingOfTheObservations) {
  const Json json = to_json(everything());
  EXPECT_EQ(to_json(results_from_json(Json::parse(readable_json(json)), "r.json")).dump(), json.dump());
}

}  // namespace
}  // namespace assay
