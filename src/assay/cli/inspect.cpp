// assay inspect: what a model folder holds and what it would need, without loading it.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/base/memory.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/gpu_prediction.h"
#include "assay/cli/options.h"
#include "assay/cli/recipe_view.h"
#include "assay/harness/context.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/plan/cost.h"
#include "assay/session/fitting_context.h"
#include "assay/session/load_parts.h"

namespace assay::cli {

namespace {

struct InspectFlags {
  std::string model;
  GpuStep step;
  std::string precision = "bfloat16";
  RunConfig config;  // its recipe and the format of its LM head alone
  OutputFlags output;
};

std::string position_name(const ModelSpec& spec) {
  switch (spec.position) {
    case Position::learned:
      return "learned";
    case Position::rotary:
      return "rotary";
    case Position::alibi:
      return "ALiBi";
  }
  return "";
}

// Layers for which `is_so` holds.
template <typename IsSo>
int layers_that(const ModelSpec& spec, const IsSo& is_so) {
  int count = 0;
  for (int layer = 0; layer < spec.layers; ++layer) count += is_so(layer) ? 1 : 0;
  return count;
}
int windowed_layers(const ModelSpec& spec) {
  return layers_that(spec, [&](int layer) { return spec.window_of(layer) > 0; });
}
int rotary_layers(const ModelSpec& spec) {
  return layers_that(spec, [&](int layer) { return spec.rotary_of(layer) != nullptr; });
}

nlohmann::ordered_json spec_json(const ModelSpec& spec) {
  return {{"family", spec.family},
          {"vocab", spec.vocab},
          {"context", spec.context},
          {"hidden", spec.hidden},
          {"layers", spec.layers},
          {"heads", spec.heads},
          {"kv_heads", spec.kv_heads},
          {"head_dim", spec.head_dim},
          {"window", spec.attention_window},
          {"windowed_layers", windowed_layers(spec)},
          {"mlp_hidden", spec.mlp_hidden},
          {"mlp", spec.mlp == Mlp::gated ? "gated" : "plain"},
          {"activation", name_of(spec.activation)},
          {"norm", spec.norm == Norm::rms ? "RMSNorm" : "LayerNorm"},
          {"epsilon", spec.epsilon},
          {"position", position_name(spec)},
          {"rotary_elements", 2 * spec.rotary.frequencies.size()},
          {"rotary_layers", rotary_layers(spec)},
          {"is_parallel", spec.is_parallel},
          {"attention_bias", spec.has_qkv_bias},
          {"mlp_bias", spec.has_mlp_bias},
          {"tied_head", spec.is_head_tied},
          {"scales_attention", spec.scales_attention},
          {"scales_attention_by_layer", spec.scales_attention_by_layer},
          {"end_tokens", spec.end_tokens}};
}

// 1,234,567
std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string layers_text(const ModelSpec& spec, int layers) {
  return layers == spec.layers ? "" : fmt::format(" in {} of {} layers", layers, spec.layers);
}

std::string position_text(const ModelSpec& spec) {
  if (spec.position != Position::rotary) return position_name(spec);
  const std::size_t turned = 2 * spec.rotary.frequencies.size();
  std::string text = "rotary";
  if (turned < static_cast<std::size_t>(spec.head_dim))
    text += fmt::format(", {} of {} elements of a head", turned, spec.head_dim);
  return text + layers_text(spec, rotary_layers(spec));
}

std::string norm_text(const ModelSpec& spec) {
  const TensorNames& names = spec.names;
  std::string text = spec.norm == Norm::rms ? "RMSNorm" : "LayerNorm";
  if (!names.embedding_norm.empty()) text += " of embeddings,";
  if (!spec.is_post_norm && !names.attention_norm.empty()) text += " before each block";
  if (spec.is_post_norm || !names.attention_out_norm.empty())
    text += !spec.is_post_norm && !names.attention_norm.empty() ? " and after it" : " after each block";
  if (spec.qk_norm != QkNorm::none) text += ", of queries and keys";
  return text;
}

// What a reader wants to know of an architecture, in lines of at most 80 columns.
std::string spec_lines(const ModelSpec& spec, std::int64_t parameters, std::uint64_t file_bytes) {
  const int windowed = windowed_layers(spec);
  const std::pair<const char*, std::string> lines[] = {
      {"family", spec.family},
      {"parameters", grouped(parameters)},
      {"weight files", grouped(static_cast<std::int64_t>(file_bytes)) + " bytes"},
      {"layers", fmt::format("{}{}", spec.layers, spec.is_parallel ? ", attention and MLP in parallel" : "")},
      {"hidden", grouped(spec.hidden)},
      {"heads", fmt::format("{} of {}", spec.heads, spec.head_dim)},
      {"key/value heads", fmt::to_string(spec.kv_heads)},
      {"window", windowed == 0 ? "none" : grouped(spec.attention_window) + layers_text(spec, windowed)},
      {"positions", position_text(spec)},
      {"norms", norm_text(spec)},
      {"MLP", fmt::format("{}, {}, {}", spec.mlp == Mlp::gated ? "gated" : "plain", name_of(spec.activation),
                          grouped(spec.mlp_hidden))},
      {"vocabulary", fmt::format("{}, LM head {}", grouped(spec.vocab),
                                 spec.is_head_tied ? "tied to the embedding" : "of its own")},
      {"context", grouped(spec.context)}};
  std::string text;
  for (const auto& [key, value] : lines) text += fmt::format("  {:<16}  {}\n", key, value);
  return text;
}

// A line a precision, of at most 80 columns; `available` is what may be taken, 0 where nobody says.
std::string memory_lines(const nlohmann::ordered_json& memory, Bytes available) {
  std::string text = fmt::format("  {:<12} {:<23} {:>8} {:>9} {:>8} {:>8} {:>4}\n", "", "runs as", "weights",
                                 "workspace", "KV/token", "read", "fits");
  for (const auto& m : memory) {
    const auto in = [&](const char* key, double unit) { return m[key].get<double>() / unit; };
    constexpr double kKilo = 1024, kMega = 1024 * kKilo;
    const double alone = in("resident_weights_bytes", 1) + in("workspace_bytes", 1),
                 whole = alone + in("kv_bytes_full_context", 1);
    const char* fits = available.value == 0                            ? "?"
                       : whole <= static_cast<double>(available.value) ? "yes"
                       : alone <= static_cast<double>(available.value) ? "part"
                                                                       : "no";
    text += fmt::format("  {:<12} {:<23} {:>8.1f} {:>9.1f} {:>8.1f} {:>8.1f} {:>4}\n",
                        m["precision"].get<std::string>(), m["runs_as"].get<std::string>(),
                        in("resident_weights_bytes", kMega), in("workspace_bytes", kMega),
                        in("kv_bytes_per_token", kKilo), in("bytes_read_per_token", kMega), fits);
  }
  return text;
}

// Lines for the formats that people choose, and for a recipe that was asked for.
std::string fitting_lines(const nlohmann::ordered_json& memory, std::int64_t context, Bytes usable) {
  if (usable.value == 0) return "";
  constexpr std::string_view kUsual[] = {"float32", "bfloat16", "int8-dynamic", "nf4"};
  std::string text =
      fmt::format("\nWhat fits 90 % of the free memory, {:.0f} MiB, with one sequence\n", usable.megabytes());
  for (const auto& m : memory) {
    const auto name = m["precision"].get<std::string>();
    const bool is_usual = std::find(std::begin(kUsual), std::end(kUsual), name) != std::end(kUsual);
    if (memory.size() > 1 && !is_usual && name != "recipe") continue;
    const auto tokens = m["fitting_tokens"].get<std::int64_t>();
    const double needed = m["fitting_bytes"].get<double>() / (1024 * 1024);
    text += tokens == 0 ? fmt::format("  {:<12} does not fit: weights and workspace alone take {:.0f} MiB\n",
                                      name, needed)
                        : fmt::format("  {:<12} fits up to {} tokens (the model's limit is {}), {:.0f} MiB\n",
                                      name, grouped(tokens), grouped(context), needed);
  }
  return text;
}

nlohmann::ordered_json memory_json(const ModelSpec& spec, Backend& backend, const std::string& name,
                                   const ResolvedDtype& resolved, Bytes usable) {
  const Plan plan = plan_forward(spec, resolved.precision);
  const FittingContext fitting = fitting_context(backend, plan, usable);
  const PredictedMemory predicted = backend.predict(plan, spec.context);
  const MemoryReport& program = predicted.program;
  return {{"precision", name},
          {"runs_as", resolved.label},
          {"footprint_bytes", plan.footprint(resolved.precision.bytes_per_parameter).value},
          {"weights_bytes", program.weights.value},
          {"packing_bytes", program.packing.value},
          {"resident_weights_bytes", (program.weights + program.packing).value},
          {"workspace_bytes", program.workspace.value},
          {"bytes_read_per_token", cost_of(plan, 1, 0, 1).weight_bytes.value},
          {"kv_bytes_per_token", 2LL * spec.layers * spec.kv_heads * kv_bytes(plan.kv_format, spec.head_dim)},
          {"kv_bytes_full_context", predicted.kv_cache.value},
          {"fitting_tokens",
           usable.value > 0 ? nlohmann::ordered_json(fitting.tokens) : nlohmann::ordered_json()},
          {"fitting_bytes",
           usable.value > 0 ? nlohmann::ordered_json(fitting.needed.value) : nlohmann::ordered_json()}};
}

ResolvedDtype resolved_as(const Precision& precision) {
  return {precision, precision.name, {}};
}

// "int8-static" of "int8-static, minmax calibration (as stored)"; formats without a preset have no shorter
// name.
std::string short_name(const Precision& stored) {
  const std::string first = stored.name.substr(0, stored.name.find_first_of(" ,"));
  const std::vector<std::string> presets = precision_names();
  const bool is_preset = std::find(presets.begin(), presets.end(), first) != presets.end();
  return is_preset ? first : name_of(stored.weights);
}

// In every precision but those that quantize nothing of the model: blocks of GGUF may divide no weight's
// inputs.
nlohmann::ordered_json memory_of_precisions(const ModelSpec& spec, Backend& backend, Bytes usable) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::string& name : precision_names()) {
    const ResolvedDtype resolved = resolve_dtype(name, Device{});
    if (resolved.precision.has_fallbacks &&
        coverage_of(plan_forward(spec, resolved.precision)).quantized == 0)
      continue;
    rows.push_back(memory_json(spec, backend, name, resolved, usable));
  }
  return rows;
}

nlohmann::ordered_json tensors_json(const ModelSource& source, const std::vector<TensorUse>& uses) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  const std::vector<CheckpointTensor> all = source.all();
  const std::vector<std::filesystem::path> files = source.checkpoint().files();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const StoredTensor& tensor = *all[i];
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.type_name()},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes},
                       {"file", files[all[i].file_number()].filename().string()},
                       {"used", uses[i] == TensorUse::weight || uses[i] == TensorUse::beside_weight}});
  }
  return tensors;
}

std::string tensor_lines(const nlohmann::ordered_json& tensors) {
  constexpr std::size_t kWidest = 64;
  std::size_t name = 0, shape = 0, dtype = 4;
  for (const auto& t : tensors) {
    name = std::max(name, std::min(kWidest, printable(t["name"].get<std::string>()).size()));
    shape = std::max(shape, t["shape"].dump().size());
    dtype = std::max(dtype, t["dtype"].get_ref<const std::string&>().size());
  }
  std::string text;
  for (const auto& t : tensors)
    text += fmt::format("  {:<{}}  {:<{}}  {:<{}}  {:>12} B{}\n", printable(t["name"].get<std::string>()),
                        name, t["dtype"].get<std::string>(), dtype, t["shape"].dump(), shape,
                        t["bytes"].get<std::uint64_t>(), t["used"].get<bool>() ? "" : "  (not used)");
  return text;
}

// As a GPU would run it, in the precision or recipe that was asked for, or the checkpoint's own.
nlohmann::ordered_json gpu_step_json(const InspectFlags& flags, const ModelSpec& spec,
                                     const std::optional<Precision>& stored) {
  const Device gpu{Device::Kind::cuda, 0};
  ResolvedDtype resolved = stored                ? resolved_as(*stored)
                           : flags.config.recipe ? resolved_as(precision_of(*flags.config.recipe))
                                                 : resolve_dtype(flags.precision, gpu);
  if (flags.config.quantize_head) {
    if (stored && stored->is_lm_head_stored)
      throw FieldError("quantize_head", "the LM head is quantized already, as {}: expected none",
                       stored->name);
    set_quantized_lm_head(resolved.precision, *flags.config.quantize_head);
    resolved.label += fmt::format("+head:{}", recipe_name_of(*flags.config.quantize_head));
  }
  // What is not quantized is float16 on a GPU where nothing else is asked for.
  if (resolved.precision.is_quantized()) {
    const DType dtype = flags.config.dtype.value_or(DType::f16);
    dtype == DType::f16 ? use_float16(resolved.precision) : set_dtype(resolved.precision, dtype);
    resolved.label += fmt::format(", dtype {}", name_of(dtype));
  }
  nlohmann::ordered_json json = gpu_prediction_json(plan_forward(spec, resolved.precision), flags.step);
  json["precision"] = resolved.label;
  return json;
}

std::string text_of(const nlohmann::ordered_json& json, const ModelSpec& spec, Bytes usable) {
  std::string text = fmt::format("{}\n", printable(json["path"].get<std::string>()));
  text += spec_lines(spec, json["parameters"].get<std::int64_t>(),
                     json["weight_file_bytes"].get<std::uint64_t>());
  text +=
      "\nPredicted memory in MiB: packed weights, workspace, keys and values per token\n"
      "(KB), and the weights read to decode one token. The last column says whether\n"
      "the whole context fits 90 % of the free memory: yes, in part, or no.\n";
  text += memory_lines(json["memory"], usable);
  text += fitting_lines(json["memory"], spec.context, usable);
  text += formats_text(json["types"]);
  if (json.contains("recipe")) text += formats_text(json["recipe"]);
  if (json.contains("gpu_step")) text += gpu_prediction_text(json["gpu_step"]);
  text += "\nTensors\n" + tensor_lines(json["tensors"]);
  return text;
}

int run_inspect(const InspectFlags& flags) {
  const auto opened = first_candidate(candidates_of(flags.model), [](const std::string& candidate) {
    return open_source(locate_model(candidate));
  });
  const ModelSource& source = *opened;
  const ModelSpec spec = spec_from_source(source);
  const std::optional<Precision> stored = stored_precision(source, spec);
  const std::optional<Recipe>& recipe = flags.config.recipe;
  if (stored && recipe)
    throw FieldError("recipe", "the model is quantized already, {}: expected none", stored->name);
  const Plan plan = plan_forward(spec, stored.value_or(Precision{}));
  std::vector<std::string> warnings = spec.warnings;
  for (std::string& warning : check_tensors(spec, stored.value_or(Precision{}), source))
    warnings.push_back(std::move(warning));
  if (stored && stored->needs_calibration()) stored_calibration(plan, source);
  const nlohmann::ordered_json tensors =
      tensors_json(source, tensor_uses(spec, stored.value_or(Precision{}), source));
  const std::shared_ptr<Backend> backend = make_backend(Device{}, {});
  const Bytes usable = usable_share(available_memory());
  nlohmann::ordered_json memory = nlohmann::ordered_json::array();
  if (stored)
    memory.push_back(memory_json(spec, *backend, short_name(*stored), resolved_as(*stored), usable));
  else
    memory = memory_of_precisions(spec, *backend, usable);
  if (recipe)
    memory.push_back(memory_json(spec, *backend, "recipe", resolved_as(precision_of(*recipe)), usable));
  nlohmann::ordered_json json{{"path", source.path().string()},
                              {"spec", spec_json(spec)},
                              {"stored_as", stored ? stored->name : "plain numbers"},
                              {"parameters", plan.parameters()},
                              {"weight_file_bytes", source.weight_file_bytes()},
                              {"threads", backend->threads()},
                              {"usable_memory_bytes", usable.value},
                              {"memory", memory},
                              {"types", stored_types_json(plan, source)},
                              {"warnings", warnings},
                              {"tensors", tensors}};
  if (recipe) json["recipe"] = recipe_json(*recipe, plan_forward(spec, precision_of(*recipe)));
  if (!flags.step.gpu.empty()) json["gpu_step"] = gpu_step_json(flags, spec, stored);
  if (flags.output.is_json) {
    answer_json("inspection", json);
    return 0;
  }
  if (!flags.output.is_quiet)
    for (const std::string& warning : warnings) note("warning: " + warning);
  answer(text_of(json, spec, usable));
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Show what a model folder holds and predict its memory, without loading the weights");
  command->add_option("--gpu", flags->step.gpu,
                      fmt::format("GPU for which to predict each kernel of a step: {} [none]",
                                  fmt::join(known_gpus(), ", ")));
  command->add_option("--precision", flags->precision, "Precision of that step [bfloat16]");
  add_field(*command, field("recipe"), flags->config);
  command->get_option("--recipe")
      ->description(
          "File with a format for each module, in TOML or JSON, to show applied to the model [none]");
  add_field(*command, field("quantize_head"), flags->config);
  command->get_option("--quantize-head")->description("Format of the LM head of that step [not quantized]");
  add_whole(*command, "--rows", flags->step.rows, "New tokens in that step [1]", 1, 4096);
  add_whole(*command, "--past", flags->step.past, "Tokens in the KV cache before that step [512]", 0);
  command
      ->add_option("MODEL", flags->model, "Model: a folder, a GGUF file, a Hugging Face cache entry or demo")
      ->required();
  flags->output.add_to(*command);
  command->footer("Example: assay inspect demo --json");
  command->callback([flags, &exit_code] { exit_code = run_inspect(*flags); });
}

}  // namespace assay::cli
