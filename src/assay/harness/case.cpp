#include "assay/harness/case.h"

#include <numeric>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/config/fields.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

OrderedJson prompt_to_json(const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return std::get<std::vector<TokenId>>(prompt);
}

Prompt prompt_from_json(const OrderedJson& json) {
  if (json.is_string()) return json.get<std::string>();
  return json.get<std::vector<TokenId>>();
}

std::string_view name_of(Truncation truncation) {
  return truncation == Truncation::none ? "" : truncation == Truncation::left ? "left" : "right";
}

OrderedJson disturbance_to_json(const Disturbance& d) {
  return {d.seconds,         d.involuntary_switches, d.stolen_cpu_s, d.other_cpu_s,
          d.throttle_events, d.quota_wait_s,         d.lowest_mhz,   d.highest_mhz};
}

Disturbance disturbance_from_json(const JsonReader& json) {
  Disturbance d;
  d.seconds = json.at(0).number();
  d.involuntary_switches = json.at(1).whole<std::int64_t>();
  d.stolen_cpu_s = json.at(2).number();
  d.other_cpu_s = json.at(3).number();
  d.throttle_events = json.at(4).whole<std::int64_t>();
  d.quota_wait_s = json.at(5).number();
  d.lowest_mhz = json.at(6).number();
  d.highest_mhz = json.at(7).number();
  return d;
}

}  // namespace

std::string Case::key() const {
  return fmt::format("{} | {} | {}", name_of(scenario), label, configuration.key());
}

std::string Case::work() const {
  OrderedJson json = OrderedJson::array();
  for (const Prompt& prompt : prompts) json.push_back(prompt_to_json(prompt));
  return fmt::format("{} {} {}", new_tokens, batch_size,
                     json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

double Sample::decode_s() const {
  return std::accumulate(step_s.begin(), step_s.end(), 0.0);
}

OrderedJson to_json(const Case& c) {
  OrderedJson prompts = OrderedJson::array();
  for (const Prompt& prompt : c.prompts) prompts.push_back(prompt_to_json(prompt));
  return {{"scenario", name_of(c.scenario)},
          {"label", c.label},
          {"configuration", to_json(c.configuration)},
          {"prompts", prompts},
          {"batch_size", c.batch_size},
          {"new_tokens", c.new_tokens},
          {"cache", c.uses_cache},
          {"padding", name_of(c.padding)},
          {"truncate", name_of(c.truncation)}};
}

Case case_from_json(const OrderedJson& json) {
  Case c;
  c.scenario = entry_at(scenarios(), JsonReader(json).at("scenario")).value;
  c.label = json.at("label").get<std::string>();
  c.configuration = run_config_from_json(json.at("configuration"));
  for (const OrderedJson& prompt : json.at("prompts")) c.prompts.push_back(prompt_from_json(prompt));
  c.batch_size = json.at("batch_size").get<std::int64_t>();
  c.new_tokens = json.at("new_tokens").get<std::int64_t>();
  c.uses_cache = json.at("cache").get<bool>();
  c.padding = padding_from_name(json.at("padding").get<std::string>());
  c.truncation = truncation_from_name(json.at("truncate").get<std::string>());
  return c;
}

OrderedJson to_json(const Sample& s) {
  return {{"total_latency_s", s.total_latency_s},
          {"end_to_end_s", s.end_to_end_s},
          {"tokenize_s", s.tokenize_s},
          {"prefill_s", s.prefill_s},
          {"sampling_s", s.sampling_s},
          {"detokenize_s", s.detokenize_s},
          {"first_token_s", s.first_token_s},
          {"step_s", s.step_s},
          {"counts", {s.sequences, s.batches, s.prompt_tokens, s.computed_prompt_tokens, s.new_tokens}},
          {"ids_hash", s.ids_hash},
          {"roof", {s.bytes, s.flops, s.roofline_s, s.roofline_gb_s, s.roofline_gflops, s.memory_bound_s}},
          {"disturbance", disturbance_to_json(s.disturbance)}};
}

Sample sample_from_json(const JsonReader& json) {
  Sample s;
  s.total_latency_s = json.at("total_latency_s").number();
  s.end_to_end_s = json.at("end_to_end_s").number();
  s.tokenize_s = json.at("tokenize_s").number();
  s.prefill_s = json.at("prefill_s").number();
  s.sampling_s = json.at("sampling_s").number();
  s.detokenize_s = json.at("detokenize_s").number();
  s.first_token_s = json.at("first_token_s").number();
  s.step_s = json.at("step_s").numbers();
  const JsonReader counts = json.at("counts");
  s.sequences = counts.at(0).whole<std::int64_t>();
  s.batches = counts.at(1).whole<std::int64_t>();
  s.prompt_tokens = counts.at(2).whole<std::int64_t>();
  s.computed_prompt_tokens = counts.at(3).whole<std::int64_t>();
  s.new_tokens = counts.at(4).whole<std::int64_t>();
  s.ids_hash = json.at("ids_hash").text();
  const JsonReader roofline = json.at("roof");
  s.bytes = roofline.at(0).number();
  s.flops = roofline.at(1).number();
  s.roofline_s = roofline.at(2).number();
  s.roofline_gb_s = roofline.at(3).number();
  s.roofline_gflops = roofline.at(4).number();
  s.memory_bound_s = roofline.at(5).number();
  s.disturbance = disturbance_from_json(json.at("disturbance"));
  return s;
}

OrderedJson to_json(const FirstRun& f) {
  OrderedJson parts = OrderedJson::array();
  for (const CaseProfile::Part& part : f.profile.parts)
    parts.push_back(
        OrderedJson{{"phase", part.phase}, {"seconds", part.seconds}, {"roof_s", part.roofline_s}});
  return {{"prompt_ids", f.prompt_ids},
          {"ids", f.ids},
          {"texts", f.texts},
          {"profile", parts},
          {"kv_cache_bytes", f.kv_cache_bytes},
          {"measured_memory_bytes", f.measured_memory_bytes},
          {"seconds", f.seconds}};
}

FirstRun first_run_from_json(const JsonReader& json) {
  FirstRun f;
  for (const JsonReader& ids : json.at("prompt_ids").items())
    f.prompt_ids.push_back(ids.whole_numbers<TokenId>());
  for (const JsonReader& ids : json.at("ids").items()) f.ids.push_back(ids.whole_numbers<TokenId>());
  f.texts = json.at("texts").texts();
  for (const JsonReader& part : json.at("profile").items())
    f.profile.parts.push_back(
        {part.at("phase").text(), part.at("seconds").number(), part.at("roof_s").number()});
  f.kv_cache_bytes = json.at("kv_cache_bytes").number();
  f.measured_memory_bytes = json.at("measured_memory_bytes").number();
  f.seconds = json.at("seconds").number();
  return f;
}

}  // namespace assay
