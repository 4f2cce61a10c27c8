// The configuration that the metadata of a GGUF file means, with the keys of Transformers' config.json. What
// files leave to the architecture's name is filled in as llama.cpp does.
#pragma once

#include "assay/base/json.h"
#include "assay/base/json_view.h"
#include "assay/checkpoint/gguf_names.h"
#include "assay/checkpoint/gguf_shards.h"

namespace assay {

// By general.architecture. Throws Error naming the file: for an architecture that no family serves, with the
// nearest one that has a family; for files that are no model of text, such as adapters.
const GgufArchitecture& architecture_of(const GgufShards& shards);

// Throws Error naming the file, the key, what was expected and what was found.
Json config_of(const GgufShards& shards, const GgufArchitecture& architecture);
// What the file calls the keys of both configurations, for messages.
JsonView::KeyNames config_key_names(const GgufShards& shards, const GgufArchitecture& architecture);
// What general.file_type calls the mix of types, as llama.cpp names it: "Q4_K_M"; empty where it is missing
// or unknown.
std::string gguf_file_type(const GgufFile& file);
// The tokens that end a text, where the file names any: its own and those that llama.cpp knows by their text.
Json generation_config_of(const GgufFile& file);

// How tensors with rows by head are cut.
struct GgufHeads {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
};
GgufHeads heads_of(const GgufFile& file);

}  // namespace assay
