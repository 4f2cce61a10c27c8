// Writes a model as a Hugging Face folder of plain numbers, so that what another file holds, blocks of a GGUF
// file among them, can be taken to Transformers.
#pragma once

#include <filesystem>
#include <string>

#include "assay/quantize/quantize.h"

namespace assay {

// config.json, model.safetensors, and the tokenizer and generation_config.json of the source. The precision
// is float32 or bfloat16; a setting besides it, and a model whose weights cannot be read as numbers, is an
// Error. For quantize_model(), whose promises it keeps.
QuantizeReport write_plain_folder(const std::string& candidate, const std::filesystem::path& out,
                                  const QuantizeOptions& options);

}  // namespace assay
