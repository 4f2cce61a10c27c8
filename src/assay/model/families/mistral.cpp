// Mistral (Jiang et al. 2023): Llama with a sliding window.
#include "assay/model/families/family.h"

namespace assay {

ModelSpec mistral_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = llama_like_spec(config, "mistral", {.default_context = 131072, .default_kv_heads = 8});
  spec.attention_window = window_from(config, "sliding_window", 4096);
  spec.names = llama_like_names(source);
  return spec;
}

}  // namespace assay
