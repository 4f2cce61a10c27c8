// A model in a GGUF file, or in its shards.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "assay/base/json.h"
#include "assay/checkpoint/gguf_checkpoint.h"
#include "assay/checkpoint/gguf_shards.h"
#include "assay/checkpoint/source.h"

namespace assay {

class GgufSource : public ModelSource {
 public:
  // One of the model's files. Throws Error, see GgufFile, GgufShards, gguf_keys.h and GgufCheckpoint.
  explicit GgufSource(const std::filesystem::path& path);
  // A file that is open already and is the whole model.
  explicit GgufSource(std::unique_ptr<const GgufFile> whole);

  const std::filesystem::path& path() const override { return path_; }
  JsonView config() const override { return {config_, where_, &names_}; }
  JsonView generation_config() const override { return {generation_config_, where_, &names_}; }
  const Checkpoint& checkpoint() const override { return checkpoint_; }
  std::string file_type() const override;
  std::unique_ptr<const QuantizedWeights> quantized_weights() const override;
  bool has_tokenizer() const override;
  TokenizerFiles tokenizer_files() const override;

 private:
  // No path: that of the first shard.
  GgufSource(GgufShards shards, const std::filesystem::path& path);

  std::filesystem::path path_;
  std::string where_;
  GgufShards shards_;
  const GgufArchitecture& architecture_;
  GgufCheckpoint checkpoint_;
  Json config_, generation_config_;
  JsonView::KeyNames names_;
};

}  // namespace assay
