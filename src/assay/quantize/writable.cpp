#include "assay/quantize/writable.h"

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"

namespace assay {

void check_writable(const ModelSpec& spec, const ModelSource& source) {
  if (!spec.names.other_modalities.empty())
    throw Error(
        "{}: text_config: a folder of the text part alone would lose the tensors for images or sound: "
        "expected a model of text",
        source.config().where());
  const bool is_conv1d = source.config().text("model_type") == "gpt2";
  if (is_conv1d && !spec.names.linear_is_transposed)
    throw Error(
        "{}: expected the matrices of a gpt2 folder, [in_features, out_features], found them turned round",
        source.path().string());
}

void check_unquantized(const std::string& candidate, const ModelSpec& spec, const ModelSource& source) {
  const auto stored = stored_precision(source, spec);
  if (!stored) return;
  throw Error("{}: the model is quantized already, {}{}", candidate, stored->name,
              can_be_dequantized(source)
                  ? "; --precision bfloat16 writes a folder of its dequantized weights, which can be "
                    "quantized again"
                  : "");
}

void check_readable_as_numbers(const std::string& candidate, const ModelSpec& spec,
                               const ModelSource& source) {
  const auto stored = stored_precision(source, spec);
  if (stored && !can_be_dequantized(source))
    throw Error(
        "{}: the model is quantized already, {}: expected one in float32, float16 or bfloat16, or a "
        "GGUF file",
        candidate, stored->name);
  check_tensors(spec, stored.value_or(precision_of(Preset::float32)), source);
}

}  // namespace assay
