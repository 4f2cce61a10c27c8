// Which models a folder can be written of.
#pragma once

#include <string>

#include "assay/checkpoint/source.h"
#include "assay/model/spec.h"

namespace assay {

// Throws Error for a model whose folder would lose something, or that Transformers would read otherwise.
void check_writable(const ModelSpec& spec, const ModelSource& source);

// Throws Error for a model that is quantized already, with what can be done. Messages name the model as
// `candidate`.
void check_unquantized(const std::string& candidate, const ModelSpec& spec, const ModelSource& source);

// Throws Error unless the weights can be read as numbers, dequantized where they are stored quantized, and
// are the tensors that `spec` asks for. Messages name the model as `candidate`.
void check_readable_as_numbers(const std::string& candidate, const ModelSpec& spec,
                               const ModelSource& source);

}  // namespace assay
