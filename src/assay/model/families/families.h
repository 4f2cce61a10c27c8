// Model families: each translates config.json and tensor names into a ModelSpec.
#pragma once

#include <string>
#include <vector>

#include "assay/checkpoint/model_folder.h"
#include "assay/model/spec.h"

namespace assay {

// Throws Error naming the file, the key, what was expected and what was found.
ModelSpec gpt2_spec(const ModelFolder& folder);

// By config.json's `model_type`; throws Error listing the supported ones.
ModelSpec spec_from_folder(const ModelFolder& folder);
std::vector<std::string> supported_families();

// Reads an activation's name as Transformers' ACT2FN knows it.
Activation activation_from_name(const std::string& text, const std::string& where);

}  // namespace assay
