#include "assay/experiments/load.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/experiments/calibrate.h"

namespace assay {

namespace {

LoadedModel load_candidate(const std::string& candidate, const ResolvedDtype& dtype,
                           const std::shared_ptr<Backend>& backend, const LoadOptions& options) {
  auto folder = std::make_shared<const ModelFolder>(locate_model(candidate));
  LoadedModel loaded;
  const bool has_tokenizer = std::filesystem::exists(folder->path() / "tokenizer.json") ||
                             std::filesystem::exists(folder->path() / "vocab.json");
  if (options.needs_tokenizer || has_tokenizer || dtype.precision.needs_calibration())
    loaded.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(folder->path()));
  Calibration calibration;
  if (dtype.precision.needs_calibration()) {
    const CalibrationText text =
        read_calibration(options.calibration.empty() ? shipped_file("texts/calibrate.txt")
                                                     : std::filesystem::path(options.calibration),
                         *loaded.tokenizer);
    calibration = calibrate(folder, backend, dtype.precision, text.ids);
    loaded.calibration_sha256 = text.sha256;
  }
  loaded.model = std::make_shared<Model>(Model::load(folder, backend, dtype.precision, calibration));
  if (dtype.precision.is_quantized() && coverage_of(loaded.model->program().plan()).quantized == 0)
    throw Error("{}: {} quantizes nothing of this model", candidate, dtype.precision.name);
  loaded.id = candidate;
  loaded.dtype_label = dtype.label;
  loaded.doubts = dtype.doubts;
  if (dtype.precision.weights == WeightFormat::bfloat16 && backend->kernels() != "amx")
    loaded.doubts.emplace_back(
        "bfloat16 without AMX: weights, keys and values are kept in bfloat16, the arithmetic is float32");
  if (is_four_bit(dtype.precision.weights) && dtype.precision.remainder == WeightFormat::bfloat16 &&
      backend->kernels() == "amx")
    loaded.doubts.emplace_back(
        "4-bit weights are multiplied in bfloat16 where tokens are many, in float32 where they are one or "
        "two");
  if (const std::string why = why_tiles_are_refused(); !why.empty() && !options.backend.is_isa_forced)
    loaded.doubts.push_back(fmt::format("{}: {} kernels run instead", why, backend->kernels()));
  if (const auto allowed = static_cast<int>(allowed_processors().size()); backend->threads() > allowed)
    loaded.doubts.push_back(
        fmt::format("{} threads on {} processors: they wait for each other", backend->threads(), allowed));
  if (loaded.tokenizer != nullptr && loaded.tokenizer->vocab_size() > loaded.model->spec().vocab)
    loaded.doubts.push_back(
        fmt::format("the tokenizer knows {} tokens, the model {}: some texts cannot be run",
                    loaded.tokenizer->vocab_size(), loaded.model->spec().vocab));
  const std::vector<TokenId>& ends = loaded.model->spec().end_tokens;
  if (!ends.empty())
    loaded.pad_token = ends.front();
  else if (loaded.tokenizer != nullptr)
    loaded.pad_token = loaded.tokenizer->end_of_text().value_or(0);
  const JsonView config = folder->config();
  if (config.has("pad_token_id"))
    loaded.pad_token =
        static_cast<TokenId>(config.integer("pad_token_id", -1, loaded.model->spec().vocab - 1));
  return loaded;
}

}  // namespace

ResolvedDtype resolve_dtype(std::string_view name, const Device& device) {
  ResolvedDtype resolved;
  resolved.precision = precision_from_name(name);
  resolved.label = resolved.precision.name;
  if (device.kind != Device::Kind::cpu) return resolved;
  if (resolved.precision.name == "float16") {
    resolved.precision = precision_from_name("float32");
    resolved.label = "float32 (forced on CPU)";
  }
  return resolved;
}

std::string LoadedModel::load_line() const {
  return fmt::format("Loaded: {} | device={} | dtype={}", id, model->backend().device().text(), dtype_label);
}

LoadedModel load_model_and_tokenizer(const std::vector<std::string>& candidates, std::string_view dtype,
                                     const Device& device, const LoadOptions& options) {
  ResolvedDtype resolved = resolve_dtype(dtype, device);
  if (!options.remainder.empty()) set_remainder(resolved.precision, options.remainder);
  if (!options.quantized_head.empty()) set_quantized_head(resolved.precision, options.quantized_head);
  if (options.outlier_threshold >= 0) set_outlier_threshold(resolved.precision, options.outlier_threshold);
  if (!options.calibrator.empty()) set_calibrator(resolved.precision, options.calibrator);
  if (options.smoothing >= 0) set_smoothing(resolved.precision, options.smoothing);
  if (!options.calibration.empty() && !resolved.precision.needs_calibration())
    throw UsageError("--calibration: it goes with int8-static or --smooth-quant, and {} reads no text",
                     resolved.precision.name);
  if (resolved.precision.is_quantized()) resolved.label = resolved.precision.name;
  if (!options.kv_cache.empty()) set_kv_cache(resolved.precision, options.kv_cache);
  if (!options.float32_matmul.empty()) {
    set_float32_matmul(resolved.precision, options.float32_matmul);
    if (options.float32_matmul != "float32")
      resolved.label += " (products as " + options.float32_matmul + ")";
  }
  const std::shared_ptr<Backend> backend =
      options.shared_backend != nullptr ? options.shared_backend : make_backend(device, options.backend);
  return first_candidate(candidates, [&](const std::string& candidate) {
    return load_candidate(candidate, resolved, backend, options);
  });
}

namespace {

// Of the inputs of all products with static codes, as many as each has columns.
std::optional<double> saturation_of(const Plan& plan) {
  double clipped = 0, columns = 0;
  for (const Op& op : plan.ops) {
    const auto* linear = std::get_if<LinearOp>(&op.what);
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
  const auto head = static_cast<std::size_t>(std::get<LinearOp>(plan.head.what).weight);
  for (std::size_t i = 0; i < plan.weights.size(); ++i) {
    const WeightSpec& weight = plan.weights[i];
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
                         : i == head && weight.is_table_too       ? "the output head, tied to the embedding"
                         : i == head                              ? "the output head"
                         : weight.kind == WeightSpec::Kind::table ? "an embedding"
                                                                  : "not of the quantized kind";
    facts.tensors.push_back(
        {weight.name, std::string(is_vector ? "float32" : info(weight.format).name), reason});
  }
  if (facts.quantized == 0) return {};
  facts.weights_share = static_cast<double>(quantized_elements) / static_cast<double>(elements);
  facts.bytes_share = static_cast<double>(quantized_bytes) / static_cast<double>(bytes);
  facts.saturation = saturation_of(plan);
  facts.bits_per_weight = 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
  return facts;
}

Bytes get_model_memory_footprint(const Model& model) {
  return model.footprint();
}

std::filesystem::path shipped_file(const std::string& name) {
  std::filesystem::path path = locate_model("demo") / name;
  if (!std::filesystem::exists(path)) throw Error("{}: this file of the program is missing", path.string());
  return path;
}

}  // namespace assay
