// A Hugging Face model folder: config.json, safetensors, tokenizer.json.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assay/checkpoint/source.h"

namespace assay {

class ModelFolder : public ModelSource {
 public:
  // Reads config.json, generation_config.json where there is one, and the headers of model.safetensors or of
  // the shards that model.safetensors.index.json names. Throws Error naming the file and what is wrong with
  // it.
  explicit ModelFolder(const std::filesystem::path& folder);
  // The same with weights from elsewhere.
  ModelFolder(const std::filesystem::path& folder, std::unique_ptr<const Checkpoint> checkpoint);
  // A folder whose files have been read; `folder` names it in messages, and its tokenizer is read there.
  ModelFolder(const std::filesystem::path& folder, Json config, Json generation_config,
              std::unique_ptr<const Checkpoint> checkpoint);

  const std::filesystem::path& path() const override { return path_; }
  JsonView config() const override { return {*config_, (path_ / "config.json").string()}; }
  JsonView generation_config() const override {
    return {*generation_config_, (path_ / "generation_config.json").string()};
  }
  const Checkpoint& checkpoint() const override { return *checkpoint_; }
  // By quantization_config. A new method (GPTQ, AWQ) is one more QuantizedWeights and a line here.
  std::unique_ptr<const QuantizedWeights> quantized_weights() const override;
  bool has_tokenizer() const override;
  TokenizerFiles tokenizer_files() const override;
  // Over config.json and every weight file, in the order of their names.
  std::string content_hash() const override;
  // The folder's own files, byte for byte.
  std::vector<Companion> companions() const override;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const Json> config_, generation_config_;
  std::unique_ptr<const Checkpoint> checkpoint_;
};

}  // namespace assay
