// assay inspect: what a model folder holds and what it would need, without loading it.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/base/memory.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/gpu_prediction.h"
#include "assay/cli/inspect_view.h"
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
    nlohmann::ordered_json& one = tensors.emplace_back();
    one["name"] = tensor.name;
    const std::string in_file = all[i].name_in_file();
    if (in_file != tensor.name) one["name_in_file"] = in_file;
    one.update({{"dtype", tensor.type_name()},
                {"shape", tensor.shape},
                {"bytes", tensor.bytes},
                {"file", files[all[i].file_number()].filename().string()},
                {"used", uses[i] == TensorUse::weight || uses[i] == TensorUse::beside_weight}});
  }
  return tensors;
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

// As the model is stored, or in every precision where it is in plain numbers, and with a recipe.
nlohmann::ordered_json memory_of(const InspectFlags& flags, const ModelSpec& spec,
                                 const std::optional<Precision>& stored, Backend& backend, Bytes usable) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (stored)
    rows.push_back(memory_json(spec, backend, short_name(*stored), resolved_as(*stored), usable));
  else
    rows = memory_of_precisions(spec, backend, usable);
  if (flags.config.recipe)
    rows.push_back(
        memory_json(spec, backend, "recipe", resolved_as(precision_of(*flags.config.recipe)), usable));
  return rows;
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
  for (std::string& warning :
       check_tensors(spec, stored.value_or(Precision{}), source, UnreadableWeights::are_warned_of))
    warnings.push_back(std::move(warning));
  const bool can_be_loaded = unreadable_weights(plan, source).empty();
  if (stored && stored->needs_calibration()) stored_calibration(plan, source);
  const nlohmann::ordered_json tensors =
      tensors_json(source, tensor_uses(spec, stored.value_or(Precision{}), source));
  const std::shared_ptr<Backend> backend = make_backend(Device{}, {});
  const Bytes usable = usable_share(available_memory());
  const nlohmann::ordered_json memory =
      can_be_loaded ? memory_of(flags, spec, stored, *backend, usable) : nlohmann::ordered_json::array();
  nlohmann::ordered_json json{
      {"path", source.path().string()},
      {"spec", spec_json(spec)},
      {"stored_as", stored          ? stored->name
                    : can_be_loaded ? "plain numbers"
                                    : "types that are not supported"},
      {"file_type",
       source.file_type().empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(source.file_type())},
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
  answer(inspection_text(json, spec, usable));
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
