#include "assay/session/load.h"

#include <algorithm>
#include <map>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/base/tokenizer_files.h"
#include "assay/config/fields.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/session/calibrate.h"
#include "assay/session/generation_rules.h"
#include "assay/session/load_parts.h"
#include "assay/session/resolve.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

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

// What a precision that needs one is calibrated on: the text asked for or the one that ships, run through the
// model; `loaded` then says which it was.
Calibration calibrate_on_text(const std::shared_ptr<const ModelSource>& source, const ResolvedRun& run,
                              const std::shared_ptr<Backend>& backend, const LoadOptions& options,
                              LoadedModel& loaded) {
  const std::optional<std::string>& given = run.asked.calibration;
  const std::filesystem::path file =
      given ? std::filesystem::path(*given) : shipped_file("texts/calibrate.txt", options.data_folder);
  CalibrationText text = read_calibration(file, *loaded.tokenizer, run.asked.newlines);
  if (!text.change.empty())
    loaded.warnings.push_back(
        {WarningKind::line_ends, fmt::format("{}: {}", file.filename().string(), text.change)});
  const TimePoint begin = Clock::now();
  Calibration calibration = calibrate(source, backend, run.dtype.precision, text.ids);
  loaded.calibration_s = elapsed(begin, Clock::now()).value;
  loaded.calibration_sha256 = text.sha256;
  loaded.calibration_ids = std::move(text.ids);
  return calibration;
}

// Weights whose inputs the blocks of the precision do not divide, and what they are in.
std::optional<Warning> fallback_warning(const Precision& precision, const Plan& plan) {
  if (!precision.has_fallbacks || precision.is_stored) return std::nullopt;
  std::map<std::string, std::int64_t> others;
  std::int64_t all = 0, other = 0;
  for (const Op& op : plan.ops) {
    const auto* product = std::get_if<LinearOp>(&op.kind);
    if (product == nullptr || precision.why_not_quantized(product->modules.front())) continue;
    const auto weights = std::ssize(product->modules);
    const WeightFormat& format = plan.weight(product->weight).format;
    all += weights;
    if (format == precision.weights) continue;
    other += weights;
    others[recipe_name_of(format)] += weights;
  }
  if (other == 0) return std::nullopt;
  std::vector<std::string> counts;
  for (const auto& [format, weights] : others) counts.push_back(fmt::format("{} in {}", weights, format));
  return Warning{WarningKind::format_fallback,
                 fmt::format("{} of {} weights have inputs that blocks of {} ({}) do not divide, and are in "
                             "other formats as llama.cpp has it: {}",
                             other, all, block_inputs(precision.weights), recipe_name_of(precision.weights),
                             fmt::join(counts, ", "))};
}

void add_warnings(LoadedModel& loaded, const ResolvedRun& run, const Backend& backend) {
  for (const std::string& text : loaded.model->warnings())
    loaded.warnings.push_back({WarningKind::model_files, text});
  for (Warning& warning : warnings_of(run, backend)) loaded.warnings.push_back(std::move(warning));
  if (auto warning = fallback_warning(run.dtype.precision, loaded.model->program().plan()))
    loaded.warnings.push_back(std::move(*warning));
  const std::int64_t vocab = loaded.model->spec().vocab;
  if (std::string text =
          left_out_of_measurements(loaded.model->source(), loaded.model->spec().end_tokens, vocab);
      !text.empty())
    loaded.warnings.push_back({WarningKind::generation_config, std::move(text)});
  if (loaded.tokenizer != nullptr && loaded.tokenizer->vocab_size() > vocab)
    loaded.warnings.push_back(
        {WarningKind::tokenizer_too_large,
         fmt::format("{}: the tokenizer knows {} tokens but the model only {}, so some texts cannot be run",
                     loaded.model->source().path().string(), loaded.tokenizer->vocab_size(), vocab),
         static_cast<double>(loaded.tokenizer->vocab_size()), static_cast<double>(vocab)});
}

LoadedModel load_on(const std::shared_ptr<const ModelSource>& source, const std::string& id,
                    const ResolvedRun& asked, const std::shared_ptr<Backend>& backend,
                    const LoadOptions& options) {
  const ModelSpec spec = spec_from_source(*source);
  const ResolvedRun run = resolve(asked, *source, spec, id);
  const Precision& precision = run.dtype.precision;
  LoadedModel loaded;
  loaded.config = run.asked;
  if (const auto preset = run.preset()) loaded.config.precision = preset;
  const bool calibrates = precision.needs_calibration() && !precision.is_stored;
  loaded.tokenizer = tokenizer_of(*source, options.needs_tokenizer || calibrates, &loaded);
  if (precision.is_quantized() && coverage_of(plan_forward(spec, precision)).quantized == 0)
    throw Error("{}: {} quantizes nothing of this model", id, precision.name);
  Calibration calibration;
  if (precision.is_stored) loaded.calibration_sha256 = stored_calibration_sha256(*source);
  if (calibrates) calibration = calibrate_on_text(source, run, backend, options, loaded);
  loaded.model =
      std::make_shared<Model>(Model::load(source, backend, precision, calibration, options.should_stop));
  loaded.model->program().tune();  // behind the time that loading took
  loaded.id = id;
  loaded.dtype_label = run.dtype.label;
  if (!precision.is_stored && stored_precision(*source, spec))
    loaded.dtype_label += field("dequantized").label(run.asked);
  add_warnings(loaded, run, *backend);
  choose_pad_token(loaded, *source);
  return loaded;
}

// What a configuration runs as, and what it runs on.
std::pair<ResolvedRun, std::shared_ptr<Backend>> placed(const RunConfig& config, const LoadOptions& options) {
  ResolvedRun run =
      resolve(config, {.pins_caller = options.pins_caller, .backend = options.shared_backend.get()});
  if (options.shared_backend != nullptr) return {std::move(run), options.shared_backend};
  if (options.constants != nullptr) run.backend.constants = *options.constants;
  std::shared_ptr<Backend> backend = make_backend(run.device, run.backend);
  return {std::move(run), std::move(backend)};
}

}  // namespace

std::string LoadedModel::load_line() const {
  const std::string type = model->precision().is_stored ? model->source().file_type() : "";
  return fmt::format("Loaded: {} | device={} | dtype={}{}", printable(id), model->backend().device().text(),
                     dtype_label, type.empty() ? "" : " | file_type=" + type);
}

std::shared_ptr<const Tokenizer> tokenizer_of(const ModelSource& source, bool is_needed, LoadedModel* told) {
  if (!is_needed && !source.has_tokenizer()) return nullptr;
  const auto warn = [&](std::string text) {
    if (told != nullptr) told->warnings.push_back({WarningKind::model_files, std::move(text)});
  };
  try {
    auto tokenizer = std::make_shared<const Tokenizer>(Tokenizer::from_files(source.tokenizer_files()));
    for (const std::string& text : tokenizer->warnings()) warn(text);
    return tokenizer;
  } catch (const Error& error) {
    if (is_needed) throw;
    if (told != nullptr) told->no_tokenizer = error.what();
    warn(fmt::format("token ids stand in place of text, because the tokenizer cannot be read: {}",
                     error.what()));
    return nullptr;
  }
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
  const auto [run, backend] = placed(config, options);
  return first_candidate(candidates, [&, &run = run, &backend = backend](const std::string& candidate) {
    return load_on(open_source(locate_model(candidate, options.data_folder)), candidate, run, backend,
                   options);
  });
}

LoadedModel load_source(const std::shared_ptr<const ModelSource>& source, const RunConfig& config,
                        const LoadOptions& options) {
  const auto [run, backend] = placed(config, options);
  return load_on(source, source->path().string(), run, backend, options);
}

LoadedModel load_model_and_tokenizer(const std::vector<std::string>& candidates, std::string_view dtype,
                                     const Device& device, const LoadOptions& options) {
  RunConfig config = run_config_from_text(dtype);
  config.device = device;
  return load_model_and_tokenizer(candidates, config, options);
}

namespace {

// The share of clipped inputs of all products with static codes, as many as each has columns.
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
  return {.id = printable(loaded.id),
          .path = printable(model.source().path().string()),
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
    path = locate_shipped_model(data_folder) / name;
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
