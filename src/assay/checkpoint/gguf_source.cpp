#include "assay/checkpoint/gguf_source.h"

#include <utility>

#include "assay/base/tokenizer_files.h"
#include "assay/checkpoint/gguf_keys.h"
#include "assay/checkpoint/gguf_tokenizer.h"
#include "assay/checkpoint/gguf_weights.h"

namespace assay {

GgufSource::GgufSource(const std::filesystem::path& path) : GgufSource(GgufShards(path), path) {}

GgufSource::GgufSource(std::unique_ptr<const GgufFile> whole)
    : GgufSource(GgufShards(std::move(whole)), {}) {}

GgufSource::GgufSource(GgufShards shards, const std::filesystem::path& path)
    : path_(path.empty() ? shards.first().path() : path),
      where_(path_.string()),
      shards_(std::move(shards)),
      architecture_(architecture_of(shards_)),
      checkpoint_(shards_, architecture_),
      config_(config_of(shards_, architecture_)),
      generation_config_(generation_config_of(shards_.first())),
      names_(config_key_names(shards_, architecture_)) {}

std::string GgufSource::file_type() const {
  return gguf_file_type(shards_.first());
}

std::unique_ptr<const QuantizedWeights> GgufSource::quantized_weights() const {
  return std::make_unique<GgufWeights>(checkpoint_);
}

bool GgufSource::has_tokenizer() const {
  return has_gguf_tokenizer(shards_.first());
}

TokenizerFiles GgufSource::tokenizer_files() const {
  return gguf_tokenizer_files(shards_.first());
}

}  // namespace assay
