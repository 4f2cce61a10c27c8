// A Hugging Face model folder: configuration, and a checkpoint of named tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assay/base/json_view.h"
#include "assay/checkpoint/checkpoint.h"

namespace assay {

class ModelFolder {
 public:
  // Reads config.json, generation_config.json where there is one, and the headers of model.safetensors or of
  // the shards that model.safetensors.index.json names. Throws Error naming the file and what is wrong with
  // it.
  explicit ModelFolder(const std::filesystem::path& folder);
  // The same with weights from elsewhere.
  ModelFolder(const std::filesystem::path& folder, std::unique_ptr<const Checkpoint> checkpoint);

  const std::filesystem::path& path() const { return path_; }
  JsonView config() const { return {*config_, (path_ / "config.json").string()}; }
  JsonView generation_config() const {
    return {*generation_config_, (path_ / "generation_config.json").string()};
  }

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  // Of the checkpoint.
  CheckpointTensor find(const std::string& name) const { return checkpoint_->find(name); }
  std::vector<CheckpointTensor> all() const { return checkpoint_->tensors(); }

  // SHA-256 over config.json and every weight file, in the order of their names: the identity of the model.
  // Reads all of them.
  std::string content_hash() const;
  std::uint64_t weight_file_bytes() const { return checkpoint_->file_bytes(); }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const Json> config_, generation_config_;
  std::unique_ptr<const Checkpoint> checkpoint_;
};

// The folder that a candidate names: an existing folder, `demo` (the model that ships with the program), or
// an entry of the Hugging Face cache such as `gpt2`, `org/name` or `org/name@revision` (HF_HUB_CACHE,
// HF_HOME/hub,
// ~/.cache/huggingface/hub). `data_folder` is where demo/ is looked for first: a library inside another
// program, which does not lie beside it, is told so. Throws Error saying where it looked.
std::filesystem::path locate_model(const std::string& candidate,
                                   const std::filesystem::path& data_folder = {});

}  // namespace assay
