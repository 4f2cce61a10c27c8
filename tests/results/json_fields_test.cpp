// Every field of a result in its JSON, with a value of its own: nothing is lost or mistaken for another.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/results/results_json.h"
#include "support/result_sets.h"

namespace assay {
namespace {

using FieldJson = nlohmann::ordered_json;

template <typename Read>
std::string refusal(const FieldJson& json, Read read) {
  try {
    read(JsonReader(json, "f"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
std::string refusal_of_row(const FieldJson& json) {
  return refusal(json, [](const JsonReader& reader) { row_from_json(reader); });
}
std::string refusal_of_comparison(const FieldJson& json) {
  return refusal(json, [](const JsonReader& reader) { comparison_from_json(reader); });
}

TEST(JsonFields, OfAComparison) {
  Comparison c;
  c.scenario = Scenario::batches;
  c.subject = "s";
  c.baseline = "b";
  c.metric = "perplexity";
  c.ratio = 1.25;
  c.interval = statistics::Interval{1.125, 1.5, 0.75};
  c.margin = 0.03125;
  c.verdict = Verdict::cannot_tell;
  c.pairs = 15;
  c.processes = 5;
  c.more_needed = 7;
  c.seconds_each = 2.5;
  c.chosen_among = 4;
  c.p_value = 0.0625;
  c.detectable_difference = 0.375;
  c.effect = statistics::Effect{0.25, 0.125, 6, 9};
  const FieldJson json = to_json(c);
  const char* text =
      R"({"scenario":"batches","subject":"s","baseline":"b","metric":"perplexity","ratio":1.25,)"
      R"("interval":{"low":1.125,"high":1.5,"level":0.75},"margin":0.03125,"verdict":"cannot tell","pairs":15,)"
      R"("processes":5,"p_value":0.0625,"effect":{"log_ratio":0.25,"standard_error":0.125,"degrees":6.0,)"
      R"("replicates":9},"chosen_among":4,"detectable_difference":0.375,"more_needed":7,"seconds_each":2.5})";
  EXPECT_EQ(json.dump(), text);
  EXPECT_EQ(to_json(comparison_from_json(json)).dump(), text);
  c.more_needed = kNotInReach;
  c.p_value.reset();
  c.effect.reset();
  c.interval.reset();
  const FieldJson open = to_json(c);
  for (const char* key : {"more_needed", "p_value", "effect", "interval"})
    EXPECT_TRUE(open[key].is_null()) << key;
  EXPECT_EQ(comparison_from_json(open).more_needed, kNotInReach);
  EXPECT_FALSE(comparison_from_json(open).p_value);
  EXPECT_FALSE(comparison_from_json(open).effect);
  EXPECT_FALSE(comparison_from_json(open).interval);
  // Earlier files have none of these.
  FieldJson earlier = json;
  for (const char* key : {"scenario", "processes", "p_value", "chosen_among", "effect",
                          "detectable_difference", "seconds_each"})
    earlier.erase(key);
  const Comparison old = comparison_from_json(earlier);
  EXPECT_EQ(old.scenario, Scenario::baseline);
  EXPECT_EQ(old.processes, 0);
  EXPECT_FALSE(old.p_value);
  EXPECT_EQ(old.chosen_among, 2);
  EXPECT_FALSE(old.effect);
  EXPECT_EQ(old.detectable_difference, 0);
  EXPECT_EQ(old.seconds_each, 0);
}

TEST(JsonFields, OfAComparisonHaveTheirLimits) {
  Comparison c;
  c.metric = "total_latency_s";
  c.interval = statistics::Interval{1, 1, 0.95};
  c.effect = statistics::Effect{-0.5, 0, 0, 0};
  const FieldJson sound = to_json(c);
  EXPECT_EQ(refusal_of_comparison(sound), "") << "an interval may be a point";
  const auto with = [&](const char* pointer, const FieldJson& value) {
    FieldJson json = sound;
    json[FieldJson::json_pointer(pointer)] = value;
    return refusal_of_comparison(json);
  };
  EXPECT_EQ(with("/interval/low", 1.5), "f: interval.high: expected no less than 'low', found 1.0");
  EXPECT_EQ(with("/interval/level", 1), "");
  EXPECT_EQ(with("/interval/level", 0), "");
  EXPECT_NE(with("/interval/level", 1.5), "");
  EXPECT_NE(with("/interval/low", -1), "");
  EXPECT_EQ(with("/ratio", 0), "");
  for (const char* pointer :
       {"/ratio", "/margin", "/effect/standard_error", "/effect/degrees", "/effect/replicates", "/pairs",
        "/processes", "/more_needed", "/chosen_among"}) {
    EXPECT_EQ(with(pointer, 0), "") << pointer;
    EXPECT_NE(with(pointer, -1), "") << pointer;
  }
}

TEST(JsonFields, OfAnAudit) {
  AuditRow row;
  row.configuration = "nf4";
  row.what = "batched";
  row.has_equal_ids = false;
  row.has_equal_logits = true;
  row.largest_difference = 0.5;
  row.tolerance = 0.25;
  row.verdict = AuditVerdict::within_tolerance;
  row.first_divergence = "token 3";
  const char* text =
      R"({"configuration":"nf4","what":"batched","verdict":"within tolerance","has_equal_ids":false,)"
      R"("has_equal_logits":true,"largest_difference":0.5,"tolerance":0.25,"first_divergence":"token 3"})";
  EXPECT_EQ(to_json(row).dump(), text);
  EXPECT_EQ(to_json(audit_row_from_json(to_json(row))).dump(), text);
  std::swap(row.has_equal_ids, row.has_equal_logits);
  EXPECT_EQ(to_json(audit_row_from_json(to_json(row))).dump(), to_json(row).dump());
}

TEST(JsonFields, OfAModel) {
  ModelFacts m;
  m.id = "demo";
  m.path = "/models/demo";
  m.family = "gpt2";
  m.sha256 = "abc";
  m.dtype = "nf4";
  m.parameters = 1;
  m.memory_bytes = 2;
  m.resident_weights_bytes = 3;
  m.workspace_bytes = 4;
  m.head_computed_share = 0.5;
  m.load_s = 6.5;
  m.coverage.tensors = {{"a", "nf4", ""}, {"b", "float32", "an embedding"}};
  m.coverage.quantized = 7;
  m.coverage.weights_share = 0.125;
  m.coverage.bytes_share = 0.25;
  m.coverage.bits_per_weight = 4.5;
  m.coverage.saturation = 0.75;
  m.coverage.outlier_share = 0.0625;
  const char* text =
      R"({"id":"demo","path":"/models/demo","family":"gpt2","sha256":"abc","dtype":"nf4","parameters":1,)"
      R"("memory_bytes":2,"resident_weights_bytes":3,"workspace_bytes":4,"head_computed_share":0.5,"load_s":6.5,)"
      R"("quantization":{"quantized_tensors":7,"weights_share":0.125,"bytes_share":0.25,"bits_per_weight":4.5,)"
      R"("saturation":0.75,"outlier_share":0.0625,"tensors":[{"name":"a","format":"nf4","kept_because":null},)"
      R"({"name":"b","format":"float32","kept_because":"an embedding"}]}})";
  EXPECT_EQ(to_json(m).dump(), text);
  EXPECT_EQ(to_json(model_facts_from_json(to_json(m))).dump(), text);
  m.coverage = {};
  m.head_computed_share.reset();
  FieldJson json = to_json(m);
  EXPECT_TRUE(json["quantization"].is_null());
  EXPECT_TRUE(json["head_computed_share"].is_null());
  json.erase("quantization");
  json.erase("head_computed_share");
  EXPECT_TRUE(model_facts_from_json(json).coverage.tensors.empty());
  EXPECT_FALSE(model_facts_from_json(json).head_computed_share);
  const auto with = [&](const char* key, const FieldJson& value) {
    FieldJson changed = json;
    changed[key] = value;
    return refusal(changed, [](const JsonReader& reader) { model_facts_from_json(reader); });
  };
  for (const char* key :
       {"parameters", "memory_bytes", "resident_weights_bytes", "workspace_bytes", "load_s"}) {
    EXPECT_EQ(with(key, 0), "");
    EXPECT_NE(with(key, -1), "") << key;
  }
  EXPECT_NE(with("load_s", 1e19), "");
}

Row full_row() {
  Row row;
  row.scenario = Scenario::perplexity;
  row.label = "nf4";
  row.status = RowStatus::error;
  row.reason = "why";
  row.parameters = {{"threads", "2"}};
  row.set("total_latency_s", Value{2, statistics::Interval{1, 3, 0.95}, {1, 2, 6}, "median", 2});
  row.set("load_s", 0.5);
  row.places = {{0, 5}, {0, 6}, {1, 7}};
  row.step_s = {{0.5}, {}, {0.25, 0.125}};
  row.losses = LossBlocks{17, {8, 0.5}};
  row.absent = {{"energy_per_token_j", "no counter"}};
  row.warnings = {{WarningKind::drift, "slower"}};
  row.setting.precision = "nf4";
  row.setting.threads = 2;
  return row;
}

TEST(JsonFields, OfARow) {
  const char* text =
      R"({"scenario":"perplexity","label":"nf4","status":"error","reason":"why","parameters":{"threads":"2"},)"
      R"("setting":{"precision":"nf4","lm_head":"","activations":"","kv_cache":"","device":"","kernels":"","threads":2,)"
      R"("cache":true,"batch_size":0,"padding":""},)"
      R"("values":{"total_latency_s":{"value":2.0,"unit":"s","n":3,"interval":{"low":1.0,"high":3.0,"level":0.95},)"
      R"("statistic":"median","mean":3.0,"median":2.0,"processes":2,"samples":[1.0,2.0,6.0]},)"
      R"("load_s":{"value":0.5,"unit":"s","n":1,"interval":null,"samples":[]}},)"
      R"("samples_from":{"process":[0,0,1],"round":[5,6,7]},"step_s":[[0.5],[],[0.25,0.125]],)"
      R"("losses":{"tokens":17,"tokens_per_block":16,"sums":[8.0,0.5]},"absent":{"energy_per_token_j":"no counter"},)"
      R"("warnings":[{"kind":"drift","text":"slower","value":null,"limit":null,"remedy":"repeat after the machine has settled"}]})";
  EXPECT_EQ(to_json(full_row()).dump(), text);
  const Row back = row_from_json(to_json(full_row()));
  EXPECT_EQ(to_json(back).dump(), text);
  EXPECT_EQ(back.find("total_latency_s")->statistic, "median");
  EXPECT_EQ(back.find("total_latency_s")->processes, 2);
  EXPECT_EQ(back.find("load_s")->statistic, "");
  EXPECT_EQ(back.find("load_s")->processes, 0);
  Row bare;
  const FieldJson json = to_json(bare);
  for (const char* key : {"samples_from", "step_s", "losses", "absent"})
    EXPECT_FALSE(json.contains(key)) << key;
  EXPECT_EQ(to_json(row_from_json(json)).dump(), json.dump());
  // For one process the number is written, of an unknown number nothing.
  bare.set("load_s", Value{1, {}, {1}, "mean", 1});
  EXPECT_EQ(to_json(bare)["values"]["load_s"]["processes"], 1);
}

TEST(JsonFields, OfARowThatIsDamaged) {
  const FieldJson sound = to_json(full_row());
  const auto with = [&](const char* pointer, const FieldJson& value) {
    FieldJson json = sound;
    json[FieldJson::json_pointer(pointer)] = value;
    return refusal_of_row(json);
  };
  EXPECT_EQ(with("/label", "x"), "");
  EXPECT_EQ(with("/samples_from/round", {1, 2}).substr(0, 48),
            "f: samples_from: expected as many processes as r");
  EXPECT_EQ(with("/losses/tokens_per_block", 32),
            "f: losses.tokens_per_block: expected 16, as this program writes it, found 32");
  EXPECT_EQ(with("/losses/tokens", 33), "f: losses.sums: expected 3 blocks for 33 tokens, found 2");
  EXPECT_EQ(with("/losses/tokens", 32), "");
  EXPECT_EQ(with("/losses/tokens", 16), "f: losses.sums: expected 1 blocks for 16 tokens, found 2");
  EXPECT_NE(with("/losses/sums/0", -1), "");
  EXPECT_EQ(with("/losses/sums/0", 0), "");
  EXPECT_NE(with("/step_s/0/0", -1), "");
  EXPECT_NE(with("/step_s/0/0", 1e19), "");
  EXPECT_EQ(with("/absent/speed", "x"), "f: absent.speed: this program knows no metric of this name");
  EXPECT_NE(with("/samples_from/process/0", -1), "");
  EXPECT_NE(with("/values/total_latency_s/processes", -1), "");
  // A mean near 0 may have an interval below it, in the limits of the metric.
  EXPECT_EQ(with("/values/total_latency_s/interval/low", -1), "");
  EXPECT_NE(with("/values/total_latency_s/interval/low", -1e19), "");
  EXPECT_NE(with("/values/total_latency_s/interval/high", 1e19), "");
  EXPECT_NE(with("/values/load_s/value", -1), "");
}

TEST(JsonFields, WarningsOfEarlierFilesAreDoubts) {
  FieldJson json = to_json(Row{});
  json["doubts"] = {"old"};
  EXPECT_TRUE(row_from_json(json).warnings.empty()) << "warnings are the newer name";
  json.erase("warnings");
  EXPECT_EQ(row_from_json(json).warnings, (std::vector<Warning>{{WarningKind::other, "old"}}));
  json.erase("doubts");
  EXPECT_EQ(refusal_of_row(json), "f: the key 'warnings' is missing");
}

ResultSet full_set() {
  ResultSet results = test::full_results();
  results.created = "then";
  results.command = "assay x";
  results.run_id = "id";
  results.configuration = {{"seed", "1"}, {"threads", "2"}};
  results.status = RunStatus::interrupted;
  results.build = {"1", "2", "3"};
  results.noise = NoiseEstimate{0.125, 0.25, -0.5, 5, 3, 0.75};
  results.other_comparisons[0].subject = "other";
  return results;
}

TEST(JsonFields, OfAResult) {
  const FieldJson json = to_json(full_set());
  EXPECT_EQ(json["schema"], "assay.results");
  EXPECT_EQ(json["created"], "then");
  EXPECT_EQ(json["command"], "assay x");
  EXPECT_EQ(json["run_id"], "id");
  EXPECT_EQ(json["status"], "interrupted");
  EXPECT_EQ(json["environment"]["build"].dump(), R"({"version":"1","compiler":"2","type":"3"})");
  EXPECT_EQ(json["configuration"].dump(), R"({"seed":"1","threads":"2"})");
  EXPECT_EQ(
      json["texts"][0].dump(),
      R"({"label":"float32, prompt 1","prompt":"a prompt","text":" and\ntext","prompt_ids":[1,2],"ids":[3,4],"scenario":"trade-off","generated_by":"float32"})");
  EXPECT_EQ(json["noise"].dump(), R"({"processes":5,"rounds":3,"bias":-0.5,"between_processes":0.125,)"
                                  R"("within_process":0.25,"detectable_difference":0.75})");
  EXPECT_EQ(json["comparisons"][0]["subject"], "nf4");
  EXPECT_EQ(json["other_comparisons"][0]["subject"], "other");
  EXPECT_EQ(json["findings"].dump(), R"([{"kind":"stated","text":"A remark."}])");
  EXPECT_EQ(json["caption"], "How it was done.");
  EXPECT_EQ(to_json(results_from_json(json, "f")).dump(), json.dump());
  EXPECT_TRUE(to_json(ResultSet{})["noise"].is_null());
  EXPECT_FALSE(results_from_json(to_json(ResultSet{}), "f").noise);
}

TEST(JsonFields, OfAnEarlierResult) {
  FieldJson json = to_json(full_set());
  for (const char* key :
       {"run_id", "configuration", "comparisons", "other_comparisons", "audit", "noise", "findings"})
    json.erase(key);
  const ResultSet old = results_from_json(json, "f");
  EXPECT_EQ(old.run_id, "");
  EXPECT_TRUE(old.configuration.empty() && old.comparisons.empty() && old.other_comparisons.empty() &&
              old.audit.empty() && old.findings.empty());
  EXPECT_FALSE(old.noise);
  EXPECT_EQ(old.rows.size(), 3U);
  json["noise"] = {{"processes", 1}};
  EXPECT_FALSE(results_from_json(json, "f").noise) << "of one process";
}

TEST(JsonFields, NameTheirSchema) {
  const FieldJson sound = to_json(full_set());
  const auto error_of_file = [](const FieldJson& json) {
    try {
      results_from_json(json, "f");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const char* none = "f: not a results file: expected \"schema\": \"assay.results\"";
  EXPECT_EQ(error_of_file(sound), "");
  EXPECT_EQ(error_of_file(FieldJson::object()), none);
  EXPECT_EQ(error_of_file("text"), none);
  EXPECT_EQ(error_of_file({{"schema", "x"}}), none);
  EXPECT_EQ(error_of_file({{"schema", "assay.results"}}), "f: the key 'schema_version' is missing");
  FieldJson json = sound;
  json["schema_version"] = 1.0;
  EXPECT_EQ(error_of_file(json).substr(0, 72),
            "f: schema_version: expected 1 or 2, the versions that this program reads");
  json["schema_version"] = 0;
  EXPECT_NE(error_of_file(json), "");
}

}  // namespace
}  // namespace assay
