// Warnings, noise, settings, audits and models as JSON.
#include <nlohmann/json.hpp>

#include "assay/results/earlier_names.h"
#include "assay/results/metric.h"
#include "assay/results/named_json.h"
#include "assay/results/optional_json.h"
#include "assay/results/results_json.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

OrderedJson coverage_to_json(const CoverageFacts& coverage) {
  if (coverage.tensors.empty()) return nullptr;
  OrderedJson tensors = OrderedJson::array();
  for (const CoverageFacts::Tensor& tensor : coverage.tensors)
    tensors.push_back(
        {{"name", tensor.name},
         {"format", tensor.format},
         {"kept_because", tensor.reason.empty() ? OrderedJson(nullptr) : OrderedJson(tensor.reason)}});
  return {{"quantized_tensors", coverage.quantized},
          {"weights_share", coverage.weights_share},
          {"bytes_share", coverage.bytes_share},
          {"bits_per_weight", coverage.bits_per_weight},
          {"saturation", or_null(coverage.saturation)},
          {"outlier_share", or_null(coverage.outlier_share)},
          {"tensors", tensors}};
}

CoverageFacts coverage_from_json(const JsonReader& json) {
  CoverageFacts coverage;
  coverage.quantized = json.at("quantized_tensors").whole<std::int64_t>();
  coverage.weights_share = json.at("weights_share").number();
  coverage.bytes_share = json.at("bytes_share").number();
  coverage.bits_per_weight = json.at("bits_per_weight").number();
  coverage.saturation = number_at(json, "saturation");
  coverage.outlier_share = number_at(json, "outlier_share");
  for (const JsonReader& tensor : json.at("tensors").items()) {
    const JsonReader reason = tensor.at("kept_because");
    coverage.tensors.push_back({tensor.at("name").text(), tensor.at("format").text(),
                                reason.is_null() ? std::string() : reason.text()});
  }
  return coverage;
}

}  // namespace

OrderedJson to_json(const std::vector<Warning>& warnings) {
  OrderedJson json = OrderedJson::array();
  for (const Warning& warning : warnings) {
    const WarningInfo& info = info_of(warning.kind);
    json.push_back(OrderedJson{{"kind", info.name},
                               {"text", warning.text},
                               {"value", or_null(warning.value)},
                               {"limit", or_null(warning.limit)},
                               {"remedy", info.remedy}});
  }
  return json;
}

std::vector<Warning> warnings_from_json(const JsonReader& json) {
  std::vector<Warning> warnings;
  for (const JsonReader& item : json.items()) {
    if (item.is_text())
      warnings.push_back({WarningKind::other, item.text()});
    else
      warnings.push_back({entry_at(warning_kinds(), item.at("kind")).value, item.at("text").text(),
                          number_at(item, "value"), number_at(item, "limit")});
  }
  return warnings;
}

OrderedJson to_json(const NoiseEstimate& noise) {
  return {{"processes", noise.processes},
          {"rounds", noise.rounds},
          {"bias", noise.bias},
          {"between_processes", noise.between},
          {"within_process", noise.within},
          {"detectable_difference", noise.detectable_difference}};
}

NoiseEstimate noise_from_json(const JsonReader& json) {
  return NoiseEstimate{.between = json.at("between_processes").number(),
                       .within = json.at("within_process").number(),
                       .bias = json.at("bias").number(),
                       .processes = json.at("processes").whole<int>(),
                       .rounds = json.at("rounds").whole<int>(),
                       .detectable_difference = json.at("detectable_difference").number()};
}

OrderedJson to_json(const Setting& s) {
  OrderedJson json = {{"precision", s.precision}, {"lm_head", s.lm_head}, {"activations", s.activations},
                      {"kv_cache", s.kv_cache},   {"device", s.device},   {"kernels", s.kernels},
                      {"threads", s.threads},     {"cache", s.cache},     {"batch_size", s.batch_size},
                      {"padding", s.padding}};
  if (!s.model.empty()) json["model"] = s.model;
  return json;
}

Setting setting_from_json(const JsonReader& json) {
  Setting s;
  if (json.has("model")) s.model = json.at("model").text();
  s.precision = json.at("precision").text();
  s.lm_head = json.at("lm_head").text();
  s.activations = json.at("activations").text();
  s.kv_cache = json.at("kv_cache").text();
  s.device = json.at("device").text();
  s.kernels = json.at("kernels").text();
  s.threads = json.at("threads").count<int>();
  s.cache = json.at("cache").boolean();
  s.batch_size = json.at("batch_size").count<std::int64_t>();
  s.padding = json.at("padding").text();
  return s;
}

OrderedJson to_json(const AuditRow& row) {
  return {{"configuration", row.configuration},
          {"what", row.what},
          {"verdict", name_of(row.verdict)},
          {"has_equal_ids", row.has_equal_ids},
          {"has_equal_logits", row.has_equal_logits},
          {"largest_difference", row.largest_difference},
          {"tolerance", row.tolerance},
          {"first_divergence", row.first_divergence}};
}

AuditRow audit_row_from_json(const JsonReader& json) {
  AuditRow row;
  row.configuration = current_name(json.at("configuration").text());
  row.what = json.at("what").text();
  row.verdict = entry_at(audit_verdicts(), json.at("verdict")).value;
  row.has_equal_ids = json.at("has_equal_ids").boolean();
  row.has_equal_logits = json.at("has_equal_logits").boolean();
  row.largest_difference = json.at("largest_difference").number();
  row.tolerance = json.at("tolerance").number();
  row.first_divergence = json.at("first_divergence").text();
  return row;
}

OrderedJson to_json(const std::vector<AuditRow>& rows) {
  OrderedJson json = OrderedJson::array();
  for (const AuditRow& row : rows) json.push_back(to_json(row));
  return json;
}

std::vector<AuditRow> audit_rows_from_json(const JsonReader& json) {
  std::vector<AuditRow> rows;
  for (const JsonReader& row : json.items()) rows.push_back(audit_row_from_json(row));
  return rows;
}

OrderedJson to_json(const ModelFacts& m) {
  return {{"id", m.id},
          {"path", m.path},
          {"family", m.family},
          {"sha256", m.sha256},
          {"dtype", m.dtype},
          {"parameters", m.parameters},
          {"memory_bytes", m.memory_bytes},
          {"resident_weights_bytes", m.resident_weights_bytes},
          {"workspace_bytes", m.workspace_bytes},
          {"head_computed_share", or_null(m.head_computed_share)},
          {"load_s", m.load_s},
          {"quantization", coverage_to_json(m.coverage)}};
}

ModelFacts model_facts_from_json(const JsonReader& json) {
  ModelFacts m;
  m.id = json.at("id").text();
  m.path = json.at("path").text();
  m.family = json.at("family").text();
  m.sha256 = json.at("sha256").text();
  m.dtype = current_name(json.at("dtype").text());
  m.parameters = json.at("parameters").count<std::int64_t>();
  m.memory_bytes = json.at("memory_bytes").count<std::int64_t>();
  m.resident_weights_bytes = json.at("resident_weights_bytes").count<std::int64_t>();
  m.workspace_bytes = json.at("workspace_bytes").count<std::int64_t>();
  m.head_computed_share = number_at(json, "head_computed_share");
  m.load_s = json.at("load_s").number(0, metric("load_s").most());
  // Earlier files have none.
  if (json.has("quantization")) m.coverage = coverage_from_json(json.at("quantization"));
  return m;
}

}  // namespace assay
