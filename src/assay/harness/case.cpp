#include "assay/harness/case.h"

#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"

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

std::string Configuration::label() const {
  std::string text = precision == kAutoPrecision ? "as stored" : precision;
  if (!quantized_head.empty()) text += "+head:" + quantized_head;
  if (screens_head) text += "+screen";
  if (!remainder.empty()) text += ", remainder " + remainder;
  if (!kv_cache.empty()) text += ", KV " + kv_cache;
  if (!float32_matmul.empty()) text += ", products " + float32_matmul;
  if (outlier_threshold >= 0) text += fmt::format(", threshold {}", outlier_threshold);
  if (!input_scale.empty()) text += ", input scale " + input_scale;
  if (smoothing >= 0) text += fmt::format(", SmoothQuant {}", smoothing);
  if (!calibrator.empty()) text += ", " + calibrator;
  if (!modules.include.empty()) text += fmt::format(", only {}", fmt::join(modules.include, " "));
  if (!modules.exclude.empty()) text += fmt::format(", without {}", fmt::join(modules.exclude, " "));
  if (!isa.empty()) text += ", " + isa;
  if (threads > 0) text += fmt::format(", {} thread{}", threads, threads == 1 ? "" : "s");
  if (replica > 0) text += " (again)";
  return text;
}

LoadOptions Configuration::load_options() const {
  LoadOptions options;
  options.backend.threads = threads;
  options.backend.pins_caller = true;
  if (!cpu_mask.empty()) options.backend.processors = processors_of_mask(cpu_mask);
  if (!isa.empty()) {
    options.backend.isa = isa_from_name(isa);
    options.backend.is_isa_forced = true;
  }
  options.kv_cache = kv_cache;
  options.float32_matmul = float32_matmul;
  options.remainder = remainder;
  options.quantized_head = quantized_head;
  options.outlier_threshold = outlier_threshold;
  options.input_scale = input_scale;
  options.calibration = calibration;
  options.calibrator = calibrator;
  options.smoothing = smoothing;
  options.modules = modules;
  options.allows_non_finite = allows_non_finite;
  options.screens_head = screens_head;
  return options;
}

Configuration configuration_from_text(const std::string& text, const Configuration& base) {
  Configuration configuration = base;
  if (text == kAutoPrecision) {
    configuration.precision = text;
    return configuration;
  }
  const std::size_t plus = text.find('+');
  if (plus == 0) throw UsageError("--precision: expected a name before +head, found '{}'", text);
  const Precision precision = precision_from_name(text.substr(0, plus));
  configuration.precision = precision.name;
  if (!precision.is_quantized()) {
    configuration.remainder.clear();
    configuration.quantized_head.clear();
    configuration.outlier_threshold = -1;
    configuration.modules = {};
    configuration.allows_non_finite = false;
  }
  if (precision.weights != WeightFormat::llm_int8) configuration.outlier_threshold = -1;
  if (precision.weights != WeightFormat::int8) configuration.smoothing = -1;
  if (!takes_input_scale(precision)) configuration.input_scale.clear();
  if (precision.inputs != InputScale::calibrated) configuration.calibrator.clear();
  if (configuration.smoothing < 0 && !precision.needs_calibration()) configuration.calibration.clear();
  if (precision.name != "float32") configuration.float32_matmul.clear();
  // What is quantized, or a sum of parts, needs no screen.
  if (!configuration.quantized_head.empty() || !configuration.float32_matmul.empty() ||
      plus != std::string::npos)
    configuration.screens_head = false;
  if (plus == std::string::npos) return configuration;
  const std::string suffix = text.substr(plus + 1);
  const auto is_head = [&](const char* with) { return suffix == std::string("head") + with; };
  if (!is_head("") && !is_head(":int8") && !is_head(":nf4") && !is_head(":fp4"))
    throw UsageError(
        "--precision: expected {0}+head, {0}+head:int8, {0}+head:nf4 or {0}+head:fp4, found '{1}'",
        precision.name, text);
  if (!precision.is_quantized())
    throw UsageError("--precision: expected a quantized precision before +head, found '{}'", text);
  const bool is_nf4 = precision.name.rfind("nf4", 0) == 0, is_fp4 = precision.name.rfind("fp4", 0) == 0;
  const std::string own = is_nf4 ? "nf4" : is_fp4 ? "fp4" : "int8";
  configuration.quantized_head = suffix == "head" ? own : suffix.substr(5);
  return configuration;
}

void require_used(const Configuration& base, std::span<const Configuration> made) {
  struct Flag {
    const char* name;
    bool (*is_set)(const Configuration&);
  };
  constexpr Flag kFlags[] = {
      {"--remainder", [](const Configuration& c) { return !c.remainder.empty(); }},
      {"--quantize-head", [](const Configuration& c) { return !c.quantized_head.empty(); }},
      {"--llm-int8-threshold", [](const Configuration& c) { return c.outlier_threshold >= 0; }},
      {"--include", [](const Configuration& c) { return !c.modules.include.empty(); }},
      {"--exclude", [](const Configuration& c) { return !c.modules.exclude.empty(); }},
      {"--allow-non-finite", [](const Configuration& c) { return c.allows_non_finite; }},
      {"--smooth-quant", [](const Configuration& c) { return c.smoothing >= 0; }},
      {"--input-scale", [](const Configuration& c) { return !c.input_scale.empty(); }},
      {"--calibration", [](const Configuration& c) { return !c.calibration.empty(); }},
      {"--calibrator", [](const Configuration& c) { return !c.calibrator.empty(); }},
      {"--float32-matmul", [](const Configuration& c) { return !c.float32_matmul.empty(); }},
      {"--screen-head", [](const Configuration& c) { return c.screens_head; }},
  };
  std::vector<std::string> names;
  for (const Configuration& configuration : made) names.push_back(configuration.label());
  for (const Flag& flag : kFlags)
    if (flag.is_set(base) && std::none_of(made.begin(), made.end(), flag.is_set))
      throw UsageError("{}: expected a precision that it applies to, found {}", flag.name,
                       fmt::join(names, "; "));
}

std::string Case::key() const {
  return fmt::format("{} | {} | {}", name_of(scenario), label, configuration.label());
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

OrderedJson to_json(const Configuration& c) {
  return {{"precision", c.precision},
          {"remainder", c.remainder},
          {"quantize_head", c.quantized_head},
          {"kv_cache", c.kv_cache},
          {"float32_matmul", c.float32_matmul},
          {"isa", c.isa},
          {"cpu_mask", c.cpu_mask},
          {"device", c.device},
          {"threads", c.threads},
          {"llm_int8_threshold", c.outlier_threshold},
          {"input_scale", c.input_scale},
          {"calibration", c.calibration},
          {"calibrator", c.calibrator},
          {"smooth_quant", c.smoothing},
          {"include", c.modules.include},
          {"exclude", c.modules.exclude},
          {"allow_non_finite", c.allows_non_finite},
          {"screen_head", c.screens_head},
          {"replica", c.replica}};
}

Configuration configuration_from_json(const OrderedJson& json) {
  Configuration c;
  c.precision = json.at("precision").get<std::string>();
  c.remainder = json.at("remainder").get<std::string>();
  c.quantized_head = json.at("quantize_head").get<std::string>();
  c.kv_cache = json.at("kv_cache").get<std::string>();
  c.float32_matmul = json.at("float32_matmul").get<std::string>();
  c.isa = json.at("isa").get<std::string>();
  c.cpu_mask = json.at("cpu_mask").get<std::string>();
  c.device = json.at("device").get<std::string>();
  c.threads = json.at("threads").get<int>();
  c.outlier_threshold = json.at("llm_int8_threshold").get<double>();
  c.input_scale = json.at("input_scale").get<std::string>();
  c.calibration = json.at("calibration").get<std::string>();
  c.calibrator = json.at("calibrator").get<std::string>();
  c.smoothing = json.at("smooth_quant").get<double>();
  c.modules.include = json.at("include").get<std::vector<std::string>>();
  c.modules.exclude = json.at("exclude").get<std::vector<std::string>>();
  c.allows_non_finite = json.at("allow_non_finite").get<bool>();
  c.screens_head = json.at("screen_head").get<bool>();
  c.replica = json.at("replica").get<int>();
  return c;
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
  c.configuration = configuration_from_json(json.at("configuration"));
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
          {"roof", {s.bytes, s.flops, s.roof_s, s.roof_gb_s, s.roof_gflops, s.memory_bound_s}},
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
  const JsonReader roof = json.at("roof");
  s.bytes = roof.at(0).number();
  s.flops = roof.at(1).number();
  s.roof_s = roof.at(2).number();
  s.roof_gb_s = roof.at(3).number();
  s.roof_gflops = roof.at(4).number();
  s.memory_bound_s = roof.at(5).number();
  s.disturbance = disturbance_from_json(json.at("disturbance"));
  return s;
}

OrderedJson to_json(const FirstRun& f) {
  OrderedJson parts = OrderedJson::array();
  for (const CaseProfile::Part& part : f.profile.parts)
    parts.push_back(OrderedJson{{"phase", part.phase}, {"seconds", part.seconds}, {"roof_s", part.roof_s}});
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
