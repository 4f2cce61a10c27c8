#include "assay/checkpoint/gguf_names.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace assay {

namespace {

using Change = GgufChange;

constexpr GgufName kLlamaNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
    {"blk.#.attn_q", "model.layers.#.self_attn.q_proj"},
    {"blk.#.attn_k", "model.layers.#.self_attn.k_proj"},
    {"blk.#.attn_v", "model.layers.#.self_attn.v_proj"},
    {"blk.#.attn_output", "model.layers.#.self_attn.o_proj"},
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm"},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm"},
    {"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm"},
    {"blk.#.ffn_gate", "model.layers.#.mlp.gate_proj"},
    {"blk.#.ffn_up", "model.layers.#.mlp.up_proj"},
    {"blk.#.ffn_down", "model.layers.#.mlp.down_proj"},
};
// For the architectures whose pairs were moved.
constexpr GgufName kRotatedNames[] = {
    {"blk.#.attn_q", "model.layers.#.self_attn.q_proj", Change::rotated_queries},
    {"blk.#.attn_k", "model.layers.#.self_attn.k_proj", Change::rotated_keys},
};
constexpr GgufName kGemmaNames[] = {
    {"output_norm", "model.norm", Change::one_was_added},
    {"blk.#.attn_norm", "model.layers.#.input_layernorm", Change::one_was_added},
    {"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm", Change::one_was_added},
};
constexpr GgufName kGemma2Names[] = {
    {"output_norm", "model.norm", Change::one_was_added},
    {"blk.#.attn_norm", "model.layers.#.input_layernorm", Change::one_was_added},
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm", Change::one_was_added},
    {"blk.#.ffn_norm", "model.layers.#.pre_feedforward_layernorm", Change::one_was_added},
    {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm", Change::one_was_added},
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm", Change::one_was_added},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm", Change::one_was_added},
};
constexpr GgufName kOlmo2Names[] = {
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
    {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm"},
};
constexpr GgufName kPhiNames[] = {
    {"output_norm", "model.final_layernorm"},
    {"blk.#.attn_output", "model.layers.#.self_attn.dense"},
    {"blk.#.ffn_up", "model.layers.#.mlp.fc1"},
    {"blk.#.ffn_down", "model.layers.#.mlp.fc2"},
};
constexpr GgufName kPhi3Names[] = {
    {"blk.#.attn_qkv", "model.layers.#.self_attn.qkv_proj"},
    {"blk.#.ffn_up", "model.layers.#.mlp.gate_up_proj"},
};
constexpr GgufName kStablelmNames[] = {
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.q_layernorm.norms.#", Change::split_by_head},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_layernorm.norms.#", Change::split_by_head},
};
constexpr GgufName kStarcoder2Names[] = {
    {"blk.#.ffn_up", "model.layers.#.mlp.c_fc"},
    {"blk.#.ffn_down", "model.layers.#.mlp.c_proj"},
};
constexpr GgufName kGpt2Names[] = {
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output_norm", "transformer.ln_f"},
    {"output", "lm_head"},
    {"blk.#.attn_norm", "transformer.h.#.ln_1"},
    {"blk.#.attn_qkv", "transformer.h.#.attn.c_attn"},
    {"blk.#.attn_output", "transformer.h.#.attn.c_proj"},
    {"blk.#.ffn_norm", "transformer.h.#.ln_2"},
    {"blk.#.ffn_up", "transformer.h.#.mlp.c_fc"},
    {"blk.#.ffn_down", "transformer.h.#.mlp.c_proj"},
};
constexpr GgufName kGptNeoxNames[] = {
    {"token_embd", "gpt_neox.embed_in"},
    {"output_norm", "gpt_neox.final_layer_norm"},
    {"output", "embed_out"},
    {"blk.#.attn_norm", "gpt_neox.layers.#.input_layernorm"},
    {"blk.#.attn_qkv", "gpt_neox.layers.#.attention.query_key_value", Change::heads_apart},
    {"blk.#.attn_output", "gpt_neox.layers.#.attention.dense"},
    {"blk.#.ffn_norm", "gpt_neox.layers.#.post_attention_layernorm"},
    {"blk.#.ffn_up", "gpt_neox.layers.#.mlp.dense_h_to_4h"},
    {"blk.#.ffn_down", "gpt_neox.layers.#.mlp.dense_4h_to_h"},
};
constexpr GgufName kFalconNames[] = {
    {"token_embd", "transformer.word_embeddings"},
    {"token_embd_norm", "transformer.word_embeddings_layernorm"},
    {"output_norm", "transformer.ln_f"},
    {"output", "lm_head"},
    {"blk.#.attn_norm", "transformer.h.#.input_layernorm"},
    {"blk.#.attn_norm_2", "transformer.h.#.ln_attn"},
    {"blk.#.attn_qkv", "transformer.h.#.self_attention.query_key_value", Change::heads_apart},
    {"blk.#.attn_output", "transformer.h.#.self_attention.dense"},
    {"blk.#.ffn_norm", "transformer.h.#.post_attention_layernorm"},
    {"blk.#.ffn_up", "transformer.h.#.mlp.dense_h_to_4h"},
    {"blk.#.ffn_down", "transformer.h.#.mlp.dense_4h_to_h"},
};
constexpr GgufName kSecondNormNames[] = {{"blk.#.attn_norm", "transformer.h.#.ln_mlp"}};
constexpr GgufName kNone[] = {{"", ""}};

constexpr GgufArchitecture kArchitectures[] = {
    {"bloom", "bloom", kFalconNames},
    {"command-r", "cohere", kNone, kLlamaNames},
    {"falcon", "falcon", kFalconNames},
    {"falcon", "falcon", kSecondNormNames, kFalconNames, true},
    {"gemma", "gemma", kGemmaNames, kLlamaNames},
    {"gemma2", "gemma2", kGemma2Names, kLlamaNames},
    {"gemma3", "gemma3_text", kGemma2Names, kLlamaNames},
    {"gpt2", "gpt2", kGpt2Names},
    {"gptneox", "gpt_neox", kGptNeoxNames},
    {"granite", "granite", kRotatedNames, kLlamaNames},
    {"llama", "llama", kRotatedNames, kLlamaNames},
    {"olmo2", "olmo2", kOlmo2Names, kLlamaNames},
    {"phi2", "phi", kPhiNames, kLlamaNames},
    {"phi3", "phi3", kPhi3Names, kLlamaNames},
    {"qwen2", "qwen2", kNone, kLlamaNames},
    {"qwen3", "qwen3", kNone, kLlamaNames},
    {"smollm3", "smollm3", kRotatedNames, kLlamaNames},
    {"stablelm", "stablelm", kStablelmNames, kLlamaNames},
    {"starcoder2", "starcoder2", kStarcoder2Names, kLlamaNames},
};

// What writes the tensors of a model of this type to the architecture of another: the files do not tell them
// apart.
constexpr std::pair<std::string_view, std::string_view> kWrittenAs[] = {{"mistral", "llama"}};

// The numbers that stand in `name` where `pattern` has '#'; nothing where it does not fit.
std::optional<std::vector<std::string>> numbers_in(std::string_view pattern, std::string_view name) {
  std::vector<std::string> numbers;
  while (!pattern.empty()) {
    if (pattern.front() != '#') {
      if (name.empty() || name.front() != pattern.front()) return std::nullopt;
      pattern.remove_prefix(1), name.remove_prefix(1);
      continue;
    }
    const std::size_t end = std::min(name.find_first_not_of("0123456789"), name.size());
    if (end == 0) return std::nullopt;
    numbers.emplace_back(name.substr(0, end));
    pattern.remove_prefix(1), name.remove_prefix(end);
  }
  if (!name.empty()) return std::nullopt;
  return numbers;
}

// "blk.3.attn_q" is "blk.#.attn_q" and "3".
std::string without_block(std::string_view name, std::string_view& block) {
  constexpr std::string_view kBlock = "blk.";
  if (!name.starts_with(kBlock)) return std::string(name);
  const std::size_t end = name.find('.', kBlock.size());
  if (end == std::string_view::npos) return std::string(name);
  block = name.substr(kBlock.size(), end - kBlock.size());
  return "blk.#" + std::string(name.substr(end));
}

// The name of a tensor whose file has the prefix of the whole model.
GgufOwnName own_name(const GgufArchitecture& architecture, std::string_view tensor) {
  constexpr std::size_t kLongestNumber = 9;
  std::string_view suffix;
  for (const std::string_view each : {".weight", ".bias"})
    if (tensor.ends_with(each)) suffix = each;
  const std::string_view module = tensor.substr(0, tensor.size() - suffix.size());
  for (const std::span<const GgufName> table : {architecture.names, architecture.more_names})
    for (const GgufName& name : table) {
      const auto numbers = suffix.empty() ? std::nullopt : numbers_in(name.transformers, module);
      if (!numbers) continue;
      std::string own(name.own);
      if (const std::size_t at = own.find('#'); at != std::string::npos) own.replace(at, 1, numbers->front());
      own += suffix;
      // Another table may have the own name for another tensor.
      const GgufTranslation back = translated(architecture, own);
      const bool is_by_head = name.change == GgufChange::split_by_head;
      if (!is_by_head && back.name != tensor) continue;
      if (is_by_head && (numbers->size() < 2 || numbers->back().size() > kLongestNumber)) continue;
      return {own, name.change, true, is_by_head ? std::stoll(numbers->back()) : 0};
    }
  return {std::string(tensor)};
}

}  // namespace

const GgufArchitecture* gguf_architecture(std::string_view name, bool has_second_norm) {
  const GgufArchitecture* found = nullptr;
  for (const GgufArchitecture& each : kArchitectures)
    if (each.name == name && (found == nullptr || each.has_second_norm == has_second_norm)) found = &each;
  return found;
}

std::vector<std::string> gguf_architectures() {
  std::vector<std::string> names;
  for (const GgufArchitecture& each : kArchitectures)
    if (!each.has_second_norm) names.emplace_back(each.name);
  return names;
}

GgufTranslation translated(const GgufArchitecture& architecture, std::string_view tensor) {
  std::string_view suffix;
  for (const std::string_view each : {".weight", ".bias"})
    if (tensor.ends_with(each)) suffix = each;
  std::string_view block;
  const std::string own = without_block(tensor.substr(0, tensor.size() - suffix.size()), block);
  for (const std::span<const GgufName> table : {architecture.names, architecture.more_names})
    for (const GgufName& name : table) {
      if (name.own != own || suffix.empty()) continue;
      std::string found(name.transformers);
      if (const std::size_t at = found.find('#'); at != std::string::npos) found.replace(at, 1, block);
      return {found + std::string(suffix), name.change, true};
    }
  return {std::string(tensor), GgufChange::none, false};
}

const GgufArchitecture* gguf_architecture_of_model(std::string_view model_type, bool has_second_norm) {
  for (const auto& [model, other] : kWrittenAs)
    if (model == model_type) model_type = other;
  for (const GgufArchitecture& each : kArchitectures)
    if (each.model_type == model_type && each.has_second_norm == has_second_norm) return &each;
  return nullptr;
}

GgufOwnName gguf_name_of(const GgufArchitecture& architecture, std::string_view tensor) {
  GgufOwnName found = own_name(architecture, tensor);
  if (found.is_known) return found;
  // Files of a model without its LM head leave the prefix of all others out.
  const std::string embedding = translated(architecture, "token_embd.weight").name;
  return own_name(architecture, embedding.substr(0, embedding.find('.') + 1) + std::string(tensor));
}

std::string gguf_sibling(std::string_view tensor, std::string_view module) {
  const std::size_t suffix = tensor.rfind('.'), begin = tensor.rfind('.', suffix - 1) + 1;
  return std::string(tensor.substr(0, begin)) + std::string(module) + std::string(tensor.substr(suffix));
}

}  // namespace assay
