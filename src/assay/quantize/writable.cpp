#include "assay/quantize/writable.h"

#include "assay/base/error.h"

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

}  // namespace assay
