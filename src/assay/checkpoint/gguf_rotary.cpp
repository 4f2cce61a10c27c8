#include "assay/checkpoint/gguf_rotary.h"

#include <algorithm>

#include "assay/base/error.h"

namespace assay {

namespace {

constexpr std::string_view kFactors = "rope_freqs.weight", kLongFactors = "rope_factors_long.weight",
                           kShortFactors = "rope_factors_short.weight";

// One number for each pair of the elements that are turned.
Json factors_of(const GgufShards& shards, std::string_view tensor, std::int64_t turned) {
  const GgufShards::Place place = shards.find(tensor);
  if (!place) throw Error("{}: tensor '{}' is missing", shards.first().where(), tensor);
  if (place.tensor->rows() != 1 || place.tensor->columns() != turned / 2)
    throw Error("{}: tensor '{}': expected {} numbers, one for each rotary pair, found {} rows of {}",
                shards.files()[place.file]->where(), tensor, turned / 2, place.tensor->rows(),
                place.tensor->columns());
  Json factors = Json::array();
  for (const float factor : shards.read_floats(place)) factors.push_back(static_cast<double>(factor));
  return factors;
}

Json scaling_of(const GgufShards& shards, const std::string& prefix, std::int64_t turned) {
  const GgufFile& file = shards.first();
  Json scaling = Json::object();
  const auto take = [&](const char* own, const char* transformers) {
    if (const auto number = file.number(prefix + own)) scaling[transformers] = *number;
  };
  const auto original = file.integer(prefix + "rope.scaling.original_context_length");
  if (original) scaling["original_max_position_embeddings"] = *original;
  if (shards.has(kFactors)) {
    const Json factors = factors_of(shards, kFactors, turned);
    return {{"rope_type", "longrope"},
            {"short_factor", factors},
            {"long_factor", factors},
            {"attention_factor", 1.0}};
  }
  if (shards.has(kLongFactors) || shards.has(kShortFactors)) {
    scaling["rope_type"] = "longrope";
    scaling["long_factor"] = factors_of(shards, kLongFactors, turned);
    scaling["short_factor"] = factors_of(shards, kShortFactors, turned);
    take("rope.scaling.attn_factor", "attention_factor");
    return scaling;
  }
  const std::string type = file.text(prefix + "rope.scaling.type").value_or("none");
  if (type == "linear" || (type == "none" && file.value(prefix + "rope.scale_linear") != nullptr)) {
    take("rope.scale_linear", "factor");
    take("rope.scaling.factor", "factor");
    if (scaling.value("factor", 1.0) == 1.0) return Json::object();
    scaling["rope_type"] = "linear";
    return scaling;
  }
  if (type == "none" || type == "longrope") return Json::object();  // longrope is its tensors
  if (type != "yarn")
    throw Error("{}: key '{}': expected none, linear, yarn or longrope, found '{}'", file.where(),
                prefix + "rope.scaling.type", printable(type));
  scaling["rope_type"] = "yarn";
  take("rope.scaling.factor", "factor");
  take("rope.scaling.attn_factor", "attention_factor");
  take("rope.scaling.yarn_attn_factor", "attention_factor");
  take("rope.scaling.yarn_beta_fast", "beta_fast");
  take("rope.scaling.yarn_beta_slow", "beta_slow");
  return scaling;
}

}  // namespace

void add_rotary_names(const GgufShards& shards, JsonView::KeyNames& names) {
  const bool is_one = shards.has(kFactors);
  const auto name = [&](std::string_view own) { return fmt::format("tensor '{}'", is_one ? kFactors : own); };
  names["rope_scaling.short_factor"] = name(kShortFactors);
  names["rope_scaling.long_factor"] = name(kLongFactors);
}

bool is_rotary_tensor(std::string_view name) {
  return name == kFactors || name == kLongFactors || name == kShortFactors ||
         name.ends_with(".attn_rot_embd.weight");
}

void add_rotary(const GgufShards& shards, const GgufArchitecture& architecture, std::int64_t head_dim,
                Json& config) {
  const GgufFile& file = shards.first();
  const std::string prefix = std::string(architecture.name) + ".";
  const bool is_neox = architecture.model_type == "gpt_neox", is_gemma3 = architecture.name == "gemma3";
  const double base = file.number(prefix + "rope.freq_base").value_or(is_gemma3 ? 1e6 : 1e4);
  config[is_neox ? "rotary_emb_base" : "rope_theta"] = base;
  if (is_gemma3) config["rope_local_base_freq"] = file.number(prefix + "rope.freq_base_swa").value_or(1e4);
  const std::int64_t turned = file.integer(prefix + "rope.dimension_count").value_or(head_dim);
  if (turned < 1 || turned > head_dim)
    throw Error("{}: key '{}': expected 1 to the {} elements of a head, found {}", file.where(),
                prefix + "rope.dimension_count", head_dim, turned);
  // A little more than the quotient, which may be below the share whose product with the head is whole.
  const double share = static_cast<double>(turned) / static_cast<double>(head_dim);
  const double product = share * static_cast<double>(head_dim);
  config[is_neox ? "rotary_pct" : "partial_rotary_factor"] =
      product < static_cast<double>(turned) ? std::min(1.0, share * (1 + 1e-15)) : share;
  Json scaling = scaling_of(shards, prefix, turned);
  if (scaling.contains("original_max_position_embeddings") && scaling.contains("rope_type") &&
      architecture.name == "phi3")
    config["original_max_position_embeddings"] = scaling["original_max_position_embeddings"];
  if (scaling.contains("rope_type")) config["rope_scaling"] = std::move(scaling);
}

}  // namespace assay
