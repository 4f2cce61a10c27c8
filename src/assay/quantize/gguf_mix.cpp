#include "assay/quantize/gguf_mix.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "assay/base/error.h"
#include "assay/quant/ggml_quantize.h"

namespace assay {

namespace {

struct NamedMix {
  std::string_view name, base;
  std::uint32_t file_type;  // llama.cpp's enum llama_ftype
  bool has_more_bits = false;
};
constexpr NamedMix kNamedMixes[] = {{"F32", "F32", 0},      {"F16", "F16", 1},
                                    {"BF16", "BF16", 32},   {"Q8_0", "Q8_0", 7},
                                    {"Q6_K", "Q6_K", 18},   {"Q5_K_M", "Q5_K", 17, true},
                                    {"Q5_K_S", "Q5_K", 16}, {"Q5_1", "Q5_1", 9},
                                    {"Q5_0", "Q5_0", 8},    {"Q4_K_M", "Q4_K", 15, true},
                                    {"Q4_K_S", "Q4_K", 14}, {"Q4_1", "Q4_1", 3},
                                    {"Q4_0", "Q4_0", 2}};

std::string upper_case(std::string_view text) {
  std::string upper(text.substr(0, 64));
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return upper;
}

const ggml::BlockType& named_type(std::string_view name) {
  return *ggml::block_type_named(name);
}

bool is_plain(std::string_view type) {
  return type == "F32" || type == "F16" || type == "BF16";
}

// The block that a tensor is in; -1 outside of them.
int layer_of(std::string_view own) {
  int layer = -1;
  if (own.starts_with("blk.")) std::from_chars(own.data() + 4, own.data() + own.size(), layer);
  return layer;
}

// The first and the last eighth of the layers, and each third one between.
bool is_sensitive(int layer, int layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

// llama.cpp's rules for mixes of quantized types, of dense models. `own` is no vector and no norm.
std::string_view type_in_mix(std::string_view base, bool has_more_bits, std::string_view architecture,
                             const ModelSpec& spec, std::string_view own, std::int64_t columns) {
  const int layer = layer_of(own), layers = spec.layers;
  const bool is_falcon = architecture == "falcon",
             is_value = own.ends_with(".attn_v.weight") || own.ends_with(".attn_qkv.weight"),
             is_down = own.ends_with(".ffn_down.weight");
  if (own == "output.weight" || (spec.is_head_tied && own == "token_embd.weight")) {
    if (is_falcon || columns % named_type(base).elements != 0) return "Q8_0";
    return base == "Q8_0" ? base : "Q6_K";
  }
  if (is_value) {
    std::string_view type = base;
    if (has_more_bits && is_sensitive(layer, layers)) type = "Q6_K";
    if (base == "Q4_K" && !has_more_bits && layer < 4) type = "Q5_K";
    // Models of 70B share values among eight heads: their small matrix takes more bits.
    const bool is_70b =
        layers == 80 && (architecture == "qwen2" || (architecture == "llama" && spec.heads != spec.kv_heads));
    return is_70b && type == "Q4_K" ? "Q5_K" : type;
  }
  if (!is_down) return base;
  if (base == "Q4_K" && has_more_bits && is_falcon)
    return layer < layers / 16 ? "Q6_K" : is_sensitive(layer, layers) ? "Q5_K" : "Q4_K";
  if (has_more_bits && is_sensitive(layer, layers)) return "Q6_K";
  if (base == "Q4_K" && !has_more_bits && !is_falcon && layer < layers / 8) return "Q5_K";
  return base;
}

// For rows that are no whole number of blocks.
const ggml::BlockType& fitting(std::string_view type, std::int64_t columns) {
  return ggml::fitting_type(named_type(type), columns);
}

// A recipe means what it says, as it does where its weights are quantized at load.
const ggml::BlockType& whole(std::string_view type, std::int64_t columns, std::string_view tensor) {
  const ggml::BlockType& named = named_type(type);
  if (columns % named.elements != 0)
    throw Error("weight '{}': expected a multiple of {} inputs, which a block of {} has, found {}", tensor,
                named.elements, type, columns);
  return named;
}

// The type of a recipe's format.
std::string_view type_of_format(const WeightFormat& format) {
  if (const ggml::BlockType* type = ggml::written_type(format)) return type->name;
  if (format == formats::kFloat32) return "F32";
  if (format == formats::kFloat16) return "F16";
  if (format == formats::kBfloat16) return "BF16";
  throw FieldError("recipe", "a GGUF file cannot be written with {}: expected one of {}",
                   recipe_name_of(format), fmt::join(ggml::quantized_types(), ", "));
}

// The general.file_type of a recipe: that of the mix that most of its matrices would be in.
std::uint32_t file_type_of(std::string_view type) {
  for (const NamedMix& each : kNamedMixes)
    if (each.base == type && !each.has_more_bits) return each.file_type;
  constexpr std::pair<std::string_view, std::uint32_t> kOthers[] = {
      {"Q2_K", 10}, {"Q3_K", 11}, {"IQ4_NL", 25}};
  for (const auto& [base, file_type] : kOthers)
    if (base == type) return file_type;
  return 1;
}

}  // namespace

std::vector<std::string> gguf_mixes() {
  std::vector<std::string> names;
  for (const NamedMix& each : kNamedMixes) names.emplace_back(each.name);
  return names;
}

std::optional<GgufMix> GgufMix::named(std::string_view name) {
  const std::string wanted = upper_case(name);
  for (const NamedMix& each : kNamedMixes) {
    if (each.name != wanted) continue;
    GgufMix mix;
    mix.label_ = each.name;
    mix.file_type_ = each.file_type;
    mix.base_ = each.base;
    mix.has_more_bits_ = each.has_more_bits;
    return mix;
  }
  return std::nullopt;
}

GgufMix GgufMix::of(const Recipe& recipe) {
  GgufMix mix;
  mix.label_ = recipe.label();
  mix.base_ = type_of_format(recipe.default_format);
  mix.file_type_ = file_type_of(mix.base_);
  if (recipe.lm_head) type_of_format(*recipe.lm_head);
  for (const RecipeRule& rule : recipe.rules) type_of_format(rule.format);
  mix.recipe_ = recipe;
  return mix;
}

const ggml::BlockType& GgufMix::type_of(const GgufArchitecture& architecture, const ModelSpec& spec,
                                        std::string_view own, std::string_view module,
                                        const std::vector<std::int64_t>& shape) const {
  // Vectors, norms and positions stay as they are in every mix.
  if (shape.size() < 2 || !own.ends_with(".weight") || own.ends_with("_norm.weight") ||
      own == "position_embd.weight")
    return named_type("F32");
  const std::int64_t columns = shape.back();
  if (!recipe_) {
    const bool is_quantized = !is_plain(base_);
    if (has_importance_ && own.ends_with(".ffn_down.weight") && layer_of(own) < spec.layers / 8 &&
        (base_ == "Q4_0" || base_ == "Q5_0"))
      return fitting(base_ == "Q4_0" ? "Q4_1" : "Q5_1", columns);
    return fitting(
        is_quantized ? type_in_mix(base_, has_more_bits_, architecture.name, spec, own, columns) : base_,
        columns);
  }
  if (own.starts_with("blk.")) return whole(type_of_format(recipe_->format_of(module)), columns, own);
  const bool is_head = own == "output.weight" || (spec.is_head_tied && own == "token_embd.weight");
  const std::string_view plain = spec.has_bfloat16_weights ? "BF16" : "F16";
  return whole(is_head && recipe_->lm_head ? type_of_format(*recipe_->lm_head) : plain, columns, own);
}

void GgufMix::check(const std::vector<std::string>& modules) const {
  if (recipe_) recipe_->check(modules);
}

}  // namespace assay
