#include "assay/harness/case_json.h"

#include <nlohmann/json.hpp>

#include "assay/config/fields_json.h"
#include "assay/results/named_json.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

// Far beyond any run: what a file holds above it is damaged.
constexpr double kMaxSeconds = 1e9, kMaxCount = 1e30;

struct RenamedKey {
  std::string_view name, earlier;
};
constexpr RenamedKey kRenamedKeys[] = {{"roofline", "roof"}, {"roofline_s", "roof_s"}};

// What stands under a key or, in the message of an earlier build, under its earlier name.
JsonReader at_renamed(const JsonReader& json, std::string_view name) {
  for (const RenamedKey& key : kRenamedKeys)
    if (key.name == name && !json.has(name) && json.has(key.earlier)) return json.at(key.earlier);
  return json.at(name);
}

OrderedJson prompt_to_json(const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return std::get<std::vector<TokenId>>(prompt);
}

Prompt prompt_from_json(const JsonReader& json) {
  if (json.is_text()) return json.text();
  if (!json.is_array()) json.refuse("a text or a list of token ids");
  return json.whole_numbers<TokenId>();
}

OrderedJson disturbance_to_json(const Disturbance& d) {
  return {d.seconds,          d.involuntary_switches, d.stolen_cpu_s, d.other_cpu_s, d.throttle_events,
          d.quota_wait_s,     d.lowest_mhz,           d.highest_mhz,  d.watched_s,   d.watched_stolen_cpu_s,
          d.processor_wait_s, d.major_faults,         d.minor_faults, d.migrations};
}

Disturbance disturbance_from_json(const JsonReader& json) {
  Disturbance d;
  d.seconds = json.at(0).number(0, kMaxSeconds);
  d.involuntary_switches = json.at(1).whole<std::int64_t>();
  d.stolen_cpu_s = json.at(2).number();
  d.other_cpu_s = json.at(3).number();
  d.throttle_events = json.at(4).whole<std::int64_t>();
  d.quota_wait_s = json.at(5).number();
  d.lowest_mhz = json.at(6).number();
  d.highest_mhz = json.at(7).number();
  d.watched_s = json.at(8).number(0, kMaxSeconds);
  d.watched_stolen_cpu_s = json.at(9).number(0, kMaxSeconds);
  d.processor_wait_s = json.at(10).number(0, kMaxSeconds);
  d.major_faults = json.at(11).count<std::int64_t>();
  d.minor_faults = json.at(12).count<std::int64_t>();
  d.migrations = json.at(13).count<std::int64_t>();
  return d;
}

OrderedJson gpu_to_json(const std::optional<GpuUse>& use) {
  if (!use) return nullptr;
  return {use->lowest_mhz,         use->highest_mhz,         use->highest_celsius, use->mean_watts,
          use->was_slowed_by_heat, use->was_slowed_by_power, use->others};
}

std::optional<GpuUse> gpu_from_json(const JsonReader& json) {
  GpuUse use;
  use.lowest_mhz = json.at(0).number(0, kMaxCount);
  use.highest_mhz = json.at(1).number(0, kMaxCount);
  use.highest_celsius = json.at(2).number(0, kMaxCount);
  use.mean_watts = json.at(3).number(0, kMaxCount);
  use.was_slowed_by_heat = json.at(4).boolean();
  use.was_slowed_by_power = json.at(5).boolean();
  use.others = json.at(6).count<std::int64_t>();
  return use;
}

}  // namespace

void add_earlier_names(OrderedJson& message) {
  if (!message.is_structured()) return;
  for (OrderedJson& part : message) add_earlier_names(part);
  for (const RenamedKey& key : kRenamedKeys)
    if (message.is_object() && message.contains(key.name))
      message[std::string(key.earlier)] = OrderedJson(message[std::string(key.name)]);
}

OrderedJson to_json(const std::vector<Prompt>& prompts) {
  OrderedJson json = OrderedJson::array();
  for (const Prompt& prompt : prompts) json.push_back(prompt_to_json(prompt));
  return json;
}

std::vector<Prompt> prompts_from_json(const JsonReader& json) {
  std::vector<Prompt> prompts;
  for (const JsonReader& prompt : json.items()) prompts.push_back(prompt_from_json(prompt));
  return prompts;
}

OrderedJson to_json(const Case& c) {
  OrderedJson json = {{"scenario", name_of(c.scenario)},
                      {"label", c.label},
                      {"configuration", to_json(c.configuration)},
                      {"prompts", to_json(c.prompts)},
                      {"batch_size", c.batch_size},
                      {"new_tokens", c.new_tokens},
                      {"cache", c.uses_cache},
                      {"padding", name_of(c.padding)},
                      {"truncate", name_of(c.truncation)}};
  if (c.random_prompts)
    json["random_prompts"] = {{"sequences", c.random_prompts->sequences},
                              {"tokens", c.random_prompts->tokens},
                              {"depth", c.random_prompts->depth}};
  return json;
}

Case case_from_json(const JsonReader& json) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  Case c;
  c.scenario = entry_at(scenarios(), json.at("scenario")).value;
  c.label = json.at("label").text();
  c.configuration = run_config_from_json(json.at("configuration"));
  c.prompts = prompts_from_json(json.at("prompts"));
  c.batch_size = json.at("batch_size").integer(0, kMost);
  c.new_tokens = json.at("new_tokens").integer(1, kMost);
  c.uses_cache = json.at("cache").boolean();
  c.padding = padding_from_name(json.at("padding").text());
  c.truncation = truncation_from_name(json.at("truncate").text());
  if (json.has("random_prompts")) {
    const JsonReader random = json.at("random_prompts");
    c.random_prompts = RandomPrompts{.sequences = random.at("sequences").integer(1, kMost),
                                     .tokens = random.at("tokens").integer(1, kMost),
                                     .depth = random.at("depth").integer(0, kMost)};
  }
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
          {"first_tokenize_s", s.first_tokenize_s},
          {"energy_j", s.energy_j ? OrderedJson(*s.energy_j) : OrderedJson(nullptr)},
          {"energy_why_not", s.energy_why_not},
          {"gpu", gpu_to_json(s.gpu)},
          {"roofline_repeats", s.roofline_repeats},
          {"ids_hash", s.ids_hash},
          {"roofline",
           {s.bytes, s.flops, s.roofline_s, s.roofline_gb_s, s.roofline_gflops, s.memory_bound_s,
            s.round_trip_us}},
          {"disturbance", disturbance_to_json(s.disturbance)}};
}

Sample sample_from_json(const JsonReader& json) {
  Sample s;
  s.total_latency_s = json.at("total_latency_s").number(0, kMaxSeconds);
  s.end_to_end_s = json.at("end_to_end_s").number(0, kMaxSeconds);
  s.tokenize_s = json.at("tokenize_s").number(0, kMaxSeconds);
  s.prefill_s = json.at("prefill_s").number(0, kMaxSeconds);
  s.sampling_s = json.at("sampling_s").number(0, kMaxSeconds);
  s.detokenize_s = json.at("detokenize_s").number(0, kMaxSeconds);
  s.first_token_s = json.at("first_token_s").number(0, kMaxSeconds);
  s.step_s = json.at("step_s").numbers(0, kMaxSeconds);
  s.first_tokenize_s = json.at("first_tokenize_s").number(0, kMaxSeconds);
  if (json.has("energy_j")) s.energy_j = json.at("energy_j").number(0, kMaxCount);
  if (json.has("energy_why_not")) s.energy_why_not = json.at("energy_why_not").text();
  if (json.has("gpu")) s.gpu = gpu_from_json(json.at("gpu"));
  s.roofline_repeats = json.at("roofline_repeats").count<int>();
  const JsonReader counts = json.at("counts");
  s.sequences = counts.at(0).count<std::int64_t>();
  s.batches = counts.at(1).count<std::int64_t>();
  s.prompt_tokens = counts.at(2).count<std::int64_t>();
  s.computed_prompt_tokens = counts.at(3).count<std::int64_t>();
  s.new_tokens = counts.at(4).count<std::int64_t>();
  s.ids_hash = json.at("ids_hash").text();
  const JsonReader roofline = at_renamed(json, "roofline");
  s.bytes = roofline.at(0).number(0, kMaxCount);
  s.flops = roofline.at(1).number(0, kMaxCount);
  s.roofline_s = roofline.at(2).number(0, kMaxCount);
  s.roofline_gb_s = roofline.at(3).number(0, kMaxCount);
  s.roofline_gflops = roofline.at(4).number(0, kMaxCount);
  s.memory_bound_s = roofline.at(5).number(0, kMaxCount);
  s.round_trip_us = roofline.at(6).number(0, kMaxCount);
  s.disturbance = disturbance_from_json(json.at("disturbance"));
  return s;
}

OrderedJson to_json(const FirstRun& f) {
  OrderedJson parts = OrderedJson::array();
  for (const CaseProfile::Part& part : f.profile.parts)
    parts.push_back(
        OrderedJson{{"phase", part.phase}, {"seconds", part.seconds}, {"roofline_s", part.roofline_s}});
  return {{"prompt_ids", f.prompt_ids},
          {"ids", f.ids},
          {"texts", f.texts},
          {"profile", parts},
          {"kv_cache_bytes", f.kv_cache_bytes},
          {"measured_memory_bytes", f.measured_memory_bytes},
          {"rss_bytes", {f.peak_rss_bytes, f.current_rss_bytes}},
          {"device_used_bytes", f.device_used_bytes},
          {"seconds", f.seconds}};
}

FirstRun first_run_from_json(const JsonReader& json) {
  FirstRun f;
  for (const JsonReader& ids : json.at("prompt_ids").items())
    f.prompt_ids.push_back(ids.whole_numbers<TokenId>());
  for (const JsonReader& ids : json.at("ids").items()) f.ids.push_back(ids.whole_numbers<TokenId>());
  f.texts = json.at("texts").texts();
  for (const JsonReader& part : json.at("profile").items())
    f.profile.parts.push_back({part.at("phase").text(), part.at("seconds").number(-kMaxSeconds, kMaxSeconds),
                               at_renamed(part, "roofline_s").number(0, kMaxSeconds)});
  f.kv_cache_bytes = json.at("kv_cache_bytes").number(0, kMaxCount);
  f.measured_memory_bytes = json.at("measured_memory_bytes").number(-kMaxCount, kMaxCount);
  f.peak_rss_bytes = json.at("rss_bytes").at(0).number(0, kMaxCount);
  f.current_rss_bytes = json.at("rss_bytes").at(1).number(0, kMaxCount);
  if (json.has("device_used_bytes")) f.device_used_bytes = json.at("device_used_bytes").number(0, kMaxCount);
  f.seconds = json.at("seconds").number(0, kMaxSeconds);
  return f;
}

}  // namespace assay
