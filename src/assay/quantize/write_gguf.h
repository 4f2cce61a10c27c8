// Writes a model as a GGUF file, which llama.cpp loads and this library too.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "assay/quantize/gguf_mix.h"
#include "assay/quantize/quantize.h"

namespace assay {

struct GgufOptions {
  GgufMix mix;
  std::optional<int> threads = {};
  bool replaces = false;  // a GGUF file that stands at the target
  // A text over which the inputs of every matrix are measured: errors weigh as much as those are large.
  std::optional<std::filesystem::path> importance = {};
  QuantizeProgress on_progress = {};
  std::function<bool()> should_stop = {};
};

// Writes the tensors as llama.cpp's converters name and order them, in the types of the mix, the metadata and
// the tokenizer; with an importance matrix its text is named, as llama-quantize does. Blocks are made of the
// weights as the model's files have them, some rows at a time. The file is read back (its metadata and
// tokenizer) before any weight is written: what it would lose is an Error then. `out` appears complete or not
// at all. Throws Error too for a model without an architecture there, weights that are quantized otherwise
// than in blocks of GGUF, a text that is too short, numbers that are not finite or too large for float16
// scales, a target that exists, and where should_stop said so.
QuantizeReport write_gguf(const std::string& candidate, const std::filesystem::path& out,
                          const GgufOptions& options);

}  // namespace assay
