#include "assay/results/results_json.h"

#include <limits>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/machine/machine_json.h"
#include "assay/results/choice_json.h"
#include "assay/results/earlier_names.h"
#include "assay/results/finding_json.h"
#include "assay/results/metric.h"
#include "assay/results/named_json.h"
#include "assay/results/optional_json.h"
#include "assay/results/task_answers_json.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

OrderedJson pairs_to_json(const std::vector<std::pair<std::string, std::string>>& pairs) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [key, value] : pairs) json[key] = value;
  return json;
}

std::vector<std::pair<std::string, std::string>> pairs_from_json(const JsonReader& json) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [key, value] : json.members()) pairs.emplace_back(key, value.text());
  return pairs;
}

// What a tag of schema 1 is called now.
std::string current_tag(const std::string& tag) {
  constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
      {"percent_of_roof", "percent_of_roofline"},
      {"roof_latency_s", "roofline_latency_s"},
      {"roof_gb_s", "roofline_gb_s"},
      {"roof_gflops", "roofline_gflops"},
      {"latency_ratio", "time_ratio"},
  };
  for (const auto& [old, now] : kRenamed)
    if (tag == old) return std::string(now);
  return tag;
}

std::optional<statistics::Interval> interval_within(const JsonReader& json, double least, double most) {
  if (json.is_null()) return std::nullopt;
  const JsonReader high = json.at("high");
  const statistics::Interval interval{json.at("low").number(least, most), high.number(least, most),
                                      json.at("level").number(0, 1)};
  if (interval.low > interval.high) high.refuse("no less than 'low'");
  return interval;
}

OrderedJson value_to_json(const std::string& tag, const Value& value) {
  OrderedJson json{{"value", value.value},
                   {"unit", metric(tag).unit},
                   {"n", value.n()},
                   {"interval", interval_to_json(value.interval)}};
  if (!value.samples.empty()) {
    json["statistic"] = value.statistic;
    json["mean"] = statistics::mean(value.samples);
    json["median"] = statistics::median(value.samples);
  }
  if (value.processes > 0) json["processes"] = value.processes;
  json["samples"] = value.samples;
  return json;
}

Value value_from_json(const Metric& what, const JsonReader& json) {
  const double least = what.least(), most = what.most();
  Value value{.value = json.at("value").number(least, most),
              // The interval of a mean near 0 it may reach below.
              .interval = interval_within(json.at("interval"), -most, most),
              .samples = json.at("samples").numbers(least, most)};
  value.statistic = json.has("statistic") ? json.at("statistic").text() : value.samples.empty() ? "" : "mean";
  if (json.has("processes")) value.processes = json.at("processes").count<int>();
  return value;
}

OrderedJson places_to_json(const std::vector<SampleId>& places) {
  OrderedJson process = OrderedJson::array(), round = OrderedJson::array();
  for (const SampleId& place : places) {
    process.push_back(place.process);
    round.push_back(place.round);
  }
  return {{"process", process}, {"round", round}};
}

std::vector<SampleId> places_from_json(const JsonReader& json) {
  std::vector<int> process, round;
  for (const JsonReader& item : json.at("process").items()) process.push_back(item.count<int>());
  for (const JsonReader& item : json.at("round").items()) round.push_back(item.count<int>());
  if (process.size() != round.size()) json.refuse("as many processes as rounds");
  std::vector<SampleId> places;
  for (std::size_t i = 0; i < process.size(); ++i) places.push_back({process[i], round[i]});
  return places;
}

constexpr std::int64_t kMostTokens = std::int64_t{1} << 53;  // what other readers of JSON keep exactly

// What a row keeps of its runs beside the metrics. Earlier files have none of it.
void read_observations(const JsonReader& json, Row& row) {
  const double most = metric("total_latency_s").most();
  if (json.has("step_s"))
    for (const JsonReader& run : json.at("step_s").items()) row.step_s.push_back(run.numbers(0, most));
  if (json.has("losses")) {
    const JsonReader losses = json.at("losses"), size = losses.at("tokens_per_block"),
                     sums = losses.at("sums");
    LossBlocks blocks{losses.at("tokens").integer(0, kMostTokens), sums.numbers(0, most)};
    if (size.count<std::int64_t>() != LossBlocks::kTokens)
      size.refuse(fmt::format("{}, as this program writes it", LossBlocks::kTokens));
    const auto expected = (blocks.tokens + LossBlocks::kTokens - 1) / LossBlocks::kTokens;
    if (static_cast<std::int64_t>(blocks.sums.size()) != expected)
      sums.fail(fmt::format("expected {} blocks for {} tokens, found {}", expected, blocks.tokens,
                            blocks.sums.size()));
    row.losses = std::move(blocks);
  }
  if (json.has("answers")) row.answers = task_answers_from_json(json.at("answers"));
  if (json.has("absent"))
    for (const auto& [tag, reason] : json.at("absent").members()) {
      if (find_metric(current_tag(tag)) == nullptr) reason.fail("this program knows no metric of this name");
      row.absent.emplace_back(current_tag(tag), reason.text());
    }
}

// "doubts" is what earlier versions called warnings.
std::vector<Warning> read_warnings(const JsonReader& json) {
  return warnings_from_json(json.has("doubts") && !json.has("warnings") ? json.at("doubts")
                                                                        : json.at("warnings"));
}

// The effect on the logarithm of a ratio.
OrderedJson effect_to_json(const std::optional<statistics::Effect>& effect) {
  if (!effect) return nullptr;
  return {{"log_ratio", effect->estimate},
          {"standard_error", effect->error},
          {"degrees", effect->degrees},
          {"replicates", effect->replicates}};
}

statistics::Effect effect_from_json(const JsonReader& json) {
  return {json.at("log_ratio").number(),
          json.at("standard_error").number(0, std::numeric_limits<double>::max()),
          json.at("degrees").number(0, std::numeric_limits<double>::max()),
          json.at("replicates").count<std::size_t>()};
}

// Files of schema 1 tell by the label alone what generated a text: "nf4, prompt 1", "edge prompt: code".
void read_generator(const JsonReader& json, GeneratedText& text) {
  if (json.has("scenario")) {
    text.scenario = entry_at(scenarios(), json.at("scenario")).value;
    text.generated_by = json.at("generated_by").text();
    return;
  }
  constexpr std::string_view kEdge = "edge prompt: ";
  const std::size_t prompt = text.label.rfind(", prompt ");
  text.scenario = text.label.starts_with(kEdge) ? Scenario::edge_prompts
                  : prompt != std::string::npos ? Scenario::tradeoff
                                                : Scenario::baseline;
  text.generated_by = text.scenario == Scenario::edge_prompts ? text.label.substr(kEdge.size())
                                                              : text.label.substr(0, prompt);
}

GeneratedText generated_text_from_json(const JsonReader& json) {
  GeneratedText text{json.at("label").text(), json.at("prompt").text(), json.at("text").text(),
                     json.at("prompt_ids").whole_numbers<int>(), json.at("ids").whole_numbers<int>()};
  read_generator(json, text);
  return text;
}

OrderedJson text_to_json(const GeneratedText& t) {
  return {{"label", t.label},
          {"prompt", t.prompt},
          {"text", t.text},
          {"prompt_ids", t.prompt_ids},
          {"ids", t.ids},
          {"scenario", name_of(t.scenario)},
          {"generated_by", t.generated_by}};
}

// What files of earlier versions of the program do not have.
void read_later_keys(const JsonReader& json, ResultSet& results) {
  if (json.has("run_id")) results.run_id = json.at("run_id").text();
  if (json.has("other_models"))
    for (const JsonReader& other : json.at("other_models").items())
      results.other_models.push_back({other.at("name").text(), other.at("sha256").text()});
  if (json.has("interleave_id")) results.interleave_id = json.at("interleave_id").text();
  if (json.has("configuration")) results.configuration = pairs_from_json(json.at("configuration"));
  if (json.has("comparisons"))
    for (const JsonReader& c : json.at("comparisons").items())
      results.comparisons.push_back(comparison_from_json(c));
  if (json.has("other_comparisons"))
    for (const JsonReader& c : json.at("other_comparisons").items())
      results.other_comparisons.push_back(comparison_from_json(c));
  if (json.has("audit")) results.audit = audit_rows_from_json(json.at("audit"));
  // Earlier versions took runs of one process for replicates: their noise says nothing about processes.
  if (json.has("noise") && json.at("noise").has("between_processes"))
    results.noise = noise_from_json(json.at("noise"));
  if (json.has("budget")) results.choice = choice_from_json(json.at("budget"));
  if (json.has("limits")) results.limits = limits_from_json(json.at("limits"));
  if (json.has("left_out"))
    for (const JsonReader& one : json.at("left_out").items())
      results.left_out.push_back(left_out_from_json(one));
  if (json.has("findings"))
    for (const JsonReader& finding : json.at("findings").items())
      results.findings.push_back(finding_from_json(finding));
  else if (json.has("remarks"))
    for (std::string& text : json.at("remarks").texts())
      results.findings.emplace_back(StatedFinding{std::move(text)});
}

ResultSet result_set_from_json(const JsonReader& json) {
  ResultSet results;
  results.created = json.at("created").text();
  results.command = json.at("command").text();
  results.status = entry_at(run_statuses(), json.at("status")).value;
  const JsonReader environment = json.at("environment"), build = environment.at("build");
  results.build = {build.at("version").text(), build.at("compiler").text(), build.at("type").text()};
  results.machine = machine_from_json(environment.at("machine"));
  results.model = model_facts_from_json(json.at("model"));
  for (const JsonReader& row : json.at("rows").items()) results.rows.push_back(row_from_json(row));
  for (const JsonReader& text : json.at("texts").items())
    results.texts.push_back(generated_text_from_json(text));
  results.caption = json.at("caption").text();
  read_later_keys(json, results);
  return results;
}

}  // namespace

OrderedJson interval_to_json(const std::optional<statistics::Interval>& interval) {
  if (!interval) return nullptr;
  return {{"low", interval->low}, {"high", interval->high}, {"level", interval->level}};
}

std::optional<statistics::Interval> interval_from_json(const JsonReader& json) {
  return interval_within(json, 0, std::numeric_limits<double>::max());
}

OrderedJson to_json(const Comparison& c) {
  return {{"scenario", name_of(c.scenario)},
          {"subject", c.subject},
          {"baseline", c.baseline},
          {"metric", c.metric},
          {"ratio", c.ratio},
          {"interval", interval_to_json(c.interval)},
          {"margin", c.margin},
          {"verdict", name_of(c.verdict)},
          {"pairs", c.pairs},
          {"processes", c.processes},
          {"p_value", or_null(c.p_value)},
          {"effect", effect_to_json(c.effect)},
          {"chosen_among", c.chosen_among},
          {"detectable_difference", c.detectable_difference},
          {"more_needed", c.more_needed == kNotInReach ? OrderedJson(nullptr) : OrderedJson(c.more_needed)},
          {"seconds_each", c.seconds_each}};
}

Comparison comparison_from_json(const JsonReader& json) {
  Comparison c;
  c.subject = json.at("subject").text();
  c.baseline = json.at("baseline").text();
  c.metric = current_tag(json.at("metric").text());
  if (find_metric(c.metric) == nullptr) json.at("metric").fail("this program knows no metric of this name");
  c.ratio = json.at("ratio").number(0, std::numeric_limits<double>::max());
  c.interval = interval_from_json(json.at("interval"));
  c.margin = json.at("margin").number(0, std::numeric_limits<double>::max());
  c.pairs = json.at("pairs").count<int>();
  c.more_needed = json.at("more_needed").is_null() ? kNotInReach : json.at("more_needed").count<int>();
  // Earlier files have none of these.
  if (json.has("scenario")) c.scenario = entry_at(scenarios(), json.at("scenario")).value;
  if (json.has("processes")) c.processes = json.at("processes").count<int>();
  c.p_value = number_at(json, "p_value");
  if (json.has("chosen_among")) c.chosen_among = json.at("chosen_among").count<int>();
  if (json.has("effect")) c.effect = effect_from_json(json.at("effect"));
  c.detectable_difference = number_at(json, "detectable_difference").value_or(0);
  c.seconds_each = number_at(json, "seconds_each").value_or(0);
  c.verdict = entry_at(verdicts(), json.at("verdict")).value;
  return c;
}

OrderedJson to_json(const Row& row) {
  OrderedJson values = OrderedJson::object();
  for (const auto& [tag, value] : row.values) values[tag] = value_to_json(tag, value);
  OrderedJson json{{"scenario", name_of(row.scenario)},
                   {"label", row.label},
                   {"status", name_of(row.status)},
                   {"reason", row.reason},
                   {"parameters", pairs_to_json(row.parameters)},
                   {"setting", to_json(row.setting)},
                   {"values", values}};
  if (!row.places.empty()) json["samples_from"] = places_to_json(row.places);
  if (!row.step_s.empty()) json["step_s"] = row.step_s;
  if (row.losses)
    json["losses"] = {{"tokens", row.losses->tokens},
                      {"tokens_per_block", LossBlocks::kTokens},
                      {"sums", row.losses->sums}};
  if (row.answers) json["answers"] = to_json(*row.answers);
  if (!row.absent.empty()) json["absent"] = pairs_to_json(row.absent);
  json["warnings"] = to_json(row.warnings);
  return json;
}

Row row_from_json(const JsonReader& json) {
  Row row;
  row.scenario = entry_at(scenarios(), json.at("scenario")).value;
  row.label = json.at("label").text();
  row.status = entry_at(row_statuses(), json.at("status")).value;
  row.reason = json.at("reason").text();
  row.parameters = pairs_from_json(json.at("parameters"));
  row.setting =
      json.has("setting") ? setting_from_json(json.at("setting")) : setting_of_parameters(row.parameters);
  for (const auto& [tag, value] : json.at("values").members()) {
    const Metric* what = find_metric(current_tag(tag));
    if (what == nullptr) value.fail("this program knows no metric of this name");
    row.values.emplace_back(std::string(what->tag), value_from_json(*what, value));
  }
  if (json.has("samples_from")) row.places = places_from_json(json.at("samples_from"));
  read_observations(json, row);
  row.warnings = read_warnings(json);
  return row;
}

OrderedJson to_json(const ResultSet& results) {
  OrderedJson rows = OrderedJson::array(), texts = OrderedJson::array();
  for (const Row& row : results.rows) rows.push_back(to_json(row));
  for (const GeneratedText& text : results.texts) texts.push_back(text_to_json(text));
  OrderedJson comparisons = OrderedJson::array(), others = OrderedJson::array();
  for (const Comparison& comparison : results.comparisons) comparisons.push_back(to_json(comparison));
  for (const Comparison& comparison : results.other_comparisons) others.push_back(to_json(comparison));
  OrderedJson findings = OrderedJson::array();
  for (const Finding& finding : results.findings) findings.push_back(to_json(finding));
  const OrderedJson build{
      {"version", results.build.version}, {"compiler", results.build.compiler}, {"type", results.build.type}};
  OrderedJson json{{"schema", "assay.results"},
                   {"schema_version", ResultSet::kSchemaVersion},
                   {"run_id", results.run_id},
                   {"interleave_id", results.interleave_id},
                   {"created", results.created},
                   {"command", results.command},
                   {"status", name_of(results.status)},
                   {"environment", {{"build", build}, {"machine", to_json(results.machine)}}},
                   {"configuration", pairs_to_json(results.configuration)},
                   {"model", to_json(results.model)},
                   {"caption", results.caption},
                   {"rows", rows},
                   {"texts", texts},
                   {"noise", results.noise ? to_json(*results.noise) : OrderedJson(nullptr)},
                   {"comparisons", comparisons},
                   {"other_comparisons", others},
                   {"audit", to_json(results.audit)},
                   {"findings", findings}};
  if (results.choice) json["budget"] = to_json(*results.choice);
  if (results.limits) json["limits"] = to_json(*results.limits);
  for (const LeftOut& one : results.left_out) json["left_out"].push_back(to_json(one));
  for (const OtherModel& other : results.other_models)
    json["other_models"].push_back({{"name", other.name}, {"sha256", other.sha256}});
  return json;
}

ResultSet results_from_json(const OrderedJson& json, const std::string& where) {
  const JsonReader reader(json, where);
  if (!json.is_object() || !reader.has("schema") || json["schema"] != "assay.results")
    throw Error("{}: not a results file: expected \"schema\": \"assay.results\"", where);
  if (!reader.has("schema_version")) reader.fail("the key 'schema_version' is missing");
  const JsonReader version = reader.at("schema_version");
  const OrderedJson& number = json["schema_version"];
  if (!number.is_number_integer() || number < 1 || number > ResultSet::kSchemaVersion)
    version.refuse(fmt::format("1 or {}, the versions that this program reads", ResultSet::kSchemaVersion));
  ResultSet results = result_set_from_json(reader);
  use_current_names(results);
  return results;
}

}  // namespace assay
