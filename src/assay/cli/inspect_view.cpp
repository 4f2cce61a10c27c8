#include "assay/cli/inspect_view.h"

#include <algorithm>
#include <map>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/cli/gpu_prediction.h"
#include "assay/cli/recipe_view.h"

namespace assay::cli {

namespace {

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

// "Q4_K_M; of its weights 63 % are Q8_0, 23 % Q5_0, 7 % Q4_K": a mix says little of the types in it.
std::string file_type_text(const nlohmann::ordered_json& json) {
  if (json["file_type"].is_null()) return "";
  std::map<std::string, double> elements;  // by type
  double all = 0;
  for (const auto& row : json["types"]["modules"]) {
    const auto count = row["elements"].get<double>();
    elements[row["format"].get<std::string>()] += count;
    all += count;
  }
  std::vector<std::pair<std::string, double>> types(elements.begin(), elements.end());
  std::stable_sort(types.begin(), types.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < types.size() && i < kShown; ++i)
    if (const double share = 100 * types[i].second / all; share >= 1)
      text += fmt::format("{}{:.0f} %{} {}", i == 0 ? "" : ", ", share, i == 0 ? " are" : "", types[i].first);
  const auto name = json["file_type"].get<std::string>();
  const bool is_all = types.size() == 1 && types.front().first == name;
  return is_all ? name : fmt::format("{}; of its weights {}", name, text);
}

// What a row of the memory is called: as people call such a file, where it says so.
std::string row_name(const nlohmann::ordered_json& json, const nlohmann::ordered_json& row) {
  const bool is_stored = row["runs_as"].get_ref<const std::string&>().ends_with("(as stored)");
  return is_stored && !json["file_type"].is_null() ? json["file_type"].get<std::string>()
                                                   : row["precision"].get<std::string>();
}

// What a reader wants to know of an architecture, in lines of at most 80 columns.
std::string spec_lines(const ModelSpec& spec, const nlohmann::ordered_json& json) {
  const int windowed = windowed_layers(spec);
  const std::pair<const char*, std::string> lines[] = {
      {"family", spec.family},
      {"parameters", grouped(json["parameters"].get<std::int64_t>())},
      {"weight files", grouped(json["weight_file_bytes"].get<std::int64_t>()) + " bytes"},
      {"file type", file_type_text(json)},
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
  for (const auto& [key, value] : lines)
    if (!value.empty()) text += fmt::format("  {:<16}  {}\n", key, value);
  return text;
}

constexpr std::size_t kRunsAsWidth = 23;

// What the file holds is told type by type below, where the line has no room for all.
std::string runs_as(const nlohmann::ordered_json& row) {
  const auto name = row["runs_as"].get<std::string>();
  return name.size() > kRunsAsWidth && name.ends_with("(as stored)") ? "mixed types (as stored)" : name;
}

// A line a precision, of at most 80 columns; `available` is what may be taken, 0 where nobody says.
std::string memory_lines(const nlohmann::ordered_json& json, Bytes available) {
  const nlohmann::ordered_json& memory = json["memory"];
  std::string text = fmt::format("  {:<12} {:<{}} {:>8} {:>9} {:>8} {:>8} {:>4}\n", "", "runs as",
                                 kRunsAsWidth, "weights", "workspace", "KV/token", "read", "fits");
  for (const auto& m : memory) {
    const auto in = [&](const char* key, double unit) { return m[key].get<double>() / unit; };
    constexpr double kKilo = 1024, kMega = 1024 * kKilo;
    const double alone = in("resident_weights_bytes", 1) + in("workspace_bytes", 1),
                 whole = alone + in("kv_bytes_full_context", 1);
    const char* fits = available.value == 0                            ? "?"
                       : whole <= static_cast<double>(available.value) ? "yes"
                       : alone <= static_cast<double>(available.value) ? "part"
                                                                       : "no";
    text += fmt::format("  {:<12} {:<{}} {:>8.1f} {:>9.1f} {:>8.1f} {:>8.1f} {:>4}\n", row_name(json, m),
                        runs_as(m), kRunsAsWidth, in("resident_weights_bytes", kMega),
                        in("workspace_bytes", kMega), in("kv_bytes_per_token", kKilo),
                        in("bytes_read_per_token", kMega), fits);
  }
  return text;
}

// Lines for the formats that people choose, and for a recipe that was asked for.
std::string fitting_lines(const nlohmann::ordered_json& json, std::int64_t context, Bytes usable) {
  if (usable.value == 0) return "";
  const nlohmann::ordered_json& memory = json["memory"];
  constexpr std::string_view kUsual[] = {"float32", "bfloat16", "int8-dynamic", "nf4"};
  std::string text =
      fmt::format("\nWhat fits 90 % of the free memory, {:.0f} MiB, with one sequence\n", usable.megabytes());
  for (const auto& m : memory) {
    const std::string name = row_name(json, m);
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

// Under the names that the file has, which whoever looks into it knows them by.
std::string tensor_lines(const nlohmann::ordered_json& tensors) {
  constexpr std::size_t kWidest = 64;
  const auto name_of = [](const auto& t) {
    return printable(t[t.contains("name_in_file") ? "name_in_file" : "name"].template get<std::string>());
  };
  std::size_t name = 0, shape = 0, dtype = 4;
  for (const auto& t : tensors) {
    name = std::max(name, std::min(kWidest, name_of(t).size()));
    shape = std::max(shape, t["shape"].dump().size());
    dtype = std::max(dtype, t["dtype"].get_ref<const std::string&>().size());
  }
  std::string text;
  for (const auto& t : tensors)
    text += fmt::format("  {:<{}}  {:<{}}  {:<{}}  {:>12} B{}\n", name_of(t), name,
                        t["dtype"].get<std::string>(), dtype, t["shape"].dump(), shape,
                        t["bytes"].get<std::uint64_t>(), t["used"].get<bool>() ? "" : "  (not used)");
  return text;
}

}  // namespace

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

std::string inspection_text(const nlohmann::ordered_json& json, const ModelSpec& spec, Bytes usable) {
  std::string text = fmt::format("{}\n", printable(json["path"].get<std::string>()));
  text += spec_lines(spec, json);
  if (json["memory"].empty()) {
    text += "\nNo memory is predicted: weights of types that are not supported cannot be loaded.\n";
  } else {
    text +=
        "\nPredicted memory in MiB: packed weights, workspace, and the weights read to\n"
        "decode one token; in KiB: keys and values per token. The last column says\n"
        "whether the whole context fits 90 % of the free memory: yes, in part, or no.\n";
    text += memory_lines(json, usable);
    text += fitting_lines(json, spec.context, usable);
  }
  text += formats_text(json["types"]);
  if (json.contains("recipe")) text += formats_text(json["recipe"]);
  if (json.contains("gpu_step")) text += gpu_prediction_text(json["gpu_step"]);
  text += "\nTensors\n" + tensor_lines(json["tensors"]);
  return text;
}

}  // namespace assay::cli
