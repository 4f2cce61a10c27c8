// Model families: each translates the configuration and tensor names into a ModelSpec.
#pragma once

#include <string>
#include <vector>

#include "assay/checkpoint/source.h"
#include "assay/model/spec.h"

namespace assay {

// By the configuration's `model_type`, or of a model that also sees or hears, by that of its `text_config`.
// Throws Error naming the file, the key, what was expected and what was found: for another type, with the
// nearest known one, and for what no family here has, such as a mixture of experts.
ModelSpec spec_from_source(const ModelSource& source);
std::vector<std::string> supported_families();

// An activation's name as Transformers' ACT2FN knows it.
Activation activation_from_name(const std::string& text, const std::string& where);

}  // namespace assay
