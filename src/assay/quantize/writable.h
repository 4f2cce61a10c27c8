// Which models a folder can be written of.
#pragma once

#include "assay/checkpoint/source.h"
#include "assay/model/spec.h"

namespace assay {

// Throws Error for a model whose folder would lose something, or that Transformers would read otherwise.
void check_writable(const ModelSpec& spec, const ModelSource& source);

}  // namespace assay
