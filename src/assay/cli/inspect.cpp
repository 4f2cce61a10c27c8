// assay inspect: what a model folder holds and what it would need, without loading it.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/session/load_parts.h"

namespace assay::cli {

namespace {

struct InspectFlags {
  std::string model;
  OutputFlags output;
};

nlohmann::ordered_json spec_json(const ModelSpec& spec) {
  return {{"family", spec.family},
          {"vocab", spec.vocab},
          {"context", spec.context},
          {"hidden", spec.hidden},
          {"layers", spec.layers},
          {"heads", spec.heads},
          {"kv_heads", spec.kv_heads},
          {"head_dim", spec.head_dim},
          {"mlp_hidden", spec.mlp_hidden},
          {"mlp", spec.mlp == Mlp::gated ? "gated" : "plain"},
          {"activation", name_of(spec.activation)},
          {"norm", spec.norm == Norm::rms ? "RMSNorm" : "LayerNorm"},
          {"epsilon", spec.epsilon},
          {"position", spec.position == Position::rotary ? "rotary" : "learned"},
          {"attention_bias", spec.has_qkv_bias},
          {"mlp_bias", spec.has_mlp_bias},
          {"tied_head", spec.is_head_tied},
          {"scales_attention", spec.scales_attention},
          {"scales_attention_by_layer", spec.scales_attention_by_layer},
          {"end_tokens", spec.end_tokens}};
}

nlohmann::ordered_json memory_json(const ModelSpec& spec, const std::string& name,
                                   const ResolvedDtype& resolved) {
  const Plan plan = plan_forward(spec, resolved.precision);
  double weights = 0;  // vectors stay float32
  for (const WeightSpec& w : plan.weights)
    weights += static_cast<double>(w.elements()) *
               (w.kind == WeightSpec::Kind::vector ? 32 : info(w.format).bits_per_weight) / 8;
  const std::int64_t kv_per_token =
      2LL * spec.layers * spec.kv_heads * kv_bytes(plan.kv_format, spec.head_dim);
  return {{"precision", name},
          {"runs_as", resolved.label},
          {"footprint_bytes", plan.footprint(resolved.precision.bytes_per_parameter).value},
          {"weights_bytes", static_cast<std::int64_t>(weights)},
          {"kv_bytes_per_token", kv_per_token},
          {"kv_bytes_full_context", kv_per_token * spec.context}};
}

nlohmann::ordered_json tensors_json(const ModelFolder& folder, const std::vector<TensorUse>& uses) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  const std::vector<CheckpointTensor> all = folder.all();
  const std::vector<std::filesystem::path> files = folder.checkpoint().files();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const StoredTensor& tensor = *all[i];
    tensors.push_back({{"name", tensor.name},
                       {"dtype", info(tensor.dtype).safetensors},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes},
                       {"file", files[all[i].file_number()].filename().string()},
                       {"used", uses[i] == TensorUse::weight || uses[i] == TensorUse::beside_weight}});
  }
  return tensors;
}

std::string tensor_lines(const nlohmann::ordered_json& tensors) {
  constexpr std::size_t kWidest = 64;
  std::size_t name = 0, shape = 0;
  for (const auto& t : tensors) {
    name = std::max(name, std::min(kWidest, printable(t["name"].get<std::string>()).size()));
    shape = std::max(shape, t["shape"].dump().size());
  }
  std::string text;
  for (const auto& t : tensors)
    text += fmt::format("  {:<{}}  {:<4}  {:<{}}  {:>12} B{}\n", printable(t["name"].get<std::string>()),
                        name, t["dtype"].get<std::string>(), t["shape"].dump(), shape,
                        t["bytes"].get<std::uint64_t>(), t["used"].get<bool>() ? "" : "  (not used)");
  return text;
}

int run_inspect(const InspectFlags& flags) {
  const ModelFolder folder = first_candidate(candidates_of(flags.model), [](const std::string& candidate) {
    return ModelFolder(locate_model(candidate));
  });
  const ModelSpec spec = spec_from_folder(folder);
  const std::optional<Precision> stored = stored_precision(folder, spec);
  const Plan plan = plan_forward(spec, stored.value_or(Precision{}));
  std::vector<std::string> warnings = spec.warnings;
  for (std::string& warning : check_tensors(spec, stored.value_or(Precision{}), folder))
    warnings.push_back(std::move(warning));
  if (stored && stored->needs_calibration()) stored_calibration(plan, folder);
  const nlohmann::ordered_json tensors =
      tensors_json(folder, tensor_uses(spec, stored.value_or(Precision{}), folder));
  nlohmann::ordered_json memory = nlohmann::ordered_json::array();
  if (stored)
    memory.push_back(memory_json(spec, stored->name.substr(0, stored->name.find_first_of(" ,")),
                                 {*stored, stored->name, {}}));
  else
    for (const std::string& name : precision_names())
      memory.push_back(memory_json(spec, name, resolve_dtype(name, Device{})));
  const nlohmann::ordered_json json{{"path", folder.path().string()},
                                    {"spec", spec_json(spec)},
                                    {"stored_as", stored ? stored->name : "plain numbers"},
                                    {"parameters", plan.parameters()},
                                    {"weight_file_bytes", folder.weight_file_bytes()},
                                    {"memory", memory},
                                    {"warnings", warnings},
                                    {"tensors", tensors}};
  if (flags.output.is_json) {
    answer_json(json);
    return 0;
  }
  if (!flags.output.is_quiet)
    for (const std::string& warning : warnings) note("warning: " + warning);
  std::string text = fmt::format("{}\n", printable(folder.path().string()));
  for (const auto& [key, value] : json["spec"].items())
    text += fmt::format("  {:<26}{}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  text += fmt::format("  {:<26}{}\n  {:<26}{}\n\nPredicted memory\n", "parameters", plan.parameters(),
                      "weight files, bytes", folder.weight_file_bytes());
  for (const auto& m : memory)
    text += fmt::format(
        "  {:<10} runs as {:<24} footprint {:>9.1f} MB, weights {:>9.1f} MB, KV cache {:.1f} KB per token\n",
        m["precision"].get<std::string>(), m["runs_as"].get<std::string>(),
        m["footprint_bytes"].get<double>() / 1048576, m["weights_bytes"].get<double>() / 1048576,
        m["kv_bytes_per_token"].get<double>() / 1024);
  text += "\nTensors\n" + tensor_lines(tensors);
  answer(text);
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Show what a model folder holds and the memory it would need; loads no weights");
  command->add_option("MODEL", flags->model, "Model: a folder, a Hugging Face cache entry or demo")
      ->required();
  flags->output.add_to(*command);
  command->footer("Example: assay inspect demo --json");
  command->callback([flags, &exit_code] { exit_code = run_inspect(*flags); });
}

}  // namespace assay::cli
