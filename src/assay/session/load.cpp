#include "assay/session/load.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/base/tokenizer_files.h"
#include "assay/config/fields.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/session/calibrate.h"
#include "assay/session/load_parts.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

// What the configuration makes of the precision.
void apply_config(ResolvedDtype& resolved, const RunConfig& config) {
  apply_to(resolved.precision, config);
  resolved.label += config.label_of_numbers();
  const bool is_on_cpu = device_of(config).kind == Device::Kind::cpu;
  if (!is_on_cpu && (resolved.precision.name == "float16" || config.dtype == DType::f16))
    use_float16(resolved.precision);
}

// The precision of a checkpoint that is quantized already, where it goes with what was asked for.
ResolvedDtype as_stored(const Precision& stored, const std::string& candidate, const RunConfig& config) {
  const auto is_other = [&](const Precision& wanted) {
    return wanted.weights != stored.weights || wanted.input_scale != stored.input_scale ||
           !stored.stored_formats.empty();
  };
  if (config.precision && is_other(precision_of(*config.precision)))
    throw Error("{}: the model is quantized already, {}: expected that precision or none, found {}",
                candidate, stored.name, name_of(*config.precision));
  for (const char* key : {"recipe", "include", "exclude", "calibration", "calibrator", "smooth_quant"})
    if (field(key).is_set(config))
      throw Error("{}: the model is quantized already, {}: {} changes nothing", candidate, stored.name, key);
  if (stored.is_lm_head_stored && config.quantize_head)
    throw Error("{}: the LM head is quantized already, as {}", candidate, stored.name);
  ResolvedDtype resolved{stored, stored.name, {}};
  apply_config(resolved, resolved_for_device(config));
  return resolved;
}

bool is_preset(const Precision& precision) {
  return !precision.is_stored && !precision.recipe;
}

void choose_pad_token(LoadedModel& loaded, const ModelSource& source) {
  // Padding is masked, but it must be a token of the model.
  const std::vector<TokenId>& ends = loaded.model->spec().end_tokens;
  const auto end_of_text = loaded.tokenizer != nullptr ? loaded.tokenizer->end_of_text() : std::nullopt;
  if (!ends.empty())
    loaded.pad_token = ends.front();
  else if (end_of_text && *end_of_text < loaded.model->spec().vocab)
    loaded.pad_token = *end_of_text;
  const JsonView json = source.config();
  if (json.has("pad_token_id")) {  // -1: none, in configurations of Llama
    const auto id = json.integer("pad_token_id", -1, loaded.model->spec().vocab - 1);
    if (id >= 0) loaded.pad_token = static_cast<TokenId>(id);
  }
}

// Runs the calibration's text, and says in `loaded` which it was.
Calibration calibrate_on_text(const std::shared_ptr<const ModelSource>& source, const Precision& precision,
                              const std::shared_ptr<Backend>& backend, const LoadOptions& options,
                              LoadedModel& loaded) {
  const std::optional<std::string>& given = loaded.config.calibration;
  const CalibrationText text = read_calibration(
      given ? std::filesystem::path(*given) : shipped_file("texts/calibrate.txt", options.data_folder),
      *loaded.tokenizer);
  const TimePoint begin = Clock::now();
  Calibration calibration = calibrate(source, backend, precision, text.ids);
  loaded.calibration_s = elapsed(begin, Clock::now()).value;
  loaded.calibration_sha256 = text.sha256;
  return calibration;
}

void warn_about_arithmetic(const Precision& precision, const RunConfig& config, const Backend& backend,
                           std::vector<Warning>& warnings) {
  if (precision.allows_non_finite && precision.is_quantized() && !precision.is_stored)
    warnings.push_back({WarningKind::non_finite_weights,
                        "NaN and infinity among the weights are quantized as 0, as asked for"});
  if (precision.has_any(formats::kBfloat16) && !backend.multiplies_bfloat16())
    warnings.push_back({WarningKind::bfloat16_emulated,
                        "weights, keys and values are stored in bfloat16, but without AMX or "
                        "AVX-512 BF16 the arithmetic is float32"});
  const bool is_on_cpu = backend.device().kind == Device::Kind::cpu;
  if (is_on_cpu && precision.has_any(is_four_bit) && precision.dtype == formats::kBfloat16 &&
      !precision.has_int8_activations)
    warnings.push_back(
        {WarningKind::mixed_arithmetic,
         fmt::format("4-bit weights are multiplied in {} during prefill but by 8-bit activations during "
                     "decode, so perplexity scored through prefill does not cover decode",
                     backend.multiplies_bfloat16() ? "bfloat16" : "float32")});
  if (const std::string why = why_tiles_are_refused(); is_on_cpu && !why.empty() && !config.isa)
    warnings.push_back(
        {WarningKind::tiles_refused, fmt::format("{}, so {} kernels run instead", why, backend.kernels())});
  const std::size_t masked = config.cpu_mask.size();
  const auto processors = static_cast<int>(masked == 0 ? allowed_processors().size() : masked);
  if (backend.threads() > processors)
    warnings.push_back({WarningKind::too_many_threads,
                        fmt::format("{} threads on {} processor{} wait for each other", backend.threads(),
                                    processors, processors == 1 ? "" : "s"),
                        static_cast<double>(backend.threads()), static_cast<double>(processors)});
}

LoadedModel load_on(const std::shared_ptr<const ModelSource>& source, const std::string& id,
                    const RunConfig& config, const std::shared_ptr<Backend>& backend,
                    const LoadOptions& options) {
  const ModelSpec spec = spec_from_source(*source);
  const ResolvedDtype dtype = precision_of(*source, spec, id, config);
  LoadedModel loaded;
  loaded.config = config;
  if (is_preset(dtype.precision)) loaded.config.precision = preset_from_name(dtype.precision.name);
  const bool calibrates = dtype.precision.needs_calibration() && !dtype.precision.is_stored;
  loaded.tokenizer = tokenizer_of(*source, options.needs_tokenizer || calibrates);
  if (dtype.precision.is_quantized() && coverage_of(plan_forward(spec, dtype.precision)).quantized == 0)
    throw Error("{}: {} quantizes nothing of this model", id, dtype.precision.name);
  Calibration calibration;
  if (dtype.precision.is_stored) loaded.calibration_sha256 = stored_calibration_sha256(*source);
  if (calibrates) calibration = calibrate_on_text(source, dtype.precision, backend, options, loaded);
  loaded.model = std::make_shared<Model>(
      Model::load(source, backend, dtype.precision, calibration, options.should_stop));
  loaded.id = id;
  loaded.dtype_label = dtype.label;
  loaded.warnings = dtype.warnings;
  for (const std::string& text : loaded.model->warnings())
    loaded.warnings.push_back({WarningKind::model_files, text});
  warn_about_arithmetic(dtype.precision, config, *backend, loaded.warnings);
  const std::int64_t vocab = loaded.model->spec().vocab;
  if (loaded.tokenizer != nullptr && loaded.tokenizer->vocab_size() > vocab)
    loaded.warnings.push_back(
        {WarningKind::tokenizer_too_large,
         fmt::format("the tokenizer knows {} tokens but the model only {}, so some texts cannot be run",
                     loaded.tokenizer->vocab_size(), vocab),
         static_cast<double>(loaded.tokenizer->vocab_size()), static_cast<double>(vocab)});
  choose_pad_token(loaded, *source);
  return loaded;
}

// What a configuration runs on, and itself as it runs there.
std::pair<RunConfig, std::shared_ptr<Backend>> placed(const RunConfig& config, const LoadOptions& options) {
  check_values(config);
  if (config.precision || config.recipe) {  // what does not go together is known before a model is read
    Precision precision = config.precision ? precision_of(*config.precision) : precision_of(*config.recipe);
    apply_to(precision, config);
  }
  RunConfig own = config;
  if (options.shared_backend != nullptr) {
    own.device = options.shared_backend->device();
    return {own, options.shared_backend};
  }
  BackendOptions of_backend = backend_options(config, options.pins_caller);
  if (options.constants != nullptr) of_backend.constants = *options.constants;
  return {own, make_backend(device_of(own), of_backend)};
}

}  // namespace

ResolvedDtype resolve_dtype(std::string_view name, const Device& device) {
  ResolvedDtype resolved;
  resolved.precision = precision_from_name(name == kAutoPrecision ? "float32" : name);
  resolved.label = resolved.precision.name;
  if (resolved.precision.name != "float16") return resolved;
  if (chosen_device(device).kind != Device::Kind::cpu) {
    use_float16(resolved.precision);
    return resolved;
  }
  resolved.precision = precision_from_name("float32");
  resolved.label = "float32 (forced on CPU)";
  return resolved;
}

std::string LoadedModel::load_line() const {
  return fmt::format("Loaded: {} | device={} | dtype={}", printable(id), model->backend().device().text(),
                     dtype_label);
}

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

Device device_of(const RunConfig& config) {
  const Device device = config.device.value_or(Device{Device::Kind::automatic});
  const bool wants_cpu = config.isa || !config.cpu_mask.empty();
  return device.kind == Device::Kind::automatic && wants_cpu ? Device{} : chosen_device(device);
}

Preset baseline_preset(const Device& device) {
  return device.kind == Device::Kind::cpu ? Preset::float32 : Preset::float16;
}

RunConfig resolved_for_device(RunConfig config) {
  if (device_of(config).kind != Device::Kind::cpu) return config;
  if (config.precision == Preset::float16) config.precision = Preset::float32;
  if (config.dtype == DType::f16) config.dtype = DType::f32;
  return config;
}

std::shared_ptr<const Tokenizer> tokenizer_of(const ModelSource& source, bool is_needed) {
  if (!is_needed && !source.has_tokenizer()) return nullptr;
  return std::make_shared<const Tokenizer>(Tokenizer::from_files(source.tokenizer_files()));
}

ResolvedDtype precision_of(const ModelSource& source, const ModelSpec& spec, const std::string& candidate,
                           const RunConfig& config) {
  if (const auto stored = stored_precision(source, spec)) return as_stored(*stored, candidate, config);
  ResolvedDtype resolved;
  if (config.recipe) {
    resolved.precision = precision_of(*config.recipe);
    resolved.label = resolved.precision.name;
  } else {
    resolved = resolve_dtype(name_of(config.precision.value_or(Preset::float32)), device_of(config));
  }
  apply_config(resolved, resolved_for_device(config));
  return resolved;
}

std::vector<std::string> candidates_from_text(std::string_view list) {
  std::error_code code;
  if (std::filesystem::is_directory(list, code)) return {std::string(list)};
  std::vector<std::string> candidates;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view part = list.substr(begin, end - begin);
    if (const std::size_t first = part.find_first_not_of(' '); first != std::string_view::npos)
      candidates.emplace_back(part.substr(first, part.find_last_not_of(' ') - first + 1));
    begin = end + 1;
  }
  if (candidates.empty()) candidates.emplace_back();
  return candidates;
}

LoadedModel load_model_and_tokenizer(const std::vector<std::string>& candidates, const RunConfig& config,
                                     const LoadOptions& options) {
  const auto [own, backend] = placed(config, options);
  return first_candidate(candidates, [&, &own = own, &backend = backend](const std::string& candidate) {
    return load_on(open_source(locate_model(candidate, options.data_folder)), candidate, own, backend,
                   options);
  });
}

LoadedModel load_source(const std::shared_ptr<const ModelSource>& source, const RunConfig& config,
                        const LoadOptions& options) {
  const auto [own, backend] = placed(config, options);
  return load_on(source, source->path().string(), own, backend, options);
}

LoadedModel load_model_and_tokenizer(const std::vector<std::string>& candidates, std::string_view dtype,
                                     const Device& device, const LoadOptions& options) {
  RunConfig config = run_config_from_text(dtype);
  config.device = device;
  return load_model_and_tokenizer(candidates, config, options);
}

namespace {

// Of the inputs of all products with static codes, as many as each has columns.
std::optional<double> saturation_of(const Plan& plan) {
  double clipped = 0, columns = 0;
  for (const Op& op : plan.ops) {
    const auto* linear = std::get_if<LinearOp>(&op.kind);
    if (linear == nullptr || !linear->static_input) continue;
    const auto width = static_cast<double>(plan.weights[static_cast<std::size_t>(linear->weight)].columns);
    clipped += linear->static_input->clipped_share * width;
    columns += width;
  }
  return columns > 0 ? std::optional(clipped / columns) : std::nullopt;
}

}  // namespace

CoverageFacts coverage_of(const Plan& plan) {
  CoverageFacts facts;
  std::int64_t elements = 0, quantized_elements = 0, bytes = 0, quantized_bytes = 0;
  const auto head = static_cast<std::size_t>(plan.head.product.weight);
  for (std::size_t i = 0; i < plan.weights.size(); ++i)
    for (const TensorPart& part : tensors_of(plan.weights[i])) {
      const WeightSpec& weight = part.spec;
      const bool is_vector = weight.kind == WeightSpec::Kind::vector,
                 is_in = is_quantized(weight.format) && !is_vector;
      elements += weight.elements();
      bytes += stored_bytes(weight).value;
      if (is_in) {
        quantized_elements += weight.elements();
        quantized_bytes += stored_bytes(weight).value;
        ++facts.quantized;
      }
      const char* reason = is_in                                    ? ""
                           : is_vector                              ? "a vector: norm or bias"
                           : i == head && weight.is_table_too       ? "the LM head, tied to the embedding"
                           : i == head                              ? "the LM head"
                           : weight.kind == WeightSpec::Kind::table ? "an embedding"
                                                                    : "not of the quantized kind";
      facts.tensors.push_back(
          {weight.name, is_vector ? "float32" : name_of(weight.format),
           weight.why_not_quantized.empty() ? reason : std::string(weight.why_not_quantized)});
    }
  if (facts.quantized == 0) return {};
  facts.weights_share = static_cast<double>(quantized_elements) / static_cast<double>(elements);
  facts.bytes_share = static_cast<double>(quantized_bytes) / static_cast<double>(bytes);
  facts.saturation = saturation_of(plan);
  facts.bits_per_weight = 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
  return facts;
}

std::optional<double> head_computed_share(const Model& model) {
  if (!model.precision().has_candidate_search) return std::nullopt;
  return model.program().exact_head_share();
}

ModelFacts model_facts(const LoadedModel& loaded) {
  const Model& model = *loaded.model;
  const MemoryReport memory = model.program().memory();
  CoverageFacts coverage = coverage_of(model.program().plan());
  if (model.precision().has_any(formats::kLlmInt8)) coverage.outlier_share = model.program().outlier_share();
  return {.id = loaded.id,
          .path = model.source().path().string(),
          .family = model.spec().family,
          .sha256 = "",
          .dtype = loaded.dtype_label,
          .parameters = model.program().plan().parameters(),
          .memory_bytes = get_model_memory_footprint(model).value,
          .resident_weights_bytes = (memory.weights + memory.packing).value,
          .workspace_bytes = memory.workspace.value,
          .head_computed_share = head_computed_share(model),
          .load_s = model.load_time().value + loaded.calibration_s,
          .coverage = std::move(coverage)};
}

Bytes get_model_memory_footprint(const Model& model) {
  return model.footprint();
}

std::filesystem::path shipped_file(const std::string& name, const std::filesystem::path& data_folder) {
  std::filesystem::path path;
  try {
    path = locate_model("demo", data_folder) / name;
  } catch (const Error&) {
    throw Error(
        "{}: a text that ships with the program, wanted where no file is given, was not found; give one "
        "(calibration, corpus or prompts file), or set ASSAY_MODELS to the folder that holds demo/",
        name);
  }
  if (!std::filesystem::exists(path)) throw Error("{}: this file of the program is missing", path.string());
  return path;
}

}  // namespace assay
