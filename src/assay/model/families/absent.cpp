#include "assay/model/families/absent.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "assay/base/error.h"
#include "assay/base/json.h"

namespace assay {

namespace {

// By words of a key, since each family that has such a thing spells its sizes in its own way. No
// configuration that Transformers writes for a family here has one of them with a value that asks for
// something.
struct Absent {
  std::string_view words;  // whole words of a key, between underscores
  std::string_view what;
};
constexpr std::string_view kExperts = "a mixture of experts", kImages = "images", kSound = "sound";
constexpr Absent kAbsent[] = {{"experts", kExperts},
                              {"expert", kExperts},
                              {"moe", kExperts},
                              {"cross_attention", "cross attention"},
                              {"crossattention", "cross attention"},
                              {"encoder_decoder", "an encoder"},
                              {"encoder_layers", "an encoder"},
                              {"mamba", "a state-space layer"},
                              {"mamba2", "a state-space layer"},
                              {"ssm", "a state-space layer"},
                              {"state_size", "a state-space layer"},
                              {"d_state", "a state-space layer"},
                              {"hybrid_override_pattern", "a state-space layer"},
                              {"attn_layer_period", "a state-space layer"},
                              {"lru_width", "a recurrent layer"},
                              {"linear_attn", "linear attention"},
                              {"linear_num_key_heads", "linear attention"},
                              {"linear_num_value_heads", "linear attention"},
                              {"kv_lora_rank", "multi-head latent attention"},
                              {"vision", kImages},
                              {"visual", kImages},
                              {"image", kImages},
                              {"img", kImages},
                              {"video", kImages},
                              {"mm", kImages},
                              {"projector", kImages},
                              {"audio", kSound},
                              {"speech", kSound}};
// Where one of these says that there are no experts, their other keys mean nothing.
constexpr const char* kExpertCounts[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                         "moe_num_experts"};

bool has_words(std::string_view key, std::string_view words) {
  return fmt::format("_{}_", key).find(fmt::format("_{}_", words)) != std::string::npos;
}

bool is_count(std::string_view key) {
  return key.ends_with("experts");
}

// A number in a list is a layer's index, and layer 0 is one, unless the list holds counts.
bool asks_for_something(std::string_view key, const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() > 1 || value.get<double>() < 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty() && value != "none";
  if (value.is_array())
    return std::any_of(value.begin(), value.end(), [&](const Json& each) {
      return (each.is_number() && !is_count(key)) || asks_for_something(key, each);
    });
  return !value.empty();
}

// Tokens that stand for an image are ids of the vocabulary, whether or not anything sees.
bool is_token(std::string_view key) {
  return key.ends_with("_token") || key.ends_with("_token_id") || key.ends_with("_token_index");
}

bool has_no_experts(const JsonView& config) {
  bool has_count = false;
  for (const char* key : kExpertCounts) {
    if (!config.has(key)) continue;
    if (asks_for_something(key, config.raw().at(key))) return false;
    has_count = true;
  }
  return has_count;
}

std::string short_text(const Json& value) {
  return shown_value(value);
}

}  // namespace

void refuse_what_is_absent(const JsonView& config, bool is_text_part) {
  const bool is_dense = has_no_experts(config);
  for (const auto& [words, what] : kAbsent)
    for (const auto& [key, value] : config.raw().items()) {
      if (!has_words(key, words) || is_token(key) || !asks_for_something(key, value)) continue;
      const bool is_other_sense = what == kImages || what == kSound;
      if ((what == kExperts && is_dense) || (is_other_sense && is_text_part)) continue;
      if (is_other_sense)
        throw Error(
            "{}: {} {} is not supported without a text_config beside it: expected a model of text, "
            "not of {}",
            config.where(), printable(config.name_of(key).substr(0, 64)), short_text(value), what);
      throw Error("{}: {} {} is not supported: expected a dense decoder alone, not {}", config.where(),
                  printable(config.name_of(key).substr(0, 64)), short_text(value), what);
    }
}

void refuse_other_layers(const JsonView& config) {
  for (const char* key : {"layer_types", "layers_block_type", "block_types"}) {
    if (!config.has(key)) continue;
    const Json& types = config.raw().at(key);
    if (!types.is_array())
      throw Error("{}: expected a list of types, one a layer, found {}", config.where(key),
                  short_text(types));
    for (const Json& type : types)
      if (type != "full_attention" && type != "sliding_attention" && type != "attention")
        throw Error("{}: {} is not supported; expected full_attention or sliding_attention",
                    config.where(key), short_text(type));
  }
}

void refuse_rope_scaling(const JsonView& config, const std::string& family) {
  for (const char* section_key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(section_key)) continue;
    const JsonView section = config.object(section_key);
    for (const char* key : {"rope_type", "type"})
      if (section.has(key) && section.raw().at(key) != "default")
        throw Error("{} {} is not supported: expected default, since nothing scales the positions of {}",
                    section.where(key), short_text(section.raw().at(key)), family);
  }
}

}  // namespace assay
