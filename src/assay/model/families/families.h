// Model families: each translates config.json and tensor names into a ModelSpec.
#pragma once

#include <string>
#include <vector>

#include "assay/checkpoint/model_folder.h"
#include "assay/model/spec.h"

namespace assay {

// Each throws Error naming the file, the key, what was expected and what was found.
ModelSpec gpt2_spec(const ModelFolder& folder);
ModelSpec llama_spec(const ModelFolder& folder);

// By config.json's `model_type`; throws Error listing the supported ones.
ModelSpec spec_from_folder(const ModelFolder& folder);
std::vector<std::string> supported_families();

// What several families read alike.
// Sizes beyond these are taken for errors of the file.
inline constexpr std::int64_t kMaxWidth = 1 << 16, kMaxLayers = 1024, kMaxVocab = 1 << 24,
                              kMaxContext = 1 << 22;
// An activation's name as Transformers' ACT2FN knows it.
Activation activation_from_name(const std::string& text, const std::string& where);
// An epsilon that float32 can hold; throws Error for a negative one.
float epsilon_from(const JsonView& config, const char* key, double fallback);
// `eos_token_id`, one or a list, of generation_config.json or else config.json. Ids outside the vocabulary
// are no tokens: a warning of the spec counts them. Throws Error for what is no id.
void read_end_tokens(const ModelFolder& folder, ModelSpec& spec);

}  // namespace assay
