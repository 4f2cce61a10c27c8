// docs/results.schema.json names every key that results.json can hold, and what each may be.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/file.h"
#include "assay/report/written_results.h"
#include "assay/results/results_json.h"
#include "support/paths.h"
#include "support/result_sets.h"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

// The part of JSON Schema that the file uses; what else it would use fails here.
class SchemaChecker {
 public:
  explicit SchemaChecker(const Json& root) : root_(root) {}

  std::string check(const Json& value, const Json& schema, const std::string& where) const {
    std::string wrong;
    for (const auto& [key, part] : schema.items()) {
      if (wrong.empty()) wrong = check_keyword(key, part, value, schema, where);
    }
    return wrong;
  }

 private:
  std::string check_keyword(const std::string& key, const Json& part, const Json& value, const Json& schema,
                            const std::string& where) const {
    if (key == "$schema" || key == "title" || key == "description" || key == "definitions") return "";
    if (key == "$ref")
      return check(value, root_.at(Json::json_pointer(part.get<std::string>().substr(1))), where);
    if (key == "anyOf") {
      for (const Json& choice : part)
        if (check(value, choice, where).empty()) return "";
      return where + ": none of the choices; the first says " + check(value, part[0], where);
    }
    if (key == "const") return value == part ? "" : where + ": another constant";
    if (key == "enum") return std::count(part.begin(), part.end(), value) > 0 ? "" : where + ": not listed";
    if (key == "minimum") return !value.is_number() || value >= part ? "" : where + ": too small";
    if (key == "maximum") return !value.is_number() || value <= part ? "" : where + ": too large";
    if (key == "type") return has_type(value, part) ? "" : where + ": not of type " + part.get<std::string>();
    if (key == "items")
      return each(
          value, [&](const auto&, const Json&) { return &part; }, where);
    if (key == "required") {
      for (const Json& name : part)
        if (value.is_object() && !value.contains(name.get<std::string>()))
          return where + ": lacks " + name.get<std::string>();
      return "";
    }
    if (key == "properties" || key == "additionalProperties") {
      if (key == "additionalProperties" && schema.contains("properties")) return "";  // with these
      const Json none;
      return each(
          value,
          [&](const std::string& name, const Json&) -> const Json* {
            if (key == "additionalProperties") return &part;
            return part.contains(name) ? &part[name] : nullptr;
          },
          where);
    }
    return where + ": the checker knows no keyword " + key;
  }

  template <typename Of>
  std::string each(const Json& value, const Of& of, const std::string& where) const {
    if (!value.is_structured()) return "";
    std::size_t i = 0;
    for (auto item = value.begin(); item != value.end(); ++item, ++i) {
      const std::string name = value.is_object() ? item.key() : std::to_string(i);
      const Json* own = of(name, *item);
      if (own == nullptr) return where + "." + name + " is not in the schema";
      if (std::string wrong = check(*item, *own, where + "." + name); !wrong.empty()) return wrong;
    }
    return "";
  }

  static bool has_type(const Json& value, const std::string& type) {
    return type == "object"    ? value.is_object()
           : type == "array"   ? value.is_array()
           : type == "string"  ? value.is_string()
           : type == "boolean" ? value.is_boolean()
           : type == "null"    ? value.is_null()
           : type == "integer" ? value.is_number_integer()
           : type == "number"  ? value.is_number()
                               : false;
  }

  const Json& root_;
};

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
