#include "assay/checkpoint/model_folder.h"

#include <algorithm>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/json.h"
#include "assay/base/sha256.h"
#include "assay/checkpoint/configuration_file.h"
#include "assay/checkpoint/safetensors_checkpoint.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

std::unique_ptr<const Checkpoint> open_checkpoint(const fs::path& folder) {
  const fs::path single = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  if (fs::exists(single)) return SafetensorsCheckpoint::open_file(single);
  if (fs::exists(index)) return SafetensorsCheckpoint::open_shards(index);
  if (fs::exists(folder / "pytorch_model.bin"))
    throw Error(
        "{}: only pytorch_model.bin found; expected model.safetensors (save it again with "
        "safe_serialization=True)",
        folder.string());
  throw Error("{}: neither model.safetensors nor model.safetensors.index.json found", folder.string());
}

}  // namespace

ModelFolder::ModelFolder(const fs::path& folder) : ModelFolder(folder, nullptr) {}

ModelFolder::ModelFolder(const fs::path& folder, std::unique_ptr<const Checkpoint> checkpoint)
    : path_(folder) {
  if (!fs::is_directory(folder)) throw Error("{}: no such model folder", folder.string());
  if (!fs::exists(folder / "config.json")) throw Error("{}: config.json is missing", folder.string());
  config_ = std::make_shared<const Json>(read_configuration(folder / "config.json"));
  const fs::path generation = folder / "generation_config.json";
  generation_config_ =
      std::make_shared<const Json>(fs::exists(generation) ? read_configuration(generation) : Json::object());
  checkpoint_ = checkpoint != nullptr ? std::move(checkpoint) : open_checkpoint(folder);
}

std::string ModelFolder::content_hash() const {
  Sha256 hash;
  const auto add = [&](const fs::path& path) {
    const ReadFile file(path);
    std::vector<std::byte> slab(std::size_t{4} << 20);
    for (std::uint64_t offset = 0; offset < file.size();) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(slab.size(), file.size() - offset));
      file.read_exactly(offset, std::span(slab.data(), n));
      hash.update(std::span<const std::byte>(slab.data(), n));
      offset += n;
    }
  };
  add(path_ / "config.json");
  for (const fs::path& file : checkpoint_->files()) add(file);
  return hash.hex();
}

}  // namespace assay
