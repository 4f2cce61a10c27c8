// The architectures of GGUF files that a family here serves: what they and their tensors are called in
// Transformers, and what llama.cpp's converters changed about each tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// What a converter did to the rows of a tensor (of a bias, its elements), and is undone on reading.
enum class GgufChange {
  none,
  rotated_queries,  // pairs of rotary embedding moved side by side: rows i and i + half of a head
  rotated_keys,
  heads_apart,    // the queries, key and value of each key head were regrouped to all of each kind
  one_was_added,  // to each element: norms that multiply by 1 + weight
  split_by_head,  // a row for each head; Transformers has a tensor for each, named by the second '#'
};

// Names without ".weight" or ".bias"; '#' stands for the number of a block.
struct GgufName {
  std::string_view own, transformers;
  GgufChange change = GgufChange::none;
};

struct GgufArchitecture {
  std::string_view name;        // general.architecture
  std::string_view model_type;  // in config.json
  std::span<const GgufName> names;
  std::span<const GgufName> more_names = {};  // looked up where `names` has none
  bool has_second_norm = false;  // in each block: Falcon from 40B on, whose first one is that of the MLP
};

// Null where no family serves it.
const GgufArchitecture* gguf_architecture(std::string_view name, bool has_second_norm = false);
// Each once.
std::vector<std::string> gguf_architectures();
// By what config.json calls the model; null where no architecture has its tensors.
const GgufArchitecture* gguf_architecture_of_model(std::string_view model_type, bool has_second_norm);

// What the tensor is called in Transformers, with its ".weight" or ".bias", and '#' for a head where there is
// one for each; null change where the table does not know it: then it keeps its name.
struct GgufTranslation {
  std::string name;
  GgufChange change = GgufChange::none;
  bool is_known = false;
};
GgufTranslation translated(const GgufArchitecture& architecture, std::string_view tensor);
// The way back: what a tensor of Transformers is called in the file, and what converters do to it. Of one for
// each head (split_by_head) the name is that of all heads together, and `head` its number.
struct GgufOwnName {
  std::string name;
  GgufChange change = GgufChange::none;
  bool is_known = false;
  std::int64_t head = 0;
};
GgufOwnName gguf_name_of(const GgufArchitecture& architecture, std::string_view tensor);
// The own name of a module in the block of `tensor`: of "blk.3.attn_qkv.weight" and "attn_q",
// "blk.3.attn_q.weight".
std::string gguf_sibling(std::string_view tensor, std::string_view module);

}  // namespace assay
