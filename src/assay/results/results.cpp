#include "assay/results/results.h"

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/results/metric.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

void Row::set(std::string_view tag, Value value) {
  metric(tag);  // refuses a tag that is not in the catalogue
  for (auto& [name, old] : values)
    if (name == tag) {
      old = std::move(value);
      return;
    }
  values.emplace_back(std::string(tag), std::move(value));
}

const Value* Row::find(std::string_view tag) const {
  for (const auto& [name, value] : values)
    if (name == tag) return &value;
  return nullptr;
}

const std::string& Row::parameter(std::string_view key) const {
  static const std::string none;
  for (const auto& [name, value] : parameters)
    if (name == key) return value;
  return none;
}

Value value_of_repeats(std::vector<double> in_time_order) {
  Value value;
  value.interval = repeated_median_interval(in_time_order);
  value.statistic = value.interval ? "median" : "mean";
  value.value = value.interval ? median(in_time_order) : mean(in_time_order);
  value.samples = std::move(in_time_order);
  return value;
}

namespace {

OrderedJson pairs_to_json(const std::vector<std::pair<std::string, std::string>>& pairs) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [key, value] : pairs) json[key] = value;
  return json;
}

std::vector<std::pair<std::string, std::string>> pairs_from_json(const OrderedJson& json) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [key, value] : json.items()) pairs.emplace_back(key, value.get<std::string>());
  return pairs;
}

OrderedJson to_json(const std::string& tag, const Value& value) {
  OrderedJson json{{"value", value.value},
                   {"unit", metric(tag).unit},
                   {"n", value.samples.empty() ? 1 : value.samples.size()}};
  json["interval"] = nullptr;
  if (value.interval)
    json["interval"] = {
        {"low", value.interval->low}, {"high", value.interval->high}, {"level", value.interval->level}};
  if (!value.samples.empty()) {
    json["statistic"] = value.statistic;
    json["mean"] = mean(value.samples);
    json["median"] = median(value.samples);
  }
  json["samples"] = value.samples;
  return json;
}

Value value_from_json(const OrderedJson& json) {
  Value value{.value = json.at("value").get<double>(),
              .interval = {},
              .samples = json.at("samples").get<std::vector<double>>()};
  if (const OrderedJson& interval = json.at("interval"); !interval.is_null())
    value.interval = Interval{interval.at("low").get<double>(), interval.at("high").get<double>(),
                              interval.at("level").get<double>()};
  value.statistic = json.value("statistic", value.samples.empty() ? "" : "mean");
  return value;
}

OrderedJson row_to_json(const Row& row) {
  OrderedJson values = OrderedJson::object();
  for (const auto& [tag, value] : row.values) values[tag] = to_json(tag, value);
  return {{"scenario", row.scenario},
          {"label", row.label},
          {"status", row.status},
          {"reason", row.reason},
          {"parameters", pairs_to_json(row.parameters)},
          {"values", values},
          {"warnings", row.warnings}};
}

Row read_row(const OrderedJson& json) {
  Row row;
  row.scenario = json.at("scenario").get<std::string>();
  row.label = json.at("label").get<std::string>();
  row.status = json.at("status").get<std::string>();
  row.reason = json.at("reason").get<std::string>();
  row.parameters = pairs_from_json(json.at("parameters"));
  for (const auto& [tag, value] : json.at("values").items())
    row.values.emplace_back(tag, value_from_json(value));
  row.warnings = json.at("warnings").get<std::vector<std::string>>();
  return row;
}

OrderedJson or_null(std::optional<double> number) {
  return number ? OrderedJson(*number) : OrderedJson(nullptr);
}
std::optional<double> number_at(const OrderedJson& json, const char* key) {  // earlier files may lack it
  const auto at = json.find(key);
  return at == json.end() || at->is_null() ? std::nullopt : std::optional(at->get<double>());
}

OrderedJson to_json(const CoverageFacts& coverage) {
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

CoverageFacts coverage_from_json(const OrderedJson& json) {
  CoverageFacts coverage;
  coverage.quantized = json.at("quantized_tensors").get<std::int64_t>();
  coverage.weights_share = json.at("weights_share").get<double>();
  coverage.bytes_share = json.at("bytes_share").get<double>();
  coverage.bits_per_weight = json.at("bits_per_weight").get<double>();
  coverage.saturation = number_at(json, "saturation");
  coverage.outlier_share = number_at(json, "outlier_share");
  for (const OrderedJson& tensor : json.at("tensors")) {
    const OrderedJson& reason = tensor.at("kept_because");
    coverage.tensors.push_back({tensor.at("name").get<std::string>(), tensor.at("format").get<std::string>(),
                                reason.is_null() ? "" : reason.get<std::string>()});
  }
  return coverage;
}

OrderedJson model_to_json(const ModelFacts& m) {
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
          {"quantization", to_json(m.coverage)}};
}

ModelFacts read_model(const OrderedJson& json) {
  ModelFacts m;
  m.id = json.at("id").get<std::string>();
  m.path = json.at("path").get<std::string>();
  m.family = json.at("family").get<std::string>();
  m.sha256 = json.at("sha256").get<std::string>();
  m.dtype = json.at("dtype").get<std::string>();
  m.parameters = json.at("parameters").get<std::int64_t>();
  m.memory_bytes = json.at("memory_bytes").get<std::int64_t>();
  m.resident_weights_bytes = json.at("resident_weights_bytes").get<std::int64_t>();
  m.workspace_bytes = json.at("workspace_bytes").get<std::int64_t>();
  m.head_computed_share = number_at(json, "head_computed_share");
  m.load_s = json.at("load_s").get<double>();
  // Earlier files have none.
  if (json.contains("quantization") && !json.at("quantization").is_null())
    m.coverage = coverage_from_json(json.at("quantization"));
  return m;
}

OrderedJson audit_to_json(const AuditRow& row) {
  return {{"configuration", row.configuration},
          {"what", row.what},
          {"verdict", row.verdict},
          {"has_equal_ids", row.has_equal_ids},
          {"has_equal_logits", row.has_equal_logits},
          {"largest_difference", row.largest_difference},
          {"tolerance", row.tolerance},
          {"first_divergence", row.first_divergence}};
}

AuditRow read_audit(const OrderedJson& json) {
  AuditRow row;
  row.configuration = json.at("configuration").get<std::string>();
  row.what = json.at("what").get<std::string>();
  row.verdict = json.at("verdict").get<std::string>();
  row.has_equal_ids = json.at("has_equal_ids").get<bool>();
  row.has_equal_logits = json.at("has_equal_logits").get<bool>();
  row.largest_difference = json.at("largest_difference").get<double>();
  row.tolerance = json.at("tolerance").get<double>();
  row.first_divergence = json.at("first_divergence").get<std::string>();
  return row;
}

OrderedJson noise_to_json(const std::optional<NoiseBudget>& noise) {
  if (!noise) return nullptr;
  return {{"smallest_difference", noise->smallest_difference},
          {"bias", noise->bias},
          {"pairs", noise->pairs},
          {"planned", noise->planned}};
}

std::optional<NoiseBudget> noise_from_json(const OrderedJson& json) {
  if (json.is_null()) return std::nullopt;
  return NoiseBudget{json.at("smallest_difference").get<double>(), json.at("bias").get<double>(),
                     json.at("pairs").get<int>(), json.at("planned").get<int>()};
}

// What files of earlier versions of the program do not have.
void read_later_keys(const OrderedJson& json, ResultSet& results) {
  if (json.contains("comparisons"))
    for (const OrderedJson& c : json.at("comparisons"))
      results.comparisons.push_back(comparison_from_json(c));
  if (json.contains("audit"))
    for (const OrderedJson& row : json.at("audit")) results.audit.push_back(read_audit(row));
  if (json.contains("noise")) results.noise = noise_from_json(json.at("noise"));
  if (json.contains("remarks")) results.remarks = json.at("remarks").get<std::vector<std::string>>();
}

ResultSet read(const OrderedJson& json) {
  ResultSet results;
  results.created = json.at("created").get<std::string>();
  results.command = json.at("command").get<std::string>();
  results.status = json.at("status").get<std::string>();
  const OrderedJson& environment = json.at("environment");
  const OrderedJson& build = environment.at("build");
  results.build = {build.at("version").get<std::string>(), build.at("compiler").get<std::string>(),
                   build.at("type").get<std::string>()};
  results.machine = machine_from_json(environment.at("machine"));
  results.model = model_facts_from_json(json.at("model"));
  for (const OrderedJson& row : json.at("rows")) results.rows.push_back(row_from_json(row));
  for (const OrderedJson& text : json.at("texts"))
    results.texts.push_back({text.at("label").get<std::string>(), text.at("prompt").get<std::string>(),
                             text.at("text").get<std::string>(),
                             text.at("prompt_ids").get<std::vector<int>>(),
                             text.at("ids").get<std::vector<int>>()});
  results.takeaways = json.at("takeaways").get<std::vector<std::string>>();
  results.caption = json.at("caption").get<std::string>();
  read_later_keys(json, results);
  for (const Row& row : results.rows)
    for (const auto& [tag, value] : row.values) metric(tag);
  return results;
}

}  // namespace

OrderedJson to_json(const AuditRow& row) {
  return audit_to_json(row);
}
AuditRow audit_row_from_json(const OrderedJson& json) {
  return read_audit(json);
}
OrderedJson to_json(const Row& row) {
  return row_to_json(row);
}
Row row_from_json(const OrderedJson& json) {
  return read_row(json);
}
OrderedJson to_json(const ModelFacts& model) {
  return model_to_json(model);
}
ModelFacts model_facts_from_json(const OrderedJson& json) {
  return read_model(json);
}

OrderedJson to_json(const ResultSet& results) {
  OrderedJson rows = OrderedJson::array(), texts = OrderedJson::array();
  for (const Row& row : results.rows) rows.push_back(to_json(row));
  for (const GeneratedText& t : results.texts)
    texts.push_back(OrderedJson{{"label", t.label},
                                {"prompt", t.prompt},
                                {"text", t.text},
                                {"prompt_ids", t.prompt_ids},
                                {"ids", t.ids}});
  OrderedJson comparisons = OrderedJson::array(), audit = OrderedJson::array();
  for (const Comparison& comparison : results.comparisons) comparisons.push_back(to_json(comparison));
  for (const AuditRow& row : results.audit) audit.push_back(to_json(row));
  const OrderedJson build{
      {"version", results.build.version}, {"compiler", results.build.compiler}, {"type", results.build.type}};
  return {{"schema", "assay.results"},
          {"schema_version", ResultSet::kSchemaVersion},
          {"created", results.created},
          {"command", results.command},
          {"status", results.status},
          {"environment", {{"build", build}, {"machine", to_json(results.machine)}}},
          {"model", to_json(results.model)},
          {"caption", results.caption},
          {"rows", rows},
          {"texts", texts},
          {"noise", noise_to_json(results.noise)},
          {"comparisons", comparisons},
          {"audit", audit},
          {"remarks", results.remarks},
          {"takeaways", results.takeaways}};
}

ResultSet results_from_json(const OrderedJson& json, const std::string& where) {
  const auto at = [&](const char* key) {
    return json.is_object() && json.contains(key) ? json[key] : OrderedJson();
  };
  if (at("schema") != "assay.results")
    throw Error("{}: not a results file: expected \"schema\": \"assay.results\"", where);
  const OrderedJson version = at("schema_version");
  if (!version.is_number_integer() || version != ResultSet::kSchemaVersion)
    throw Error("{}: schema_version: this program reads {}, found {}", where, ResultSet::kSchemaVersion,
                version.dump().substr(0, 80));
  try {
    return read(json);
  } catch (const OrderedJson::exception& e) {
    throw Error("{}: not a complete results file: {}", where, e.what());
  } catch (const std::logic_error& e) {
    throw Error("{}: {}", where, e.what());
  }
}

}  // namespace assay
