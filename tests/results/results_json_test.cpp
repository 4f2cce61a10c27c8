// A result set survives its file, files of earlier versions are read, and a damaged one says where.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/results/results_json.h"
#include "support/result_sets.h"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string error_of(const OrderedJson& json) {
  try {
    results_from_json(json, "r.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ResultsJson, NothingIsLost) {
  const OrderedJson json = to_json(test::full_results());
  EXPECT_EQ(json["schema_version"], 2);
  EXPECT_EQ(json["rows"][0]["scenario"], "trade-off");
  EXPECT_EQ(json["rows"][0]["values"]["total_latency_s"]["samples"].size(), 6u);
  EXPECT_EQ(json["rows"][0]["values"]["total_latency_s"]["unit"], "s");
  EXPECT_EQ(json["rows"][2]["status"], "error");
  EXPECT_EQ(json["audit"][0]["verdict"], "equal");
  EXPECT_EQ(json["status"], "complete");
  const ResultSet back = results_from_json(OrderedJson::parse(json.dump()), "r.json");
  EXPECT_EQ(to_json(back).dump(), json.dump());
}

TEST(ResultsJson, HoldsMeanAndMedianOfTheSamples) {
  ResultSet results = test::full_results();
  results.rows[0].set("total_latency_s", Value{2, std::nullopt, {1, 2, 9}, "median"});
  const OrderedJson value = to_json(results)["rows"][0]["values"]["total_latency_s"];
  EXPECT_EQ(value["mean"], 4);
  EXPECT_EQ(value["median"], 2);
}

TEST(ResultsJson, FilesOfEarlierVersionsAreRead) {
  OrderedJson json = to_json(test::full_results());
  for (const char* key : {"comparisons", "audit", "noise", "remarks"}) json.erase(key);
  OrderedJson& row = json["rows"][0];
  row.erase("warnings");
  row["doubts"] = {"a plain sentence"};
  row["values"]["total_latency_s"].erase("statistic");
  const ResultSet results = results_from_json(json, "r.json");
  ASSERT_EQ(results.rows[0].warnings.size(), 1u);
  EXPECT_EQ(results.rows[0].warnings[0], (Warning{WarningKind::other, "a plain sentence"}));
  EXPECT_EQ(results.rows[0].find("total_latency_s")->statistic, "mean");
  EXPECT_TRUE(results.comparisons.empty());
}

TEST(ResultsJson, WhatIsWrongIsNamedByItsPath) {
  const OrderedJson sound = to_json(test::full_results());
  struct Damage {
    const char* pointer;
    OrderedJson value;
    const char* expected;
  };
  const Damage damages[] = {
      {"/rows/1/values/total_latency_s/value", "fast",
       "r.json: rows[1].values.total_latency_s.value: expected a number, found the string 'fast'"},
      {"/rows/1/values/total_latency_s/samples/2", nullptr,
       "r.json: rows[1].values.total_latency_s.samples[2]: expected a number, found null"},
      {"/rows/1/values/total_latency_s/value", -1.0,
       "r.json: rows[1].values.total_latency_s.value: expected a number from 0 to 1e+18, found -1"},
      {"/rows/1/values/total_latency_s/samples/2", 1e300,
       "r.json: rows[1].values.total_latency_s.samples[2]: expected a number from 0 to 1e+18, found 1e+300"},
      {"/rows/1/values/total_latency_s/interval/high", 0.0,
       "r.json: rows[1].values.total_latency_s.interval.high: expected no less than 'low', found 0"},
      {"/comparisons/0/pairs", -1, "r.json: comparisons[0].pairs: expected a whole number from 0"},
      {"/model/memory_bytes", -1, "r.json: model.memory_bytes: expected a whole number from 0"},
      {"/rows/0/losses",
       {{"tokens", 40}, {"tokens_per_block", 16}, {"sums", {1, 2}}},
       "r.json: rows[0].losses.sums: expected 3 blocks for 40 tokens, found 2"},
      {"/rows/0/losses",
       {{"tokens", std::int64_t{9223372036854775807}}, {"tokens_per_block", 16}, {"sums", {1, 2}}},
       "r.json: rows[0].losses.tokens: expected a whole number from 0 to 9007199254740992"},
      {"/rows/0/scenario", "trade", "r.json: rows[0].scenario: expected one of baseline, noise, trade-off"},
      {"/rows/0/status", 1, "r.json: rows[0].status: expected a string, found 1"},
      {"/rows/0/warnings/0/kind", "x", "r.json: rows[0].warnings[0].kind: expected one of other, "},
      {"/comparisons/0/interval", 7, "r.json: comparisons[0].interval: expected an object, found 7"},
      {"/comparisons/0/metric", "speed",
       "r.json: comparisons[0].metric: this program knows no metric of this name"},
      {"/rows/0/values/speed", 1, "r.json: rows[0].values.speed: this program knows no metric of this name"},
      {"/texts/0/ids/1", "x", "r.json: texts[0].ids[1]: expected a whole number"},
      {"/model/parameters", 1e300, "r.json: model.parameters: expected a whole number"},
      {"/environment/machine/cpu_features", 3,
       "r.json: environment.machine.cpu_features: expected an array, found 3"},
      {"/audit/0/verdict", "fine", "r.json: audit[0].verdict: expected one of equal, within tolerance"},
      {"/noise/processes", 1.5, "r.json: noise.processes: expected a whole number"},
      {"/findings", "one", "r.json: findings: expected an array, found the string 'one'"},
      {"/status", "done", "r.json: status: expected one of complete, interrupted, found the string 'done'"},
      {"/schema_version", 3,
       "r.json: schema_version: expected 1 or 2, the versions that this program reads, found 3"},
      {"/schema", "other", "r.json: not a results file"},
  };
  for (const Damage& damage : damages) {
    OrderedJson json = sound;
    json[OrderedJson::json_pointer(damage.pointer)] = damage.value;
    EXPECT_EQ(error_of(json).substr(0, std::string(damage.expected).size()), damage.expected)
        << damage.pointer;
  }
  for (const char* key : {"created", "environment", "model", "rows", "texts", "schema_version"}) {
    OrderedJson json = sound;
    json.erase(key);
    EXPECT_NE(error_of(json).find(std::string("the key '") + key + "' is missing"), std::string::npos)
        << error_of(json);
  }
  EXPECT_NE(error_of(OrderedJson::array()).find("r.json: not a results file"), std::string::npos);
}

// Its sentence names two or three.
TEST(ResultsJson, AFittedLineHasItsCoefficients) {
  OrderedJson json = to_json(test::full_results());
  const auto refusal_of = [&](const std::vector<double>& coefficients) {
    json["findings"] = {{{"kind", "step_fit"}, {"cache", true}, {"coefficients", coefficients}, {"r2", 1}}};
    return error_of(json);
  };
  EXPECT_EQ(refusal_of({}), "r.json: findings[0].coefficients: expected 2 or 3 numbers, found 0");
  EXPECT_EQ(refusal_of({1}), "r.json: findings[0].coefficients: expected 2 or 3 numbers, found 1");
  EXPECT_EQ(refusal_of({1, 2, 3, 4}), "r.json: findings[0].coefficients: expected 2 or 3 numbers, found 4");
  for (const std::size_t count : {std::size_t{2}, std::size_t{3}})
    EXPECT_EQ(refusal_of(std::vector<double>(count, 1)), "no error");
}

}  // namespace
}  // namespace assay
