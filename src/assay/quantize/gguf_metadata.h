// What a GGUF file says of a model besides its tensors and its tokenizer: the inverse of gguf_keys.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "assay/checkpoint/gguf_names.h"
#include "assay/checkpoint/gguf_writer.h"
#include "assay/checkpoint/source.h"
#include "assay/model/spec.h"

namespace assay {

// Small tensors that stand for metadata: factors of rotary frequencies, by name.
using GgufFactors = std::map<std::string, std::vector<float>>;

// The architecture whose tensors the model has. Throws Error for a family that llama.cpp's files have none
// for, or none that the reader knows, and for what llama.cpp would look for in vain or refuse: an LM head,
// biases, soft caps.
const GgufArchitecture& gguf_architecture_of(const ModelSpec& spec, const ModelSource& source);

// What llama.cpp does otherwise with such a file, as clauses.
std::vector<std::string> gguf_warnings(const GgufArchitecture& architecture, const ModelSpec& spec);
// Adds the keys, and returns the tensors that belong to them. What the keys cannot say is found by
// check_gguf_model().
GgufFactors add_gguf_metadata(const GgufArchitecture& architecture, const ModelSpec& spec,
                              const ModelSource& source, GgufWriter& writer);

// Throws Error naming the first thing that a model read from the file would do otherwise: `written` is its
// specification, `spec` that of the model that was written.
void check_gguf_model(const ModelSpec& spec, const ModelSpec& written, const ModelSource& source);

}  // namespace assay
