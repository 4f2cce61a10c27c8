// What configurations ask for and no family here has: experts, cross attention, state spaces, images.
#pragma once

#include "assay/base/json_view.h"
#include "assay/model/spec.h"

namespace assay {

// Throws Error naming the file, the key, its value and what is supported. Values that mean none are harmless:
// null, false, 0, 1 (one expert is a plain MLP), an empty list. `is_text_part`: of a model that also sees or
// hears, whose other tensors are left out.
void refuse_what_is_absent(const JsonView& config, bool is_text_part);
// Also of families that have no windows and read no list: a layer of another kind is another model.
void refuse_other_layers(const JsonView& config);
// For families whose positions nothing scales. Throws Error for any rope type but the default.
void refuse_rope_scaling(const JsonView& config, const std::string& family);

}  // namespace assay
