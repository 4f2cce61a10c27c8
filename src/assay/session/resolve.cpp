#include "assay/session/resolve.h"

#include <set>
#include <utility>

#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/checkpoint/source.h"
#include "assay/config/fields.h"
#include "assay/model/spec.h"
#include "assay/model/stored_quantization.h"

namespace assay {

namespace {

bool is_on_cpu(const Device& device) {
  return device.kind == Device::Kind::cpu;
}

// A CPU computes float16 in float32.
RunConfig as_it_runs(RunConfig config, const Device& device) {
  if (!is_on_cpu(device)) return config;
  if (config.precision == Preset::float16) config.precision = Preset::float32;
  if (config.dtype == DType::f16) config.dtype = DType::f32;
  return config;
}

// "32", of several formats "32 and 64": the activations that share a scale where they are int8.
std::string int8_groups_of(const Precision& precision) {
  std::set<std::int64_t> groups;
  for (const WeightFormat& format : precision.formats())
    if (holds_stored_scales(format))
      groups.insert(kInt8GroupOfStoredScales);
    else if (is_multiplied_as_bytes(format))
      groups.insert(format.inputs_per_scale);
  return fmt::format("{}", fmt::join(groups, " and "));
}

// The configuration's part of a label, with what the weights make of it.
std::string label_of_numbers(const RunConfig& config, const Precision& precision) {
  constexpr std::string_view kActivations = "activations int8";
  std::string label = config.label_of_numbers();
  const std::size_t at = label.find(kActivations);
  if (precision.has_int8_activations && at != std::string::npos)
    label.insert(at + kActivations.size(), " in groups of " + int8_groups_of(precision));
  return label;
}

// What the configuration makes of the precision.
void apply_config(ResolvedRun& run) {
  const RunConfig config = as_it_runs(run.asked, run.device);
  apply_to(run.dtype.precision, config);
  run.dtype.label += label_of_numbers(config, run.dtype.precision);
  if (is_on_cpu(run.device)) return;
  Precision& precision = run.dtype.precision;
  // What is not quantized is float16 on a GPU, as Transformers and bitsandbytes have it.
  const bool is_usual = takes_dtype(precision) && !config.dtype;
  if (precision.name != "float16" && config.dtype != DType::f16 && !is_usual) return;
  use_float16(precision);
  if (config.kv_cache) precision.kv_cache = *config.kv_cache;
  if (is_usual) run.dtype.label += ", dtype float16";
}

// The backend's part of a configuration.
BackendOptions backend_options(const RunConfig& config, bool pins_caller) {
  BackendOptions options;
  options.threads = config.threads.value_or(0);
  options.is_isa_forced = config.isa.has_value();
  options.isa = config.isa.value_or(Isa::scalar);
  options.processors = config.cpu_mask;
  options.cuda_gemm = config.cuda_gemm;
  options.tune = config.tune;
  options.pins_caller = pins_caller;
  return options;
}

// What says how to quantize, and changes nothing of weights that are quantized already.
constexpr const char* kOfQuantizing[] = {"recipe",      "include",    "exclude",
                                         "calibration", "calibrator", "smooth_quant"};

// What was asked for goes with a checkpoint that is quantized already.
void check_asked(const RunConfig& config, const Precision& stored, const std::string& candidate) {
  const auto is_other = [&](const Precision& wanted) {
    return wanted.weights != stored.weights || wanted.input_scale != stored.input_scale ||
           !stored.stored_formats.empty();
  };
  if (config.precision && is_other(precision_of(*config.precision)))
    throw Error("{}: the model is quantized already, {}: expected that precision or none, found {}",
                candidate, stored.name, name_of(*config.precision));
  for (const char* key : kOfQuantizing)
    if (field(key).is_set(config))
      throw Error("{}: the model is quantized already, {}: {} changes nothing", candidate, stored.name, key);
  if (stored.is_lm_head_stored && config.quantize_head)
    throw Error("{}: the LM head is quantized already, as {}", candidate, stored.name);
}

bool is_precision_named(const RunConfig& config) {
  return config.precision || config.recipe;
}

}  // namespace

std::optional<Preset> ResolvedRun::preset() const {
  if (dtype.precision.is_stored || dtype.precision.recipe) return std::nullopt;
  return preset_from_name(dtype.precision.name);
}

ResolvedDtype resolve_dtype(std::string_view name, const Device& device) {
  ResolvedDtype resolved;
  resolved.precision = precision_from_name(name == kAutoPrecision ? "float32" : name);
  resolved.label = resolved.precision.name;
  if (resolved.precision.name != "float16") return resolved;
  if (!is_on_cpu(chosen_device(device))) {
    use_float16(resolved.precision);
    return resolved;
  }
  resolved.precision = precision_from_name("float32");
  resolved.label = "float32 (forced on CPU)";
  return resolved;
}

ResolvedRun resolve(const RunConfig& config, const ResolveOptions& options) {
  check_values(config);
  ResolvedRun run;
  run.asked = config;
  if (options.backend != nullptr) run.asked.device = options.backend->device();
  run.device = device_of(run.asked);
  run.backend = backend_options(config, options.pins_caller);
  if (config.recipe && !config.precision) {
    run.dtype.precision = precision_of(*config.recipe);
    run.dtype.label = run.dtype.precision.name;
  } else {
    run.dtype = resolve_dtype(name_of(config.precision.value_or(Preset::float32)), run.device);
  }
  if (is_precision_named(config)) apply_config(run);  // else the checkpoint may be quantized
  return run;
}

ResolvedRun resolve(ResolvedRun run, const ModelSource& source, const ModelSpec& spec,
                    const std::string& candidate) {
  std::optional<Precision> stored = stored_precision(source, spec);
  // Blocks that stand for numbers are quantized anew where another precision is asked for.
  if (stored && is_precision_named(run.asked) && can_be_dequantized(source)) return run;
  if (stored) {
    check_asked(run.asked, *stored, candidate);
    run.dtype = {*stored, stored->name, {}};
  }
  if (stored || !is_precision_named(run.asked)) apply_config(run);
  return run;
}

std::vector<Warning> warnings_of(const ResolvedRun& run, const Backend& backend) {
  std::vector<Warning> warnings = run.dtype.warnings;
  const Precision& precision = run.dtype.precision;
  const bool runs_on_cpu = is_on_cpu(backend.device());
  if (precision.allows_non_finite && precision.is_quantized() && !precision.is_stored)
    warnings.push_back({WarningKind::non_finite_weights,
                        "NaN and infinity among the weights are quantized as 0, as asked for"});
  if (precision.has_any(formats::kBfloat16) && !backend.multiplies_bfloat16())
    warnings.push_back({WarningKind::bfloat16_emulated,
                        "weights, keys and values are stored in bfloat16, but without AMX or "
                        "AVX-512 BF16 the arithmetic is float32"});
  if (runs_on_cpu && precision.has_any(is_multiplied_as_bytes) && precision.dtype == formats::kBfloat16 &&
      !precision.has_int8_activations)
    warnings.push_back(
        {WarningKind::mixed_arithmetic,
         fmt::format("4-bit weights are multiplied in {} during prefill but by 8-bit activations during "
                     "decode, so perplexity scored through prefill does not cover decode",
                     backend.multiplies_bfloat16() ? "bfloat16" : "float32")});
  if (const auto why = why_tiles_are_refused(); runs_on_cpu && why && !run.asked.isa)
    warnings.push_back(
        {WarningKind::tiles_refused, fmt::format("{}, so {} kernels run instead", *why, backend.kernels())});
  const std::size_t masked = run.asked.cpu_mask.size();
  const auto processors = static_cast<int>(masked == 0 ? allowed_processors().size() : masked);
  if (backend.threads() > processors)
    warnings.push_back({WarningKind::too_many_threads,
                        fmt::format("{} threads on {} processor{} wait for each other", backend.threads(),
                                    processors, processors == 1 ? "" : "s"),
                        static_cast<double>(backend.threads()), static_cast<double>(processors)});
  return warnings;
}

Device device_of(const RunConfig& config) {
  const Device device = config.device.value_or(Device{Device::Kind::automatic});
  return device.kind == Device::Kind::automatic && asks_for_cpu(config) ? Device{} : chosen_device(device);
}

bool asks_for_cpu(const RunConfig& config) {
  return config.isa || !config.cpu_mask.empty();
}

Preset baseline_preset(const Device& device) {
  return is_on_cpu(device) ? Preset::float32 : Preset::float16;
}

RunConfig as_stored(RunConfig config, const Precision& stored) {
  config.precision.reset();
  for (const char* key : kOfQuantizing) field(key).clear(config);
  for (const Field& each : fields())
    if (each.applies && !each.applies(stored)) each.clear(config);
  if (stored.is_lm_head_stored) config.quantize_head.reset();
  return config;
}

RunConfig resolved_for_device(RunConfig config) {
  const Device device = device_of(config);
  return as_it_runs(std::move(config), device);
}

}  // namespace assay
