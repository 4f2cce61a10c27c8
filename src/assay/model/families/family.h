// What the files of model families are made with: one function each, and the readers that several share.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "assay/checkpoint/source.h"
#include "assay/model/families/families.h"
#include "assay/model/rotary.h"
#include "assay/model/spec.h"

namespace assay {

// `config` is config.json, or its text_config. Each throws Error naming the file, the key, what was expected
// and what was found.
ModelSpec bloom_spec(const JsonView& config, const ModelSource& source);
ModelSpec cohere_spec(const JsonView& config, const ModelSource& source);
ModelSpec falcon_spec(const JsonView& config, const ModelSource& source);
ModelSpec gemma_spec(const JsonView& config, const ModelSource& source);
ModelSpec gemma2_spec(const JsonView& config, const ModelSource& source);
ModelSpec gemma3_spec(const JsonView& config, const ModelSource& source);
ModelSpec gpt2_spec(const JsonView& config, const ModelSource& source);
ModelSpec gpt_neo_spec(const JsonView& config, const ModelSource& source);
ModelSpec gpt_neox_spec(const JsonView& config, const ModelSource& source);
ModelSpec gptj_spec(const JsonView& config, const ModelSource& source);
ModelSpec granite_spec(const JsonView& config, const ModelSource& source);
ModelSpec llama_spec(const JsonView& config, const ModelSource& source);
ModelSpec mistral_spec(const JsonView& config, const ModelSource& source);
ModelSpec olmo2_spec(const JsonView& config, const ModelSource& source);
ModelSpec opt_spec(const JsonView& config, const ModelSource& source);
ModelSpec phi_spec(const JsonView& config, const ModelSource& source);
ModelSpec phi3_spec(const JsonView& config, const ModelSource& source);
ModelSpec qwen2_spec(const JsonView& config, const ModelSource& source);
ModelSpec qwen3_spec(const JsonView& config, const ModelSource& source);
ModelSpec smollm3_spec(const JsonView& config, const ModelSource& source);
ModelSpec stablelm_spec(const JsonView& config, const ModelSource& source);
ModelSpec starcoder2_spec(const JsonView& config, const ModelSource& source);

// Sizes beyond these are taken for errors of the file.
inline constexpr std::int64_t kMaxWidth = 1 << 16, kMaxLayers = 1024, kMaxVocab = 1 << 24,
                              kMaxContext = 1 << 22;

// The keys of a configuration's sizes, and those that it may leave out. An empty key is never read.
struct SizeKeys {
  const char* context = "max_position_embeddings";
  const char* hidden = "hidden_size";
  const char* mlp_hidden = "intermediate_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* kv_heads = "num_key_value_heads";
  const char* head_dim = "head_dim";
  std::int64_t default_vocab = 0;  // 0: the key is needed
  std::int64_t default_heads = 0;  // 0: the key is needed
  std::int64_t default_context = 2048;
  std::int64_t default_kv_heads = 0;  // 0: as many as heads
  std::int64_t default_head_dim = 0;  // 0: hidden / heads
  bool has_default_mlp = false;       // 4 * hidden
};
ModelSpec read_sizes(const JsonView& config, const char* family, const SizeKeys& keys = {});

// RMSNorm, rotary positions, a gated MLP and an own LM head, without biases: what Llama and many others are.
ModelSpec llama_like_spec(const JsonView& config, const char* family, const SizeKeys& keys = {},
                          const RotaryKeys& rotary = {});
// Their names, of modules in "model.layers.{}.".
TensorNames llama_like_names(const ModelSource& source);

// The first of the keys that the configuration has, or else the first.
const char* first_key(const JsonView& config, std::initializer_list<const char*> keys);

// What the names of a source's tensors begin with: `prefix`, nothing where a bare model was saved, or either
// behind the name that a model which also sees or hears gives its text part. `probe` is a tensor that all of
// them have.
std::string prefix_of(const ModelSource& source, const std::string& prefix, const std::string& probe);
// The LM head's tensor, behind the same name of a text part.
std::string head_of(const ModelSource& source);

// By the name that the key has.
Activation activation_of(const JsonView& config, const char* key, const char* fallback);
// An epsilon that float32 can hold; throws Error for a negative one.
float epsilon_from(const JsonView& config, const char* key, double fallback);
// A factor that is positive and that float32 can hold.
float factor_from(const JsonView& config, const char* key, double fallback);
// A soft cap: null and 0 are none.
float cap_from(const JsonView& config, const char* key, double fallback);
// A window: 0 where the key is null, `fallback` where it is missing.
std::int64_t window_from(const JsonView& config, const char* key, std::int64_t fallback);
// Which layers have the window, by `layer_types`, or where there are none by `has_window`.
template <typename HasWindow>
void read_layer_types(const JsonView& config, ModelSpec& spec, const HasWindow& has_window);
// By `layer_types`; false where there are none. Throws Error naming a type that is neither full_attention nor
// sliding_attention.
bool read_layer_types(const JsonView& config, ModelSpec& spec);
// Slopes of ALiBi as BLOOM has them: powers of 2^(-8 / heads), and for other numbers of heads than powers of
// two every second of the next one's behind them.
std::vector<float> alibi_slopes(int heads);
// Throws Error where the boolean is not the one that is supported.
void require_boolean(const JsonView& config, const char* key, bool expected, const char* why);
// `eos_token_id`, one or a list, of generation_config.json or else the configuration. Ids outside the
// vocabulary are no tokens: a warning of the spec counts them. Throws Error for what is no id.
void read_end_tokens(const JsonView& config, const ModelSource& source, ModelSpec& spec);

template <typename HasWindow>
void read_layer_types(const JsonView& config, ModelSpec& spec, const HasWindow& has_window) {
  if (read_layer_types(config, spec)) return;
  for (int layer = 0; layer < spec.layers; ++layer) spec.has_window.push_back(has_window(layer));
}

}  // namespace assay
