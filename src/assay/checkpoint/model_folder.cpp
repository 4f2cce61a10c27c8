#include "assay/checkpoint/model_folder.h"

#include <utility>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/json.h"
#include "assay/base/tokenizer_files.h"
#include "assay/checkpoint/bitsandbytes_weights.h"
#include "assay/checkpoint/configuration_file.h"
#include "assay/checkpoint/folder_content.h"
#include "assay/checkpoint/int8_weights.h"
#include "assay/checkpoint/safetensors_checkpoint.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

std::unique_ptr<const Checkpoint> open_checkpoint(const fs::path& folder) {
  const fs::path single = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  if (fs::exists(single)) return SafetensorsCheckpoint::open_file(single);
  if (fs::exists(index)) return SafetensorsCheckpoint::open_shards(index);
  throw Error("{}: neither model.safetensors nor model.safetensors.index.json found{}{}", folder.string(),
              place_of(folder), advice_on(folder));
}

}  // namespace

ModelFolder::ModelFolder(const fs::path& folder) : ModelFolder(folder, nullptr) {}

ModelFolder::ModelFolder(const fs::path& folder, std::unique_ptr<const Checkpoint> checkpoint)
    : path_(folder) {
  if (!fs::is_directory(folder)) throw Error("{}: no such model folder", folder.string());
  if (!fs::exists(folder / "config.json"))
    throw Error("{}: config.json is missing{}{}", folder.string(), place_of(folder), advice_on(folder));
  config_ = std::make_shared<const Json>(read_configuration(folder / "config.json"));
  const fs::path generation = folder / "generation_config.json";
  generation_config_ =
      std::make_shared<const Json>(fs::exists(generation) ? read_configuration(generation) : Json::object());
  checkpoint_ = checkpoint != nullptr ? std::move(checkpoint) : open_checkpoint(folder);
}

ModelFolder::ModelFolder(const fs::path& folder, Json config, Json generation_config,
                         std::unique_ptr<const Checkpoint> checkpoint)
    : path_(folder),
      config_(std::make_shared<const Json>(std::move(config))),
      generation_config_(std::make_shared<const Json>(std::move(generation_config))),
      checkpoint_(std::move(checkpoint)) {}

std::unique_ptr<const QuantizedWeights> ModelFolder::quantized_weights() const {
  if (const auto own = int8_checkpoint::config_from(config()))
    return std::make_unique<Int8Weights>(*checkpoint_, *own);
  if (const auto other = bitsandbytes::config_from(config()))
    return std::make_unique<BitsandbytesWeights>(*checkpoint_, *other);
  return nullptr;
}

bool ModelFolder::has_tokenizer() const {
  return has_tokenizer_files(path_);
}

TokenizerFiles ModelFolder::tokenizer_files() const {
  return read_tokenizer_files(path_);
}

std::vector<ModelSource::Companion> ModelFolder::companions() const {
  std::vector<Companion> files;
  for (const fs::path& name : files_beside_weights(path_)) files.push_back({name.string(), "", path_ / name});
  return files;
}

std::string ModelFolder::content_hash() const {
  std::vector<fs::path> files = checkpoint_->files();
  files.insert(files.begin(), path_ / "config.json");
  return hash_of(files);
}

}  // namespace assay
